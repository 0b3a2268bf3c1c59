//! `/v1/orgs/{orgId}/ratelimit/overrides`.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Admin, wait_for};
use crate::{POLICIES, golden, hourly};

const OVERRIDES: &str = "/v1/orgs/acme/ratelimit/overrides";

fn made(admin: &Admin, body: &Value) -> String {
    let made = admin.post(OVERRIDES, body).expect(201);
    made["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_override_raises_a_limit_and_its_end_restores_it() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme"});
    (0..3).for_each(|_| drop(server.allowed(&acme)));
    server.denied(&acme);
    let body = json!({"policyId": "gold-org", "limit": 5, "reason": "a fair"});
    let answer = admin.post(OVERRIDES, &body);
    let shown = answer.expect(201);
    let target = format!("{OVERRIDES}/{}", shown["id"].as_str().unwrap());
    assert_eq!(shown["orgId"], "acme");
    assert_eq!(shown["reason"], "a fair");
    assert_eq!(admin.get(&target).expect(200), shown);
    assert_eq!(admin.get(&target).header("etag"), answer.header("etag"));
    assert_eq!(admin.items(OVERRIDES), [shown]);
    (0..2).for_each(|_| drop(server.allowed(&acme)));
    server.denied(&acme);
    admin.remove(&target);
    admin.get(&target).problem(404);
    admin.delete(&target).problem(404);
    assert!(admin.items(OVERRIDES).is_empty());
    let decision = server.denied(&acme);
    assert_eq!(limit(&decision, "gold-org")["limit"], 3);
}

#[test]
fn what_it_says_picks_the_policy() {
    let (server, admin) = golden();
    let mut daily = hourly("gold-org-2h", "gold", "org", 100);
    daily["window"] = json!("2h");
    admin.set(POLICIES, &daily);
    let mut exports = hourly("exports", "gold", "org", 50);
    exports["endpointPattern"] = json!("POST /v1/exports");
    exports["requiredScope"] = json!("export");
    admin.set(POLICIES, &exports);
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 10));
    let check = json!({
        "orgId": "acme", "keyId": "k", "endpoint": "POST /v1/exports", "scopes": ["export"], "cost": 0,
    });
    for (body, policy) in [
        (json!({"scope": "key", "limit": 11}), "gold-key"),
        (
            json!({"endpointPattern": "POST /v1/exports", "limit": 51}),
            "exports",
        ),
        (json!({"requiredScope": "export", "limit": 52}), "exports"),
        (
            json!({"scope": "org", "window": "2h", "limit": 101}),
            "gold-org-2h",
        ),
        (
            json!({"policyId": "gold-org", "window": "3h", "limit": 4}),
            "gold-org",
        ),
    ] {
        let id = made(&admin, &body);
        let decision = server.allowed(&check);
        assert_eq!(limit(&decision, policy)["limit"], body["limit"], "{body}");
        assert_eq!(applied(&decision).len(), 4, "{decision}");
        admin.remove(&format!("{OVERRIDES}/{id}"));
    }
    let before = admin.changes();
    let said = admin
        .post(OVERRIDES, &json!({"scope": "org", "limit": 9}))
        .problem(422);
    for policy in ["exports", "gold-org", "gold-org-2h"] {
        assert!(said.contains(policy), "{said}");
    }
    assert!(!said.contains("gold-key"), "{said}");
    for body in [
        json!({"scope": "app", "limit": 9}),
        json!({"scope": "app", "window": "1h"}),
    ] {
        let said = admin.post(OVERRIDES, &body).problem(422);
        assert!(said.contains("policyId"), "{said}");
    }
    assert_eq!(admin.changes(), before);
    // With a limit and a window what fits none is a limit of its own.
    made(&admin, &json!({"scope": "app", "limit": 9, "window": "1h"}));
    let decision = server.allowed(&json!({"orgId": "acme", "appId": "web"}));
    let limits = decision["limits"].as_array().unwrap();
    assert!(limits.iter().any(|limit| limit["limit"] == 9), "{decision}");
}

