//! `/v1/ratelimit/policies` and `/v1/ratelimit/endpoint-classes`.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::{CLASSES, POLICIES, golden, hourly};

#[test]
fn a_policy_is_in_force_at_once_and_so_is_its_end() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme"});
    server.allowed(&acme);
    admin.set(POLICIES, &hourly("gold-org", "gold", "org", 2));
    let decision = server.allowed(&acme);
    assert_eq!(limit(&decision, "gold-org")["limit"], 2);
    server.denied(&acme);
    admin.set(POLICIES, &hourly("gold-org", "gold", "org", 5));
    assert_eq!(server.left("gold-org", &acme), 3);
    admin.remove(&format!("{POLICIES}/gold-org"));
    assert!(applied(&server.allowed(&acme)).is_empty());
    admin.get(&format!("{POLICIES}/gold-org")).problem(404);
    admin.delete(&format!("{POLICIES}/gold-org")).problem(404);
}

#[test]
fn a_policy_without_an_id_gets_one_that_follows_from_what_it_says() {
    let (server, admin) = golden();
    let mut policy = hourly("", "gold", "org", 2);
    policy.as_object_mut().unwrap().remove("id");
    let made = admin.put(POLICIES, &policy);
    let id = made.expect(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(id, "gold-org-any-fixed_window-1h");
    policy["limit"] = 1.into();
    let again = admin.put(POLICIES, &policy).expect(200);
    assert_eq!(again["id"], *id);
    policy["id"] = id.as_str().into();
    let shown = admin.get(&format!("{POLICIES}/{id}"));
    assert_eq!(shown.expect(200), policy);
    assert_eq!(admin.items(POLICIES)[1], policy);
    server.allowed(&json!({"orgId": "acme"}));
    assert_eq!(server.denied(&json!({"orgId": "acme"}))["policyId"], *id);
}

#[test]
fn what_would_not_compile_is_refused_with_its_reason_and_changes_nothing() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme"});
    let before = (admin.changes(), admin.get(POLICIES).expect(200));
    let with = |name: &str, value: Value| {
        let mut policy = hourly("gold-org", "gold", "org", 1);
        policy[name] = value;
        policy
    };
    for (policy, reason) in [
        (with("window", json!("1x")), "window: `1x`"),
        (with("window", json!("0s")), "window"),
        (with("window", json!("month")), "window"),
        (with("window", Value::Null), "window: is missing"),
        (with("limit", Value::Null), "limit: is missing"),
        (with("limit", json!(-1)), "limit"),
        (with("limit", json!(1.5)), "limit"),
        (with("limit", json!("3")), "limit"),
        (with("limit", json!(u64::MAX)), "limit"),
        (with("algorithm", json!("fixed_windw")), "did you mean"),
        (with("scope", json!("orgs")), "scope"),
        (with("scope", json!({"org": 1})), "scope"),
        (
            with("endpointPattern", json!("class:heavy")),
            "endpoint class `heavy`",
        ),
        (with("endpointPattern", json!("POST")), "endpointPattern"),
        (with("orgTier", json!("bronze")), "`bronze`"),
        (with("burst", json!(3)), "burst"),
        (with("timezone", json!("UTC")), "timezone"),
        (with("match", json!({"region": ["eu"]})), "match.region"),
        (with("id", json!("a/b")), "id"),
        (with("id", json!("x".repeat(129))), "id"),
        (with("requiredScope", json!("read\0")), "requiredScope"),
        (with("limt", json!(3)), "limt"),
        (with("source", json!("file")), "source"),
    ] {
        let said = admin.put(POLICIES, &policy).problem(422);
        assert!(said.contains(reason), "{policy}: {said}");
    }
    for body in ["[]", "{", "", "7"] {
        let answer = admin.ask("PUT", POLICIES).body(body).send();
        assert!(matches!(answer.status, 400 | 422), "{body}: {}", answer.text());
        answer.problem(answer.status);
    }
    assert_eq!((admin.changes(), admin.get(POLICIES).expect(200)), before);
    let decision = server.allowed(&acme);
    assert_eq!(limit(&decision, "gold-org")["limit"], 3);
}

#[test]
fn classes_are_an_ordered_list_that_policies_count_by() {
    let (server, admin) = golden();
    assert_eq!(admin.get(CLASSES).expect(200), json!([]));
    let classes = json!([
        {"pattern": "GET /v1/exports/mine", "class": "light"},
        {"pattern": "/v1/exports/*", "class": "heavy"},
    ]);
    let made = admin.put(CLASSES, &classes);
    assert_eq!(made.expect(201), classes);
    let shown = admin.get(CLASSES);
    assert_eq!(shown.expect(200), classes);
    assert_eq!(shown.header("etag"), made.header("etag"));
    let mut heavy = hourly("heavy", "*", "org", 1);
    heavy["endpointPattern"] = json!("class:heavy");
    admin.set(POLICIES, &heavy);
    let check = |endpoint: &str| json!({"orgId": "other", "endpoint": endpoint});
    server.allowed(&check("POST /v1/exports/all"));
    server.denied(&check("POST /v1/exports/some"));
    server.allowed(&check("GET /v1/exports/mine"));
    // What a policy names can't be taken from under it.
    let before = admin.changes();
    let said = admin.put(CLASSES, &json!([])).problem(422);
    assert!(said.contains("`heavy`"), "{said}");
    for (list, field) in [
        (json!({}), "list"),
        (json!([[]]), "[0]"),
        (json!([{"pattern": "/v1/a"}]), "[0].class"),
        (json!([{"pattern": "/v1/a", "class": "heavy", "x": 1}]), "[0].x"),
        (json!([{"pattern": "v1", "class": "heavy"}]), "[0].pattern"),
        (json!([{"pattern": "/v1/a", "class": "he\0vy"}]), "[0].class"),
    ] {
        let said = admin.put(CLASSES, &list).problem(422);
        assert!(said.contains(field), "{list}: {said}");
    }
    admin.ask("PUT", CLASSES).body("[").send().problem(400);
    admin.ask("PUT", CLASSES).send().problem(400);
    assert_eq!(admin.changes(), before);
    server.denied(&check("POST /v1/exports/some"));
    admin.remove(&format!("{POLICIES}/heavy"));
    assert_eq!(admin.put(CLASSES, &json!([])).expect(200), json!([]));
}

#[test]
fn a_policy_that_an_override_is_for_stays() {
    let (_server, admin) = golden();
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    let made = admin.post(overrides, &json!({"policyId": "gold-org", "limit": 9}));
    let id = made.expect(201)["id"].as_str().unwrap().to_owned();
    let said = admin.delete(&format!("{POLICIES}/gold-org")).problem(409);
    assert!(said.contains("1 overrides"), "{said}");
    admin.remove(&format!("{overrides}/{id}"));
    admin.remove(&format!("{POLICIES}/gold-org"));
}

#[test]
fn a_list_of_policies_comes_page_by_page() {
    let (_server, admin) = golden();
    for id in ["a", "b", "c"] {
        admin.set(POLICIES, &hourly(id, "gold", "key", 3));
    }
    let first = admin.get(&format!("{POLICIES}?limit=3")).expect(200);
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    assert_eq!(first["nextCursor"], "c");
    let last = admin.get(&format!("{POLICIES}?limit=3&cursor=c")).expect(200);
    assert_eq!(last["items"][0]["id"], "gold-org");
    assert_eq!(last["nextCursor"], Value::Null);
}
