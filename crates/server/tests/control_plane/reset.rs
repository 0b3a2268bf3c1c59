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
    assert_eq!(answer.expect(200), json!({"reason": "a test ran wild"}));
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