#[test]
fn it_may_be_for_one_app_key_or_user() {
    let (server, admin) = golden();
    for scope in ["app", "key", "user"] {
        let policy = format!("gold-{scope}");
        admin.set(POLICIES, &hourly(&policy, "gold", scope, 10));
        let name = format!("{scope}Id");
        made(
            &admin,
            &json!({"policyId": policy, name.as_str(): "one", "limit": 20}),
        );
        for (id, wanted) in [("one", 20), ("two", 10)] {
            let check = json!({"orgId": "acme", name.as_str(): id, "cost": 0});
            assert_eq!(limit(&server.allowed(&check), &policy)["limit"], wanted);
        }
        let check = json!({"orgId": "other", name.as_str(): "one", "cost": 0});
        assert!(applied(&server.allowed(&check)).is_empty());
    }
    let both = json!({"policyId": "gold-key", "appId": "a", "keyId": "b", "limit": 3});
    admin.post(OVERRIDES, &both).problem(422);
}

#[test]
fn it_ends_by_itself() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme", "cost": 0});
    let shown = || {
        limit(&server.allowed(&acme), "gold-org")["limit"]
            .as_u64()
            .unwrap()
    };
    let past = json!({"policyId": "gold-org", "limit": 8, "expiresAt": "2020-01-01T00:00:00Z"});
    made(&admin, &past);
    assert_eq!(shown(), 3);
    let soon = tollgate::clock::now().millis() + 1_500;
    let soon = jiff::Timestamp::from_millisecond(i64::try_from(soon).unwrap()).unwrap();
    made(
        &admin,
        &json!({"policyId": "gold-org", "limit": 9, "expiresAt": soon.to_string()}),
    );
    assert_eq!(shown(), 9);
    wait_for("the override's end", || (shown() == 3).then_some(()));
}

#[test]
fn what_is_no_override_is_refused_and_changes_nothing() {
    let (server, admin) = golden();
    let before = admin.changes();
    for (body, field) in [
        (json!({"policyId": "nothing", "limit": 3}), "`nothing`"),
        (json!({"policyId": "gold-org", "limit": "many"}), "limit"),
        (
            json!({"policyId": "gold-org", "limit": 3, "expiresAt": "tomorrow"}),
            "expiresAt",
        ),
        (
            json!({"policyId": "gold-org", "limit": 3, "reason": "a\0b"}),
            "reason",
        ),
        (
            json!({"policyId": "gold-org", "limit": 3, "reason": {}}),
            "reason",
        ),
        (
            json!({"policyId": "gold-org", "limit": 3, "orgId": "globex"}),
            "orgId",
        ),
        (
            json!({"policyId": "gold-org", "limit": 3, "keyId": "a\nb"}),
            "keyId",
        ),
        (json!({"policyId": "gold-org", "limit": 3, "id": "mine"}), "id"),
        (json!({"policyId": "gold-org", "limits": 3}), "limits"),
        (json!({"policyId": "gold-org", "algorithm": "quota"}), "window"),
        // Exactly one policy fits, and nothing of it would be another.
        (json!({}), "changes nothing"),
        (json!({"policyId": "gold-org"}), "changes nothing"),
        (json!({"scope": "org", "window": "1h"}), "changes nothing"),
        (
            json!({"policyId": "gold-org", "keyId": "k", "reason": "none", "expiresAt": "2030-01-01T00:00:00Z"}),
            "changes nothing",
        ),
    ] {
        let said = admin.post(OVERRIDES, &body).problem(422);
        assert!(said.contains(field), "{body}: {said}");
    }
    for body in ["[]", "[{}]", "{", "1"] {
        admin.ask("POST", OVERRIDES).body(body).send().problem(400);
    }
    let absent = "/v1/orgs/absent/ratelimit/overrides";
    let body = json!({"policyId": "gold-org", "limit": 5});
    admin.post(absent, &body).problem(404);
    admin.get(absent).problem(404);
    let plan = admin.post(&format!("{OVERRIDES}?dryRun=true"), &body).expect(200);
    assert_eq!(plan["changes"][0]["after"]["limit"], 5);
    assert_eq!(admin.changes(), before);
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 3);
}

