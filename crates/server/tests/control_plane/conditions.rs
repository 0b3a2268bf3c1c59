//! What a write may be made to depend on: `If-Match`, `If-None-Match`, `dryRun` and `Idempotency-Key`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::server::limit;
use crate::common::{Admin, Answer, Launch, Server};
use crate::{POLICIES, golden, hourly};

fn with(admin: &Admin, method: &str, target: &str, header: (&str, &str), body: &Value) -> Answer {
    let ask = admin.ask(method, target).header(header.0, header.1);
    ask.body(body.to_string()).send()
}

#[test]
fn a_stale_tag_stops_a_lost_update() {
    let (_server, admin) = golden();
    let shown = admin.get("/v1/orgs/acme");
    let tag = shown.header("etag").unwrap();
    let put = |name: &str, tag: &str, zone: &str| {
        let body = json!({"tier": "gold", "timezone": zone});
        with(&admin, "PUT", "/v1/orgs/acme", (name, tag), &body)
    };
    let first = put("If-Match", tag, "Asia/Tokyo");
    first.expect(200);
    for stale in [tag, "\"0\"", "x", "", "W/\"3\"", "é"] {
        put("If-Match", stale, "Europe/Paris").problem(412);
    }
    put("If-None-Match", "*", "Europe/Paris").problem(412);
    put("If-None-Match", first.header("etag").unwrap(), "Europe/Paris").problem(412);
    let tags = format!("{tag}, {}", first.header("etag").unwrap());
    put("If-Match", &tags, "Asia/Seoul").expect(200);
    put("If-Match", "*", "Asia/Kolkata").expect(200);
    assert_eq!(admin.get("/v1/orgs/acme").expect(200)["timezone"], "Asia/Kolkata");
    let delete = |tag: &str| with(&admin, "DELETE", "/v1/orgs/acme", ("If-Match", tag), &json!({}));
    delete(tag).problem(412);
    let tag = admin.get("/v1/orgs/acme").header("etag").unwrap().to_owned();
    assert_eq!(delete(&tag).status, 204);
    // Made anew it is another.
    put("If-Match", &tag, "Asia/Tokyo").problem(412);
    put("If-Match", "*", "Asia/Tokyo").problem(412);
    let again = put("If-None-Match", "*", "Asia/Tokyo");
    again.expect(201);
    assert_ne!(again.header("etag").unwrap(), tag);
}

#[test]
fn of_many_who_write_with_the_same_tag_one_does() {
    let (_server, admin) = golden();
    let tag = admin.get("/v1/orgs/acme").header("etag").unwrap().to_owned();
    let mut seen: BTreeMap<u16, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| with(&admin, "PUT", "/v1/orgs/acme", ("If-Match", &tag), &json!({})).status)
            })
            .collect();
        for thread in threads {
            *seen.entry(thread.join().unwrap()).or_default() += 1;
        }
    });
    assert_eq!(seen, BTreeMap::from([(200, 1), (412, 7)]));
}

#[test]
fn a_trial_says_what_would_change_and_changes_nothing() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme", "cost": 0});
    let before = (admin.changes(), server.counted("tollgate_policy_revision"));
    let policy = hourly("gold-org", "gold", "org", 1);
    let plan = admin.put(&format!("{POLICIES}?dryRun=true"), &policy);
    assert_eq!(plan.header("etag"), None);
    assert_eq!(
        plan.expect(200),
        json!({"dryRun": true, "changes": [{
            "kind": "policy",
            "orgId": null,
            "id": "gold-org",
            "before": hourly("gold-org", "gold", "org", 3),
            "after": policy,
        }], "total": 1})
    );
    let plan = admin.put("/v1/tiers/new?dryRun=true", &json!({})).expect(200);
    assert_eq!(plan["changes"][0]["before"], Value::Null);
    let plan = admin
        .delete(&format!("{POLICIES}/gold-org?dryRun=true"))
        .expect(200);
    assert_eq!(plan["changes"][0]["after"], Value::Null);
    let plan = admin
        .put("/v1/orgs/acme/apps/web?dryRun=true", &json!({}))
        .expect(200);
    assert_eq!(plan["changes"][0]["orgId"], "acme");
    let plan = admin
        .post("/v1/tokens?dryRun=true", &json!({"role": "operator"}))
        .expect(200);
    assert_eq!(plan["changes"][0]["after"]["role"], "operator");
    // A trial of what would be refused is refused.
    admin
        .put("/v1/orgs/acme?dryRun=true", &json!({"tier": "nothing"}))
        .problem(422);
    admin.delete("/v1/tiers/gold?dryRun=true").problem(409);
    admin.delete("/v1/tiers/new?dryRun=true").problem(404);
    let stale = ("If-Match", "\"999\"");
    with(&admin, "PUT", "/v1/orgs/acme?dryRun=true", stale, &json!({})).problem(412);
    // Nor does a slip make it a write.
    for query in [
        "dryRun=1",
        "dryRun=",
        "dryRun=TRUE",
        "dryrun=true",
        "dry_run=true",
        "dryRun=false&x=1",
    ] {
        admin
            .put(&format!("/v1/tiers/new?{query}"), &json!({}))
            .problem(400);
    }
    let after = (admin.changes(), server.counted("tollgate_policy_revision"));
    assert_eq!(after, before);
    assert_eq!(limit(&server.allowed(&acme), "gold-org")["limit"], 3);
    admin.put("/v1/tiers/new?dryRun=false", &json!({})).expect(201);
}

