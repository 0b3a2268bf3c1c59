//! `/v1/tokens`, and what a token is good for. Who may call which route is in `matrix`.

use serde_json::{Value, json};

use crate::common::{Admin, Server};
use crate::golden;

/// Two orgs, each with an app and a key, and an override for one.
fn two_orgs() -> (Server, Admin) {
    let (server, admin) = golden();
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    for org in ["acme", "globex"] {
        admin.set(&format!("/v1/orgs/{org}/apps/web"), &json!({}));
        let key = json!({"keyId": "k"});
        admin
            .post(&format!("/v1/orgs/{org}/apps/web/keys"), &key)
            .expect(201);
    }
    (server, admin)
}

#[test]
fn a_token_is_sent_as_a_bearer_and_in_no_other_way() {
    let (server, admin) = two_orgs();
    let ask = || server.ask_admin("GET", "/v1/tiers");
    for value in ["Bearer ", "Bearer x", "Basic YTpi", admin.secret(), "bearer"] {
        let answer = ask().header("Authorization", value).send();
        answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let value = format!("bEARER {}", admin.secret());
    ask().header("Authorization", &value).send().expect(200);
}

#[test]
fn what_is_anothers_is_as_if_it_were_not_there() {
    let (_server, admin) = two_orgs();
    let mine = admin.with_role("tenant-admin", Some("globex"));
    let theirs = admin.post("/v1/tokens", &json!({"role": "tenant-viewer", "orgId": "acme"}));
    let theirs = theirs.expect(201)["id"].as_str().unwrap().to_owned();
    let before = admin.changes();
    for method in ["GET", "DELETE"] {
        let there = mine.ask(method, &format!("/v1/tokens/{theirs}")).send();
        let nowhere = mine.ask(method, "/v1/tokens/0000000000000000").send();
        there.problem(404);
        assert_eq!(there.body, nowhere.body);
    }
    let make = |org: &str| mine.post("/v1/tokens", &json!({"role": "tenant-viewer", "orgId": org}));
    assert_eq!(make("acme").problem(403), make("absent").problem(403));
    assert_eq!(admin.changes(), before);
    assert_eq!(
        mine.items("/v1/orgs"),
        [json!({"orgId": "globex", "tier": "gold"})]
    );
    assert_eq!(mine.items("/v1/tokens").len(), 1);
    assert!(mine.items("/v1/audit").iter().all(|row| row["orgId"] == "globex"));
}

#[test]
fn nobody_makes_a_token_that_may_do_more_than_they_may() {
    let (_server, admin) = two_orgs();
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    let viewer = tenant.with_role("tenant-viewer", Some("acme"));
    let second = tenant.with_role("tenant-admin", Some("acme"));
    second.set("/v1/orgs/acme/apps/own", &json!({}));
    let operator = admin.with_role("operator", None);
    let before = admin.changes();
    for role in ["platform-admin", "operator"] {
        for caller in [&tenant, &viewer, &operator] {
            caller.post("/v1/tokens", &json!({"role": role})).problem(403);
        }
    }
    for caller in [&viewer, &operator] {
        let body = json!({"role": "tenant-viewer", "orgId": "acme"});
        caller.post("/v1/tokens", &body).problem(403);
        for token in caller.items("/v1/tokens") {
            let target = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
            caller.get(&target).expect(200);
            caller.delete(&target).problem(403);
        }
    }
    assert_eq!(admin.changes(), before);
    assert_eq!(admin.items("/v1/tokens").len(), 4);
    assert_eq!(operator.items("/v1/tokens").len(), 4);
    assert_eq!(tenant.items("/v1/tokens").len(), 3);
}

#[test]
fn a_token_works_until_it_is_revoked_or_has_expired() {
    let (server, admin) = two_orgs();
    let body = json!({"role": "operator", "name": "the night watch", "expiresAt": "2999-01-01T00:00:00Z"});
    let made = admin.post("/v1/tokens", &body).expect(201);
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert!(secret.starts_with("tgt_"), "{secret}");
    let shown = admin.get(&format!("/v1/tokens/{id}")).expect(200);
    assert_eq!((&shown["name"], &shown["role"]), (&body["name"], &body["role"]));
    assert_eq!(shown["prefix"], made["prefix"]);
    assert_eq!(
        (&shown["expiresAt"], &made["expiresAt"]),
        (&body["expiresAt"], &body["expiresAt"])
    );
    assert_eq!((&shown["secret"], &shown["hash"]), (&Value::Null, &Value::Null));
    assert_eq!(admin.items("/v1/tokens"), [shown]);
    let watch = server.with_token(secret);
    watch.get("/v1/tiers").expect(200);
    admin.remove(&format!("/v1/tokens/{id}"));
    watch.get("/v1/tiers").problem(401);
    admin.get(&format!("/v1/tokens/{id}")).problem(404);
    let past = json!({"role": "platform-admin", "expiresAt": "2020-01-01T00:00:00Z"});
    let past = admin.post("/v1/tokens", &past).expect(201);
    server
        .with_token(past["secret"].as_str().unwrap())
        .get("/v1/tiers")
        .problem(401);
    let before = admin.changes();
    for (body, field) in [
        (json!({}), "role"),
        (json!({"role": "root"}), "role"),
        (json!({"role": 1}), "role"),
        (json!({"role": "tenant-admin"}), "orgId"),
        (json!({"role": "operator", "orgId": "acme"}), "orgId"),
        (json!({"role": "tenant-admin", "orgId": "absent"}), "orgId"),
        (json!({"role": "tenant-admin", "orgId": "a\nb"}), "orgId"),
        (json!({"role": "operator", "expiresAt": 5}), "expiresAt"),
        (json!({"role": "operator", "expiresAt": "never"}), "expiresAt"),
        (json!({"role": "operator", "name": "a\0b"}), "name"),
        (json!({"role": "operator", "secret": "mine"}), "secret"),
    ] {
        let said = admin.post("/v1/tokens", &body).problem(422);
        assert!(said.contains(field), "{body}: {said}");
    }
    admin.ask("POST", "/v1/tokens").body("[]").send().problem(400);
    assert_eq!(admin.changes(), before);
}

/// A token of acme's admin that this one makes, and its secret's bearer.
fn child(server: &Server, of: &Admin, more: &Value) -> (Value, Admin) {
    let mut body = json!({"role": "tenant-admin", "orgId": "acme"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    let made = of.post("/v1/tokens", &body).expect(201);
    let bearer = server.with_token(made["secret"].as_str().unwrap());
    (made, bearer)
}

#[test]
fn a_token_makes_none_that_outlives_it() {
    let (server, admin) = two_orgs();
    let end = "2999-01-01T00:00:00Z";
    let (_, parent) = child(&server, &admin, &json!({"expiresAt": end}));
    let (first, bearer) = child(&server, &parent, &json!({}));
    assert_eq!(first["expiresAt"], end);
    let (null, _) = child(&server, &parent, &json!({"expiresAt": null}));
    assert_eq!(null["expiresAt"], end);
    let sooner = "2998-12-31T00:00:00Z";
    let (second, _) = child(&server, &bearer, &json!({"expiresAt": sooner}));
    assert_eq!(second["expiresAt"], sooner);
    let before = admin.changes();
    let later = json!({"role": "tenant-viewer", "orgId": "acme", "expiresAt": "2999-01-01T00:00:00.001Z"});
    for caller in [&parent, &bearer] {
        let said = caller.post("/v1/tokens", &later).problem(422);
        assert!(said.contains("expiresAt") && said.contains(end), "{said}");
    }
    assert_eq!(admin.changes(), before);
    // Whoever has no end makes tokens without one.
    let (lasting, _) = child(&server, &admin, &json!({}));
    assert_eq!(lasting["expiresAt"], Value::Null);
}

#[test]
fn what_a_token_made_ends_with_it_through_all_generations_and_nothing_else_does() {
    let (server, admin) = two_orgs();
    let (parent, bearer) = child(&server, &admin, &json!({}));
    let (_, second) = child(&server, &bearer, &json!({}));
    let (_, third) = child(&server, &second, &json!({}));
    let (_, sibling) = child(&server, &admin, &json!({}));
    let target = format!("/v1/tokens/{}", parent["id"].as_str().unwrap());
    let trial = admin.delete(&format!("{target}?dryRun=true")).expect(200);
    assert_eq!(trial["changes"].as_array().unwrap().len(), 3, "{trial}");
    third.get("/v1/orgs/acme").expect(200);
    let rows = admin.changes();
    admin.remove(&target);
    for gone in [&bearer, &second, &third] {
        gone.get("/v1/orgs/acme").problem(401);
    }
    sibling.get("/v1/orgs/acme").expect(200);
    assert_eq!(admin.changes(), rows + 3);
    for row in &admin.items("/v1/audit?limit=3") {
        assert_eq!((&row["kind"], &row["after"]), (&json!("token"), &Value::Null));
    }
    assert_eq!(sibling.items("/v1/tokens").len(), 1);
}

#[test]
fn a_tenant_lists_its_own_tokens_page_by_page() {
    let (server, admin) = two_orgs();
    for _ in 0..5 {
        child(&server, &admin, &json!({}));
        admin.with_role("tenant-viewer", Some("globex"));
    }
    let tenant = admin.with_role("tenant-viewer", Some("acme"));
    let all = tenant.items("/v1/tokens");
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|token| token["orgId"] == "acme"), "{all:?}");
    let (mut seen, mut target) = (Vec::new(), "/v1/tokens?limit=2".to_owned());
    loop {
        let page = tenant.get(&target).expect(200);
        seen.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        target = format!("/v1/tokens?limit=2&cursor={next}");
    }
    assert_eq!(seen, all);
}