#[test]
fn it_is_found_only_under_its_own_org() {
    let (server, admin) = golden();
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    let id = made(&admin, &json!({"policyId": "gold-org", "limit": 5}));
    let foreign = format!("/v1/orgs/globex/ratelimit/overrides/{id}");
    admin.get(&foreign).problem(404);
    admin.delete(&foreign).problem(404);
    assert!(admin.items("/v1/orgs/globex/ratelimit/overrides").is_empty());
    assert_eq!(server.left("gold-org", &json!({"orgId": "globex"})), 3);
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 5);
}

#[test]
fn it_stays_with_the_policy_it_was_found_for() {
    let (server, admin) = golden();
    let target = format!(
        "{OVERRIDES}/{}",
        made(&admin, &json!({"scope": "org", "window": "1h", "limit": 5}))
    );
    let shown = admin.get(&target).expect(200);
    assert_eq!(shown["policyId"], "gold-org");
    assert_eq!((&shown["scope"], &shown["window"]), (&Value::Null, &Value::Null));
    // Another that it might have been for.
    admin.set(POLICIES, &hourly("gold-org-too", "gold", "org", 100));
    let decision = server.allowed(&json!({"orgId": "acme", "cost": 0}));
    assert_eq!(limit(&decision, "gold-org")["limit"], 5);
    assert_eq!(limit(&decision, "gold-org-too")["limit"], 100);
    admin.set(
        "/v1/orgs/acme",
        &json!({"tier": "gold", "timezone": "Europe/Berlin"}),
    );
    admin
        .post(OVERRIDES, &json!({"scope": "org", "window": "1h", "limit": 6}))
        .problem(422);
}

#[test]
fn a_tenant_sees_no_override_of_what_is_hidden_from_it() {
    let (server, admin) = golden();
    let mut hidden = hourly("secret", "*", "org", 50);
    hidden["expose"] = json!(false);
    admin.set(POLICIES, &hidden);
    let mut tried = hourly("tried", "*", "org", 60);
    tried["mode"] = json!("shadow");
    admin.set(POLICIES, &tried);
    admin.set(POLICIES, &hourly("secret-global", "*", "global", 70));
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    let make = |body: &Value| {
        admin.post(overrides, body).expect(201)["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let ids =
        ["secret", "tried", "secret-global"].map(|policy| make(&json!({"policyId": policy, "limit": 7})));
    let seen = make(&json!({"policyId": "gold-org", "limit": 2}));
    let shown_on_purpose = make(&json!({"policyId": "secret", "userId": "u", "limit": 3, "expose": true}));
    let reset = json!({"policyId": "secret", "reason": "a trial"});
    admin.post("/v1/orgs/acme/ratelimit/reset", &reset).expect(200);

    let tenant = admin.with_role("tenant-viewer", Some("acme"));
    let listed: Vec<Value> = tenant
        .items(overrides)
        .iter()
        .map(|item| item["id"].clone())
        .collect();
    assert_eq!(listed, [json!(seen), json!(shown_on_purpose)]);
    for id in &ids {
        tenant.get(&format!("{overrides}/{id}")).problem(404);
        admin.get(&format!("{overrides}/{id}")).expect(200);
    }
    tenant.get(&format!("{overrides}/{seen}")).expect(200);
    for target in [
        "/v1/audit?limit=1000",
        "/v1/orgs/acme/audit?limit=1000",
        "/v1/audit?format=jsonl",
    ] {
        let text = tenant.get(target).text().to_owned();
        assert!(text.contains(&seen) && !text.contains("tried"), "{text}");
        assert!(!ids.iter().any(|id| text.contains(id)), "{text}");
        assert!(!text.contains("\"policyId\":\"secret\",\"quotas\""), "{text}");
    }
    assert_eq!(admin.items(overrides).len(), 5);
    // Nor is a limit on all orgs shown to clients for having another value for one of them.
    let answer = server
        .ask("GET", "/v1/authorize")
        .header("X-Tollgate-Org", "acme")
        .send();
    let headers = format!("{:?}", answer.headers);
    assert!(!headers.contains("secret"), "{headers}");
}
