//! `POST /v1/orgs/{orgId}/ratelimit/reset`: counters that start anew.

use serde_json::{Value, json};

use crate::common::{Admin, Server};
use crate::{POLICIES, golden, hourly};

const RESET: &str = "/v1/orgs/acme/ratelimit/reset";

/// The org may call three times an hour, each of its keys twice, and all orgs together a hundred times.
fn counting() -> (Server, Admin) {
    let (server, admin) = golden();
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 2));
    admin.set(POLICIES, &hourly("everyone", "*", "global", 100));
    admin.set("/v1/orgs/globex", &json!({"tier": "gold"}));
    (server, admin)
}

fn key(org: &str, key: &str) -> Value {
    json!({"orgId": org, "keyId": key})
}

#[test]
fn an_orgs_counters_are_emptied_and_nobody_elses() {
    let (server, admin) = counting();
    for org in ["acme", "globex"] {
        server.allowed(&key(org, "k"));
        server.allowed(&key(org, "k"));
    }
    let answer = admin.post(RESET, &json!({"reason": "a test ran wild"}));
    let limit =
        |id: &str, scope: &str| json!({"policyId": id, "scope": scope, "window": "1h", "quota": false});
    let reset = [limit("gold-org", "org"), limit("gold-key", "key")];
    assert_eq!(
        answer.expect(200),
        json!({"reason": "a test ran wild", "quotas": false, "reset": reset})
    );
    assert_eq!(answer.header("etag"), None);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 3);
    assert_eq!(server.left("gold-key", &key("acme", "k")), 2);
    assert_eq!(server.left("gold-org", &key("globex", "k")), 1);
    assert_eq!(server.left("gold-key", &key("globex", "k")), 0);
    // What spans orgs is not one org's to empty.
    assert_eq!(server.left("everyone", &key("acme", "k")), 96);
    // And again, as often as it takes.
    server.allowed(&key("acme", "k"));
    admin.post(RESET, &json!({"reason": "once more"})).expect(200);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 3);
    let row = &admin.items("/v1/orgs/acme/audit?limit=1")[0];
    assert_eq!(
        (&row["reason"], &row["kind"]),
        (&json!("once more"), &json!("reset"))
    );
}

#[test]
fn only_one_policy_or_one_key_may_be_meant() {
    let (server, admin) = counting();
    let spend = || {
        server.allowed(&key("acme", "a"));
        server.allowed(&key("acme", "b"));
    };
    let left = || {
        let left = |policy: &str, id: &str| server.left(policy, &key("acme", id));
        [
            left("gold-org", "a"),
            left("gold-key", "a"),
            left("gold-key", "b"),
        ]
    };
    spend();
    assert_eq!(left(), [1, 1, 1]);
    admin
        .post(RESET, &json!({"reason": "x", "policyId": "gold-org"}))
        .expect(200);
    assert_eq!(left(), [3, 1, 1]);
    admin
        .post(RESET, &json!({"reason": "x", "keyId": "a"}))
        .expect(200);
    assert_eq!(left(), [3, 2, 1]);
    admin
        .post(
            RESET,
            &json!({"reason": "x", "policyId": "gold-key", "keyId": "b"}),
        )
        .expect(200);
    assert_eq!(left(), [3, 2, 2]);
}

#[test]
fn a_trial_and_a_repetition_empty_nothing() {
    let (server, admin) = counting();
    let body = json!({"reason": "again"});
    server.allowed(&key("acme", "k"));
    let trial = admin.post(&format!("{RESET}?dryRun=true"), &body).expect(200);
    assert_eq!(trial["dryRun"], true);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 2);
    let once = || {
        admin
            .ask("POST", RESET)
            .header("Idempotency-Key", "one")
            .body(body.to_string())
            .send()
    };
    let first = once().expect(200);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 3);
    server.allowed(&key("acme", "k"));
    assert_eq!(once().expect(200), first);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 2);
}