#[test]
fn the_same_again_gets_the_same_answer_without_the_secret() {
    let (_server, admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let keys = "/v1/orgs/acme/apps/web/keys";
    let before = admin.changes();
    for (at, (method, target, body)) in (0..).zip([
        ("PUT", "/v1/tiers/silver", json!({})),
        ("POST", keys, json!({"keyId": "k", "environment": "live"})),
        (
            "POST",
            "/v1/orgs/acme/apps/web/keys/k/rotate",
            json!({"overlapMs": 0}),
        ),
        (
            "POST",
            "/v1/orgs/acme/ratelimit/overrides",
            json!({"policyId": "gold-org", "limit": 5}),
        ),
        ("POST", "/v1/tokens", json!({"role": "operator"})),
        ("DELETE", "/v1/orgs/acme/apps/web/keys/k", json!({})),
        ("DELETE", "/v1/orgs/acme/apps/web", json!({})),
        ("DELETE", "/v1/orgs/acme", json!({})),
        ("DELETE", "/v1/tiers/silver", json!({})),
    ]) {
        let key = format!("request {at}");
        let send = || with(&admin, method, target, ("Idempotency-Key", &key), &body);
        let first = send();
        assert!(matches!(first.status, 201 | 204), "{target}: {}", first.text());
        let after = admin.changes();
        for _ in 0..2 {
            let again = send();
            assert_eq!(again.status, first.status, "{target}: {}", again.text());
            assert_eq!(again.header("etag"), first.header("etag"));
            if first.status == 201 {
                let mut told = first.json();
                told.as_object_mut().unwrap().remove("secret");
                assert_eq!(again.json(), told);
            }
        }
        assert_eq!(admin.changes(), after, "{method} {target}");
    }
    assert!(admin.changes() > before);
}

#[test]
fn a_key_is_for_one_request_of_one_caller() {
    let (_server, admin) = golden();
    let key = ("Idempotency-Key", "once");
    with(&admin, "PUT", "/v1/orgs/acme", key, &json!({"tier": "gold"})).expect(200);
    with(&admin, "PUT", "/v1/orgs/acme", key, &json!({})).problem(422);
    with(&admin, "PUT", "/v1/orgs/other", key, &json!({"tier": "gold"})).problem(422);
    with(
        &admin,
        "PUT",
        "/v1/orgs/acme?dryRun=true",
        key,
        &json!({"tier": "gold"}),
    )
    .problem(422);
    // Another's key of the same name is another.
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    with(&tenant, "PUT", "/v1/orgs/acme/apps/web", key, &json!({})).expect(201);
    // What was refused was not done, so it may be sent again.
    let key = ("Idempotency-Key", "twice");
    with(&admin, "PUT", "/v1/orgs/new", key, &json!({"tier": "silver"})).problem(422);
    admin.set("/v1/tiers/silver", &json!({}));
    with(&admin, "PUT", "/v1/orgs/new", key, &json!({"tier": "silver"})).expect(201);
    for bad in ["", &"x".repeat(256), "é", "a\tb"] {
        with(&admin, "PUT", "/v1/tiers/x", ("Idempotency-Key", bad), &json!({})).problem(400);
    }
}

#[test]
fn of_many_who_send_the_same_at_once_one_does_it() {
    let (_server, admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let before = admin.changes();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let send = || {
            let key = ("Idempotency-Key", "all at once");
            with(&admin, "POST", "/v1/orgs/acme/apps/web/keys", key, &json!({}))
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(admin.changes(), before + 1);
    assert!(answers.iter().all(|answer| matches!(answer.status, 201 | 409)));
    let secrets = answers
        .iter()
        .filter(|answer| answer.json()["secret"].is_string());
    assert_eq!(secrets.count(), 1);
}

#[test]
fn of_many_who_make_the_same_key_at_once_one_is_told_a_secret() {
    let (server, admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let keys = "/v1/orgs/acme/apps/web/keys";
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let send = || admin.post(keys, &json!({"keyId": "k"}));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!(made.len(), 1);
    for answer in &refused {
        answer.problem(409);
    }
    let secret = &made[0].json()["secret"];
    assert_eq!(server.check(&json!({"apiKey": secret})).status, 200);
}

#[test]
fn a_write_that_is_refused_is_no_error_of_the_server() {
    let server = Server::launch(&Launch {
        environment: &[("TOLLGATE_LOG", "tollgate=debug")],
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set("/v1/tiers/gold", &json!({}));
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    admin.put("/v1/orgs/acme", &json!({"tier": "none"})).problem(422);
    admin.delete("/v1/tiers/gold").problem(409);
    admin.delete("/v1/tiers/absent").problem(404);
    with(&admin, "PUT", "/v1/orgs/acme", ("If-Match", "\"0\""), &json!({})).problem(412);
    server.with_token("x").get("/v1/tiers").problem(401);
    // The last of them is in the log, so all are.
    let log = server.logs("status=401");
    for status in [422, 409, 404, 412] {
        assert!(log.contains(&format!("status={status}")), "{log}");
    }
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}
