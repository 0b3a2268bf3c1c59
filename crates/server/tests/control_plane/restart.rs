//! What was written is there after the server has ended, gently or not.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Admin, Launch, Server};
use crate::{CLASSES, POLICIES, empty, golden, hourly};

/// All that the API shows.
fn everything(admin: &Admin) -> Vec<Value> {
    [
        "/v1/tiers",
        "/v1/orgs",
        "/v1/orgs/acme/apps",
        "/v1/orgs/acme/apps/web/keys",
        "/v1/orgs/acme/ratelimit/overrides",
        POLICIES,
        CLASSES,
        "/v1/tokens",
        "/v1/audit",
        "/v1/audit/verify",
    ]
    .map(|target| admin.get(target).expect(200))
    .into()
}

#[test]
fn everything_written_survives_the_end_of_the_server() {
    let (mut server, mut admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({"name": "The shop"}));
    admin.set(CLASSES, &json!([{"pattern": "/v1/slow", "class": "slow"}]));
    let (key, secret) = admin.key("acme", "web", "live");
    let rotated = admin.post(
        &format!("/v1/orgs/acme/apps/web/keys/{key}/rotate"),
        &json!({"overlapMs": 3_600_000}),
    );
    let rotated = rotated.expect(201)["secret"].as_str().unwrap().to_owned();
    let (revoked_key, revoked) = admin.key("acme", "web", "test");
    admin.remove(&format!("/v1/orgs/acme/apps/web/keys/{revoked_key}"));
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    admin
        .post(overrides, &json!({"policyId": "gold-org", "limit": 5}))
        .expect(201);
    let viewer = admin.with_role("tenant-viewer", Some("acme"));
    let once = |admin: &Admin| {
        let ask = admin.ask("POST", overrides).header("Idempotency-Key", "once");
        let body = json!({"policyId": "gold-org", "limit": 6, "reason": "once"});
        ask.body(body.to_string()).send().expect(201)
    };
    let answered = once(&admin);
    let tag = admin.get("/v1/orgs/acme").header("etag").unwrap().to_owned();
    let before = everything(&admin);
    for signal in ["TERM", "KILL", "KILL"] {
        server.restart(signal);
        admin = server.platform_admin();
        assert_eq!(everything(&admin), before, "after {signal}");
        let decision = server.allowed(&json!({"apiKey": secret, "cost": 0}));
        assert_eq!(limit(&decision, "gold-org")["limit"], 6);
        server.allowed(&json!({"apiKey": rotated, "orgId": "acme", "keyId": key, "cost": 0}));
        server.check(&json!({"apiKey": revoked})).problem(401);
        let viewer = server.with_token(viewer.secret());
        viewer.get("/v1/orgs/acme").expect(200);
        viewer.get("/v1/orgs/globex").problem(404);
        assert_eq!(once(&admin), answered);
        assert_eq!(admin.get("/v1/orgs/acme").header("etag"), Some(&*tag));
    }
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 9));
    assert_eq!(server.left("gold-key", &json!({"apiKey": secret})), 9);
}

#[test]
fn the_demonstration_does_not_come_back() {
    let (mut server, admin) = empty();
    let acme = json!({"orgId": "acme"});
    admin.with_role("operator", None);
    server.restart("TERM");
    assert!(!applied(&server.allowed(&acme)).is_empty());
    let admin = server.platform_admin();
    admin.set(POLICIES, &hourly("own", "*", "org", 3));
    assert_eq!(applied(&server.allowed(&acme)), ["own"]);
    admin.remove(&format!("{POLICIES}/own"));
    server.restart("KILL");
    assert!(applied(&server.allowed(&acme)).is_empty());
    // The token, the policy, its end, and since when it counted.
    assert_eq!(server.platform_admin().changes(), 4);
}

#[test]
fn a_server_killed_while_it_writes_has_all_that_it_has_answered() {
    let (mut server, admin) = golden();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let admin = admin.clone();
            std::thread::spawn(move || {
                let mut made = Vec::new();
                for count in 0.. {
                    let name = format!("{writer}-{count}");
                    // A connection that breaks off ends the thread, with what it has been told so far.
                    let told =
                        std::panic::catch_unwind(|| admin.put(&format!("/v1/tiers/{name}"), &json!({})));
                    match told {
                        Ok(answer) => {
                            answer.expect(201);
                            made.push(name);
                        }
                        Err(_) => break,
                    }
                }
                made
            })
        })
        .collect();
    crate::common::wait_for("some writes", || (admin.changes() > 40).then_some(()));
    server.restart("KILL");
    let admin = server.platform_admin();
    let rows = admin.changes();
    let mut answered = 0;
    for writer in writers {
        for name in writer.join().unwrap() {
            admin.get(&format!("/v1/tiers/{name}")).expect(200);
            answered += 1;
        }
    }
    // Each may have written one whose answer did not arrive.
    assert!(
        (3 + answered..=3 + answered + 4).contains(&rows),
        "{rows} rows, {answered} answered"
    );
}

#[test]
fn a_policy_file_is_read_anew_beside_what_was_written() {
    let file = crate::common::file_of(&[crate::common::hourly("of-file", "org", 3, "")]);
    let mut server = Server::launch(&Launch {
        policies: Some(&file),
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set(POLICIES, &hourly("by-api", "*", "org", 9));
    admin.set("/v1/orgs/acme", &json!({}));
    server.write_policies(&file.replace("limit: 3", "limit: 4"));
    server.restart("KILL");
    let acme = json!({"orgId": "acme"});
    assert_eq!(server.left("of-file", &acme), 4);
    assert_eq!(server.left("by-api", &acme), 9);
    assert_eq!(server.platform_admin().items(POLICIES).len(), 2);
}
