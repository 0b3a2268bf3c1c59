//! `/v1/tokens`, and who may do what with one.

use serde_json::{Value, json};

use crate::common::{Admin, Server};
use crate::{CLASSES, POLICIES, golden};

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

/// Every route behind a token, and whether it is the platform's (`None`) or of the org `acme`, and what a body of it
/// could be.
fn routes() -> Vec<(&'static str, String, Value)> {
    let mut routes: Vec<(&str, String, Value)> = Vec::new();
    let mut add = |methods: &[&'static str], target: &str, body: Value| {
        for method in methods {
            routes.push((method, target.to_owned(), body.clone()));
        }
    };
    add(&["POST"], "/v1/ratelimit/explain", json!({"orgId": "acme"}));
    add(
        &["GET", "PUT"],
        POLICIES,
        json!({"id": "p", "limit": 1, "window": "1h"}),
    );
    add(&["GET", "DELETE"], "/v1/ratelimit/policies/gold-org", json!({}));
    add(&["GET", "PUT"], CLASSES, json!([]));
    add(&["GET"], "/v1/tiers", json!({}));
    add(&["GET", "PUT", "DELETE"], "/v1/tiers/gold", json!({}));
    add(&["GET"], "/v1/audit/verify", json!({}));
    add(&["GET", "PUT", "DELETE"], "/v1/orgs/acme", json!({}));
    add(&["GET"], "/v1/orgs/acme/audit", json!({}));
    add(&["GET"], "/v1/orgs/acme/apps", json!({}));
    add(&["GET", "PUT", "DELETE"], "/v1/orgs/acme/apps/web", json!({}));
    add(&["GET", "POST"], "/v1/orgs/acme/apps/web/keys", json!({}));
    add(&["GET", "DELETE"], "/v1/orgs/acme/apps/web/keys/k", json!({}));
    add(&["POST"], "/v1/orgs/acme/apps/web/keys/k/rotate", json!({}));
    let change = json!({"policyId": "gold-org", "limit": 5});
    add(&["GET", "POST"], "/v1/orgs/acme/ratelimit/overrides", change);
    add(
        &["GET", "DELETE"],
        "/v1/orgs/acme/ratelimit/overrides/o",
        json!({}),
    );
    routes
}

#[test]
fn nothing_but_health_and_metrics_is_open_to_those_without_a_token() {
    let (server, admin) = two_orgs();
    let before = admin.changes();
    let mut all = routes();
    for target in ["/v1/audit", "/v1/orgs", "/v1/tokens", "/v1/tokens/x"] {
        all.push(("GET", target.to_owned(), json!({})));
    }
    all.push(("POST", "/v1/tokens".to_owned(), json!({"role": "platform-admin"})));
    all.push(("DELETE", "/v1/tokens/x".to_owned(), json!({})));
    for (method, target, body) in all {
        let ask = || server.ask_admin(method, &target).body(body.to_string());
        ask().send().problem(401);
        for value in ["Bearer ", "Bearer x", "Basic YTpi", admin.secret(), "bearer"] {
            ask().header("Authorization", value).send().problem(401);
        }
    }
    assert_eq!(admin.changes(), before);
}

#[test]
fn each_role_may_do_what_it_is_for_and_no_more() {
    let (_server, admin) = two_orgs();
    let roles = [
        ("operator", None),
        ("tenant-admin", Some("acme")),
        ("tenant-viewer", Some("acme")),
        ("tenant-admin", Some("globex")),
    ];
    let callers = roles.map(|(role, org)| admin.with_role(role, org));
    let before = admin.changes();
    for (method, target, body) in routes() {
        let reads = method == "GET" || target.ends_with("explain");
        let of_org = target.starts_with("/v1/orgs/");
        let of_things = target.contains("/apps/");
        for (caller, (role, org)) in callers.iter().zip(roles) {
            // On trial, so that what is allowed leaves all as it is for the next.
            let trial = if reads {
                String::new()
            } else {
                format!("{target}?dryRun=true")
            };
            let asked = if reads { &target } else { &trial };
            let answer = caller.ask(method, asked).body(body.to_string()).send();
            let allowed = match role {
                "operator" => reads,
                _ => of_org && org == Some("acme") && (reads || (of_things && role == "tenant-admin")),
            };
            let what = format!(
                "{role} of {org:?}: {method} {target}: {} {}",
                answer.status,
                answer.text()
            );
            // The override is not there, for whoever may look.
            let absent = target.ends_with("/overrides/o");
            match answer.status {
                404 => assert!(absent || (of_org && org == Some("globex")), "{what}"),
                403 => assert!(!allowed, "{what}"),
                _ => assert!(allowed && answer.status == 200, "{what}"),
            }
        }
    }
    assert_eq!(admin.changes(), before);
}

#[test]
fn what_is_anothers_is_as_if_it_were_not_there() {
    let (_server, admin) = two_orgs();
    let mine = admin.with_role("tenant-admin", Some("globex"));
    let theirs = admin.post("/v1/tokens", &json!({"role": "tenant-viewer", "orgId": "acme"}));
    let theirs = theirs.expect(201)["id"].as_str().unwrap().to_owned();
    let before = admin.changes();
    for (method, target, body) in routes() {
        if !target.starts_with("/v1/orgs/acme") {
            continue;
        }
        let absent = target.replace("/v1/orgs/acme", "/v1/orgs/absent");
        let [there, nowhere] =
            [target, absent].map(|target| mine.ask(method, &target).body(body.to_string()).send());
        there.problem(404);
        assert_eq!((there.status, &there.body), (nowhere.status, &nowhere.body));
    }
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
