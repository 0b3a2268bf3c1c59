//! What is charged, and what is not.

use serde_json::json;

use crate::common::server::remaining;
use crate::common::{Server, file_of, hourly};

#[test]
fn a_denial_charges_nothing_at_any_level() {
    let policies = file_of(&[
        hourly("global", "global", 100, ""),
        hourly("route", "endpoint", 100, ""),
        hourly("address", "ip", 100, ""),
        hourly("org", "org", 100, ""),
        hourly("app", "app", 100, ""),
        hourly("key", "key", 2, ""),
        hourly("user", "user", 100, ""),
        hourly("pair", "[org, ip]", 100, ""),
        hourly("shadow", "org", 100, "mode: shadow"),
        hourly("soft", "org", 100, "mode: soft"),
    ]);
    let server = Server::start(&policies, &[]);
    let body = json!({
        "orgId": "acme", "appId": "web", "keyId": "k1", "userId": "u7", "ip": "203.0.113.9", "endpoint": "GET /a",
    });
    server.allowed(&body);
    server.allowed(&body);
    for _ in 0..5 {
        let denial = server.denied(&body);
        assert_eq!(denial["policyId"], "key");
        for limit in denial["limits"].as_array().unwrap() {
            let left = if limit["policyId"] == "key" { 0 } else { 98 };
            assert_eq!(limit["remaining"], left, "{limit}");
        }
    }
    for policy in [
        "global", "route", "address", "org", "app", "user", "pair", "shadow", "soft",
    ] {
        assert_eq!(server.left(policy, &body), 98, "{policy}");
    }
}

#[test]
fn a_cost_of_zero_looks_and_is_always_allowed() {
    let server = Server::start(&file_of(&[hourly("org", "org", 2, "")]), &[]);
    let (look, take) = (
        json!({"orgId": "acme", "cost": 0}),
        json!({"orgId": "acme", "cost": 2}),
    );
    let decision = server.allowed(&look);
    assert_eq!(remaining(&decision, "org"), 2);
    server.allowed(&take);
    for _ in 0..3 {
        let decision = server.allowed(&look);
        assert_eq!(decision["remaining"], 0);
        assert_eq!(decision["limits"][0]["violated"], false);
        assert_eq!(decision["retryAfterMs"], 0);
    }
}

#[test]
fn a_cost_of_zero_is_allowed_even_by_a_limit_of_zero() {
    let server = Server::start(&file_of(&[hourly("closed", "org", 0, "")]), &[]);
    server.allowed(&json!({"orgId": "acme", "cost": 0}));
    server.denied(&json!({"orgId": "acme"}));
}

#[test]
fn a_cost_of_zero_opens_no_window() {
    let server = Server::start(&file_of(&[hourly("org", "org", 2, "")]), &[]);
    let look = json!({"orgId": "acme", "cost": 0});
    for _ in 0..3 {
        // A window that begins with the first counted request is always a whole one away until then.
        assert_eq!(server.allowed(&look)["limits"][0]["resetMs"], 3_600_000);
    }
    assert_eq!(server.counted("tollgate_counters"), 0);
}

#[test]
fn a_dry_run_answers_as_a_real_check_would_and_charges_nothing() {
    let server = Server::start(&file_of(&[hourly("org", "org", 2, "")]), &[]);
    let dry = json!({"orgId": "acme", "dryRun": true});
    for _ in 0..5 {
        let decision = server.allowed(&dry);
        assert_eq!(remaining(&decision, "org"), 1, "as if it had been charged");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 2);
    server.allowed(&json!({"orgId": "acme", "cost": 2, "dryRun": false}));
    let denial = server.denied(&dry);
    assert_eq!(denial["policyId"], "org");
    assert!(denial["retryAfterMs"].as_u64().unwrap() > 0);
}

#[test]
fn a_cost_is_charged_as_a_whole_or_not_at_all() {
    let server = Server::start(&file_of(&[hourly("org", "org", 10, "")]), &[]);
    let cost = |cost: u64| json!({"orgId": "acme", "cost": cost});
    assert_eq!(remaining(&server.allowed(&cost(7)), "org"), 3);
    server.denied(&cost(4));
    assert_eq!(remaining(&server.allowed(&cost(3)), "org"), 0);
    server.denied(&cost(1));
}
