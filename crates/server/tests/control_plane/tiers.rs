//! `/v1/tiers`: made, shown, listed, deleted, and what is refused.

use serde_json::json;

use crate::{POLICIES, empty, golden, hourly};

#[test]
fn a_tier_is_made_replaced_shown_and_deleted() {
    let (_server, admin) = empty();
    admin.get("/v1/tiers/gold").problem(404);
    let made = admin.put("/v1/tiers/gold", &json!({}));
    assert_eq!(made.expect(201), json!({"tier": "gold"}));
    let replaced = admin.put("/v1/tiers/gold", &json!({"tier": "gold"}));
    replaced.expect(200);
    assert_ne!(made.header("etag"), replaced.header("etag"));
    let shown = admin.get("/v1/tiers/gold");
    assert_eq!(shown.expect(200), json!({"tier": "gold"}));
    assert_eq!(shown.header("etag"), replaced.header("etag"));
    assert_eq!(
        admin.get("/v1/tiers").expect(200),
        json!({"items": [{"tier": "gold"}], "nextCursor": null})
    );
    admin.remove("/v1/tiers/gold");
    admin.get("/v1/tiers/gold").problem(404);
    admin.delete("/v1/tiers/gold").problem(404);
    assert!(admin.items("/v1/tiers").is_empty());
    assert_eq!(admin.changes(), 3);
}

#[test]
fn a_tier_in_use_stays() {
    let (server, admin) = golden();
    let said = admin.delete("/v1/tiers/gold").problem(409);
    assert!(said.contains("1 orgs and 1 policies"), "{said}");
    admin.remove("/v1/orgs/acme");
    admin.delete("/v1/tiers/gold").problem(409);
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    admin.remove(&format!("{POLICIES}/gold-org"));
    admin.delete("/v1/tiers/gold").problem(409);
    admin.get("/v1/tiers/gold").expect(200);
    admin.set(POLICIES, &hourly("gold-org", "gold", "org", 3));
    server.allowed(&json!({"orgId": "acme"}));
    admin.set("/v1/orgs/acme", &json!({}));
    admin.remove(&format!("{POLICIES}/gold-org"));
    admin.remove("/v1/tiers/gold");
}

#[test]
fn a_list_comes_page_by_page() {
    let (_server, admin) = empty();
    let names = ["a", "b", "b/c", "d", "ü"];
    for name in ["d", "%C3%BC", "b%2Fc", "a", "b"] {
        admin.set(&format!("/v1/tiers/{name}"), &json!({}));
    }
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = admin.get(&format!("/v1/tiers?limit=2{cursor}")).expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2);
        seen.extend(items.iter().map(|item| item["tier"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={}", next.replace('/', "%2F").replace('ü', "%C3%BC"));
    }
    assert_eq!(seen, names);
    assert_eq!(admin.items("/v1/tiers?cursor=zzz"), [json!({"tier": "ü"})]);
    for limit in ["0", "-1", "1001", "ten", "", "1e2", "99999999999999999999"] {
        let said = admin.get(&format!("/v1/tiers?limit={limit}")).problem(400);
        assert!(said.contains("`limit`"), "{said}");
    }
    admin.get("/v1/tiers?limit=1000").expect(200);
}

#[test]
fn a_name_may_be_odd_but_not_unprintable() {
    let (_server, admin) = empty();
    for (target, name) in [
        ("a%2Fb", "a/b".to_owned()),
        ("a%20b", "a b".to_owned()),
        ("%C3%BC%E2%98%83", "ü☃".to_owned()),
        ("%252F", "%2F".to_owned()),
        ("..", "..".to_owned()),
        ("%22%27%3B--", "\"';--".to_owned()),
        (&"x".repeat(256), "x".repeat(256)),
    ] {
        let target = format!("/v1/tiers/{target}");
        assert_eq!(admin.put(&target, &json!({})).expect(201), json!({"tier": name}));
        assert_eq!(admin.get(&target).expect(200), json!({"tier": name}));
        admin.remove(&target);
    }
    let before = admin.changes();
    let long = "x".repeat(257);
    for target in ["a%0Ab", "%7F", "%C2%85", "*", &long] {
        let said = admin.put(&format!("/v1/tiers/{target}"), &json!({})).problem(422);
        assert!(said.contains("tier: "), "{said}");
        admin.get(&format!("/v1/tiers/{target}")).problem(404);
    }
    for target in ["%00", "a%00b", "%FF", "%C3"] {
        for method in ["GET", "PUT", "DELETE"] {
            let target = format!("/v1/tiers/{target}");
            admin.ask(method, &target).body("{}").send().problem(400);
        }
    }
    admin.get("/v1/tiers?cursor=%00").problem(400);
    admin.put("/v1/tiers/", &json!({})).problem(404);
    assert_eq!(admin.changes(), before);
}

#[test]
fn what_is_no_tier_is_refused_and_changes_nothing() {
    let (_server, admin) = empty();
    let put = |body: &[u8]| admin.ask("PUT", "/v1/tiers/gold").body(body).send();
    let deep = "[".repeat(500_000);
    let deep_object = "{\"tier\":".repeat(100_000);
    for body in [
        "{",
        "nothing",
        "[]",
        "[{}]",
        "3",
        "null",
        "\"gold\"",
        "{} {}",
        "{'tier':'gold'}",
        &deep,
        &deep_object,
    ] {
        put(body.as_bytes()).problem(400);
    }
    put(b"{\"tier\":\"\xff\"}").problem(400);
    for (body, field) in [
        (json!({"tire": "gold"}), "tire"),
        (json!({"tier": "silver"}), "tier"),
        (json!({"tier": null}), "tier"),
        (json!({"tier": ["gold"]}), "tier"),
        (json!({"limit": {"a": [{"b\0": 1}]}}), "limit.a[0].b\\0"),
        (json!({"tier": "gold\0"}), "tier"),
    ] {
        let said = put(body.to_string().as_bytes()).problem(422);
        assert!(said.contains(field), "{body}: {said}");
    }
    let mut long = b"{}".to_vec();
    long.resize(1 << 20, b' ');
    put(&long).expect(201);
    long.push(b' ');
    put(&long).problem(413);
    assert_eq!(admin.changes(), 1);
    admin.ask("POST", "/v1/tiers/gold").body("{}").send().problem(405);
    admin.ask("PUT", "/v1/tiers").body("{}").send().problem(405);
}