#[test]
fn what_is_no_reset_is_refused_by_the_field_and_changes_nothing() {
    let (server, admin) = counting();
    server.allowed(&key("acme", "k"));
    let before = admin.changes();
    for (body, field) in [
        (json!({}), "reason"),
        (json!({"reason": ""}), "reason"),
        (json!({"reason": " "}), "reason"),
        (json!({"reason": 5}), "reason"),
        (json!({"reason": null}), "reason"),
        (json!({"reason": "x", "policyId": "nothing"}), "nothing"),
        (json!({"reason": "x", "keyId": ""}), "keyId"),
        (json!({"reason": "x", "keyId": 5}), "keyId"),
        (json!({"reason": "x", "keyId": null}), "keyId"),
        (json!({"reason": "x", "appId": "a\nb"}), "appId"),
        (json!({"reason": "x", "appId": "a", "userId": "b"}), "appId"),
        (json!({"reason": "x", "orgId": "acme"}), "orgId"),
        (json!({"reason": "x", "epoch": 1}), "epoch"),
    ] {
        let said = admin.post(RESET, &body).problem(422);
        assert!(said.contains(field), "{body}: {said}");
    }
    for body in ["{", "[]", "{\"reason\":\"x\",\"reason\":\"y\"}"] {
        admin.ask("POST", RESET).body(body).send().problem(400);
    }
    admin
        .post("/v1/orgs/absent/ratelimit/reset", &json!({"reason": "x"}))
        .problem(404);
    assert_eq!(admin.changes(), before);
    assert_eq!(server.left("gold-org", &key("acme", "k")), 2);
}

#[test]
fn quotas_are_emptied_only_by_whoever_says_so() {
    let (server, admin) = counting();
    let quota =
        json!({"id": "gold-year", "orgTier": "gold", "algorithm": "quota", "limit": 10, "window": "month"});
    admin.set(POLICIES, &quota);
    let who = key("acme", "k");
    let left = || ["gold-org", "gold-year"].map(|policy| server.left(policy, &who));
    let reset = |body: &Value| {
        let answer = admin.post(RESET, body).expect(200);
        let items = answer["reset"].as_array().unwrap().clone();
        let ids = items
            .iter()
            .map(|item| item["policyId"].as_str().unwrap().to_owned());
        ids.collect::<Vec<String>>()
    };
    server.allowed(&who);
    assert_eq!(left(), [2, 9]);
    assert_eq!(reset(&json!({"reason": "x"})), ["gold-org", "gold-key"]);
    assert_eq!(left(), [3, 9]);
    server.allowed(&who);
    assert_eq!(
        reset(&json!({"reason": "x", "quotas": false})),
        ["gold-org", "gold-key"]
    );
    assert_eq!(left(), [3, 8]);
    // Whoever names a quota means it.
    assert_eq!(
        reset(&json!({"reason": "x", "policyId": "gold-year"})),
        ["gold-year"]
    );
    assert_eq!(left(), [3, 10]);
    server.allowed(&who);
    let all = reset(&json!({"reason": "x", "quotas": true}));
    assert_eq!(all, ["gold-org", "gold-year", "gold-key"]);
    assert_eq!(left(), [3, 10]);
    // A later reset of rates leaves the quota where it is since.
    server.allowed(&who);
    reset(&json!({"reason": "x"}));
    assert_eq!(left(), [3, 9]);
    let said = admin
        .post(RESET, &json!({"reason": "x", "quotas": "yes"}))
        .problem(422);
    assert!(said.contains("quotas"), "{said}");
}

#[test]
fn a_keys_reset_gives_the_key_no_count_of_its_own_of_what_all_have_together() {
    let (server, admin) = counting();
    server.allowed(&key("acme", "a"));
    server.allowed(&key("acme", "a"));
    let answer = admin
        .post(RESET, &json!({"reason": "x", "keyId": "a"}))
        .expect(200);
    assert_eq!(answer["reset"].as_array().unwrap().len(), 1, "{answer}");
    assert_eq!(server.left("gold-key", &key("acme", "a")), 2);
    assert_eq!(server.left("gold-org", &key("acme", "a")), 1);
    server.allowed(&key("acme", "b"));
    server.denied(&key("acme", "a"));
}

#[test]
fn two_resets_never_share_an_entry() {
    let (server, admin) = counting();
    admin.set(POLICIES, &hourly("p", "gold", "app", 2));
    let x = json!({"orgId": "acme", "appId": "x"});
    server.allowed(&x);
    server.allowed(&x);
    admin
        .post(RESET, &json!({"reason": "x", "appId": "x", "policyId": "p"}))
        .expect(200);
    assert_eq!(server.left("p", &json!({"orgId": "acme", "appId": "x"})), 2);
    let other = json!({"reason": "x", "appId": "x policyId=p", "quotas": true});
    admin.post(RESET, &other).expect(200);
    assert_eq!(server.left("p", &json!({"orgId": "acme", "appId": "x"})), 2);
    let ids: Vec<Value> = admin.items("/v1/orgs/acme/audit?limit=2");
    assert_ne!(ids[0]["id"], ids[1]["id"]);
}
