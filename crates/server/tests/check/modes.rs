//! Limits that refuse, watch, or let pass and tell.

use serde_json::{Value, json};

use crate::common::server::{applied, limit, remaining};
use crate::common::{Server, file_of, hourly};

fn body() -> Value {
    json!({"orgId": "acme", "appId": "web"})
}

#[test]
fn a_shadow_limit_never_refuses_and_says_what_it_would_have_done() {
    let policies = file_of(&[hourly("watched", "org", 2, "mode: shadow")]);
    let server = Server::start(&policies, &[]);
    for left in [1, 0] {
        let decision = server.allowed(&body());
        assert_eq!(remaining(&decision, "watched"), left);
        assert_eq!(limit(&decision, "watched")["violated"], false);
        assert_eq!(limit(&decision, "watched")["mode"], "shadow");
    }
    for _ in 0..3 {
        let decision = server.allowed(&body());
        assert_eq!(limit(&decision, "watched")["violated"], true);
        assert_eq!(remaining(&decision, "watched"), 0, "not charged without room");
        assert_eq!(decision["retryAfterMs"], 0);
        assert_eq!(decision["policyId"], Value::Null);
        assert_eq!(decision["remaining"], Value::Null, "it counts the enforced ones");
    }
    let would_deny =
        r#"tollgate_decisions_total{outcome="would_deny",scope="org",tier="default",class="none"}"#;
    assert_eq!(server.counted(would_deny), 3);
}

#[test]
fn a_shadow_limit_is_charged_only_when_it_has_room_just_as_if_enforced() {
    let policies = file_of(&[hourly("watched", "org", 10, "mode: shadow")]);
    let server = Server::start(&policies, &[]);
    let cost = |cost: u64| json!({"orgId": "acme", "cost": cost});
    assert_eq!(remaining(&server.allowed(&cost(8)), "watched"), 2);
    assert_eq!(remaining(&server.allowed(&cost(5)), "watched"), 2);
    assert_eq!(remaining(&server.allowed(&cost(2)), "watched"), 0);
}

#[test]
fn a_shadow_limit_is_not_charged_when_another_refuses() {
    let policies = file_of(&[
        hourly("watched", "org", 10, "mode: shadow"),
        hourly("app", "app", 1, ""),
    ]);
    let server = Server::start(&policies, &[]);
    server.allowed(&body());
    assert_eq!(remaining(&server.denied(&body()), "watched"), 9);
    assert_eq!(server.left("watched", &body()), 9);
}

#[test]
fn a_soft_limit_is_charged_past_its_limit_and_never_refuses() {
    let policies = file_of(&[hourly("gentle", "org", 2, "mode: soft")]);
    let server = Server::start(&policies, &[]);
    for violated in [false, false, true, true] {
        let decision = server.allowed(&body());
        assert_eq!(limit(&decision, "gentle")["violated"], violated);
        assert_eq!(limit(&decision, "gentle")["mode"], "soft");
    }
    // Had the two beyond the limit not been counted, a limit of 5 would now have 3 left.
    server.reload(&file_of(&[hourly("gentle", "org", 5, "mode: soft")]));
    assert_eq!(server.left("gentle", &body()), 1);
    let over_soft =
        r#"tollgate_decisions_total{outcome="over_soft",scope="org",tier="default",class="none"}"#;
    assert_eq!(server.counted(over_soft), 2);
}

#[test]
fn a_soft_limit_is_not_charged_when_another_refuses() {
    let policies = file_of(&[
        hourly("gentle", "org", 10, "mode: soft"),
        hourly("app", "app", 1, ""),
    ]);
    let server = Server::start(&policies, &[]);
    server.allowed(&body());
    assert_eq!(remaining(&server.denied(&body()), "gentle"), 9);
}

#[test]
fn a_limit_that_is_off_does_not_apply() {
    let policies = file_of(&[hourly("gone", "org", 0, "mode: off"), hourly("app", "app", 5, "")]);
    let server = Server::start(&policies, &[]);
    assert_eq!(applied(&server.allowed(&body())), ["app"]);
}

#[test]
fn the_kill_switch_refuses_nothing_and_reports_everything() {
    let server = Server::start(&file_of(&[hourly("app", "app", 1, "")]), &["--shadow-all"]);
    server.allowed(&body());
    let answer = server.check(&body());
    let decision = answer.expect(200);
    assert_eq!(limit(&decision, "app")["violated"], true);
    assert_eq!(limit(&decision, "app")["mode"], "shadow");
    assert_eq!(answer.limit_headers(), Vec::<&str>::new());
}

#[test]
fn a_leaky_bucket_says_how_long_to_hold_a_request_back() {
    let policy = "{id: queue, scope: org, algorithm: leaky_bucket, limit: 60, burst: 3, window: 1h}";
    let server = Server::start(&file_of(&[policy.to_owned()]), &[]);
    let delay = || server.allowed(&body())["delayMs"].as_u64().unwrap();
    assert_eq!(delay(), 0);
    // One a minute drains; what has drained between two requests is a matter of milliseconds.
    assert!((59_000..=60_000).contains(&delay()));
    assert!((119_000..=120_000).contains(&delay()));
    assert_eq!(server.denied(&body())["delayMs"], 0);
}
