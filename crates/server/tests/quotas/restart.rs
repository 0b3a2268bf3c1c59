//! What was used is still used after a restart.

use serde_json::json;

use crate::common::server::limit;
use crate::common::{Launch, Server, file_of, hourly};
use crate::postgres::Postgres;
use crate::world::{left, org, quota, serve, spend};

#[test]
fn nothing_is_stranded_by_a_graceful_stop_with_sqlite() {
    stop_and_look(None);
}

#[test]
fn nothing_is_stranded_by_a_graceful_stop_with_postgres() {
    let postgres = Postgres::start();
    stop_and_look(Some(&postgres.create()));
}

fn stop_and_look(database: Option<&str>) {
    let policies = [
        quota("org-day", 1_000, ""),
        quota("app-day", 200, "counter: apps").replace("scope: org", "scope: app"),
        hourly("rate", "org", 500, ""),
    ];
    let mut server = serve(database, &policies);
    assert_eq!(spend(&server, "acme", 37), 37);
    let app = json!({"orgId": "acme", "appId": "web", "cost": 11});
    server.allowed(&app);
    for stops in 0..3 {
        let decision = server.allowed(&json!({"orgId": "acme", "appId": "web", "cost": 0}));
        assert_eq!(limit(&decision, "org-day")["remaining"], 1_000 - 48 - stops);
        assert_eq!(limit(&decision, "app-day")["remaining"], 189);
        server.allowed(&org("acme"));
        server.restart("TERM");
    }
    // Rates are not durable, and another org has used nothing.
    assert_eq!(left(&server, "acme", "rate"), 500);
    assert_eq!(left(&server, "other", "org-day"), 1_000);
}

#[test]
fn a_change_of_plan_keeps_what_was_used() {
    let mut server = serve(None, &[quota("small", 50, "")]);
    assert_eq!(spend(&server, "acme", 60), 50);
    server.reload(&file_of(&[quota("large", 80, "")]));
    assert_eq!(left(&server, "acme", "large"), 30);
    assert_eq!(spend(&server, "acme", 40), 30);
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "large"), 0);
    server.denied(&org("acme"));
}

#[test]
fn another_way_to_count_begins_with_what_was_left() {
    let mut server = serve(None, &[quota("plan", 100, "")]);
    assert_eq!(spend(&server, "acme", 70), 70);
    // The same policy by the week: another count, and no more room than the day has.
    server.reload(&file_of(&[
        quota("plan", 1_000, "").replace("window: day", "window: week")
    ]));
    assert_eq!(spend(&server, "acme", 40), 30);
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "plan"), 0);
}

#[test]
fn a_reset_lasts() {
    let mut server = serve(None, &[quota("org-day", 50, "")]);
    assert_eq!(spend(&server, "acme", 60), 50);
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    let reset = admin.post(
        "/v1/orgs/acme/ratelimit/reset",
        &json!({"reason": "a gift", "quotas": true}),
    );
    reset.expect(200);
    assert_eq!(spend(&server, "acme", 20), 20);
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "org-day"), 30);
}

#[test]
fn soft_and_shadow_quotas_are_counted_on() {
    let policies = [
        quota("soft", 20, "mode: soft, counter: a"),
        quota("shadow", 1_000, "mode: shadow, counter: b"),
    ];
    let mut server = serve(None, &policies);
    assert_eq!(spend(&server, "acme", 50), 50);
    server.restart("TERM");
    let decision = server.allowed(&org("acme"));
    assert_eq!(limit(&decision, "soft")["remaining"], 0);
    assert_eq!(limit(&decision, "soft")["violated"], true);
    assert_eq!(limit(&decision, "shadow")["remaining"], 1_000 - 51);
}

#[test]
fn a_change_of_plan_keeps_a_part_or_nothing_if_that_is_asked_for() {
    let [small, large] = [("small", 50), ("large", 200)]
        .map(|(tier, limit)| quota(&format!("{tier}-day"), limit, &format!("orgTier: {tier}")));
    let file = format!(
        "tiers: [{{tier: small}}, {{tier: large}}]\n{}",
        file_of(&[small, large])
    );
    let mut server = Server::launch(&Launch {
        policies: Some(&file),
        ..Launch::default()
    });
    let plan = |server: &Server, org: &str, tier: &str, usage: &str| {
        let admin = server.platform_admin();
        let answer = admin.put(&format!("/v1/orgs/{org}{usage}"), &json!({"tier": tier}));
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    };
    for org in ["carried", "scaled", "emptied"] {
        plan(&server, org, "small", "");
        assert_eq!(spend(&server, org, 21), 21);
    }
    plan(&server, "carried", "large", "?usage=carry");
    // Again is once.
    for _ in 0..2 {
        plan(&server, "scaled", "large", "?usage=proportional");
    }
    plan(&server, "emptied", "large", "?usage=reset");
    for restarted in [false, true] {
        if restarted {
            server.restart("TERM");
        }
        for (org, used) in [("carried", 21), ("scaled", 84), ("emptied", 0)] {
            let quotas = server
                .platform_admin()
                .get(&format!("/v1/orgs/{org}/quotas"))
                .expect(200);
            assert_eq!(quotas["items"][0]["used"], used, "{org}: {quotas}");
            assert_eq!(quotas["items"][0]["limit"], 200, "{org}");
        }
    }
    plan(&server, "scaled", "small", "?usage=proportional");
    assert_eq!(left(&server, "scaled", "small-day"), 29);
    let nonsense = server
        .platform_admin()
        .put("/v1/orgs/scaled?usage=half", &json!({"tier": "small"}));
    assert_eq!(
        nonsense.problem(400),
        "`usage` can only be carry, proportional or reset."
    );
}
