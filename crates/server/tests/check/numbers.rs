//! Limits that nothing fits in, and numbers at their ends.

use serde_json::{Value, json};

use crate::common::{Answer, Server, file_of, hourly};

const LARGEST: u64 = 999_999_999_999_999;

fn assert_hopeless(answer: &Answer, policy: &str) {
    let denial = answer.expect(429);
    assert_eq!(denial["policyId"], policy);
    assert_eq!(denial["error"], "cost_exceeds_limit");
    for name in ["retryAfterMs", "retry_after", "retry_after_seconds"] {
        assert_eq!(denial[name], Value::Null, "{name}");
        assert!(denial.get(name).is_some(), "{name}");
    }
    assert_eq!(answer.header("retry-after"), None, "waiting never helps");
    assert!(!denial["message"].as_str().unwrap().contains("Try again"));
}

#[test]
fn a_limit_of_zero_denies_for_ever() {
    for algorithm in [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
    ] {
        let policy = format!("{{id: closed, scope: org, algorithm: {algorithm}, limit: 0, window: 1m}}");
        let server = Server::start(&file_of(&[policy, hourly("app", "app", 5, "")]), &[]);
        let body = json!({"orgId": "acme", "appId": "web"});
        assert_hopeless(&server.check(&body), "closed");
        assert_eq!(server.left("app", &body), 5, "{algorithm}: nothing was charged");
    }
    let quota = "{id: closed, scope: org, limit: 0, window: day}".to_owned();
    let server = Server::start(&file_of(&[quota]), &[]);
    assert_hopeless(&server.check(&json!({"orgId": "acme"})), "closed");
}

#[test]
fn a_bucket_whose_limit_is_zero_has_no_use_of_its_burst() {
    let server = Server::start(
        "policies:\n  - {id: closed, scope: org, limit: 0, burst: 5, window: 1m}\n",
        &[],
    );
    assert_hopeless(&server.check(&json!({"orgId": "acme"})), "closed");
}

#[test]
fn a_cost_above_the_capacity_is_denied_for_ever() {
    let bucket = "{id: bucket, scope: org, limit: 100, burst: 10, window: 1m}".to_owned();
    let server = Server::start(&file_of(&[bucket]), &[]);
    assert_hopeless(&server.check(&json!({"orgId": "acme", "cost": 11})), "bucket");
    server.allowed(&json!({"orgId": "acme", "cost": 10}));
    let server = Server::start(&file_of(&[hourly("window", "org", 10, "")]), &[]);
    assert_hopeless(&server.check(&json!({"orgId": "acme", "cost": 11})), "window");
    server.allowed(&json!({"orgId": "acme", "cost": 10}));
}

#[test]
fn the_largest_limit_is_exact() {
    let server = Server::start(&file_of(&[hourly("vast", "org", LARGEST, "")]), &[]);
    let cost = |cost: u64| json!({"orgId": "acme", "cost": cost});
    assert_eq!(server.allowed(&cost(1))["remaining"], LARGEST - 1);
    assert_eq!(server.allowed(&cost(LARGEST - 1))["remaining"], 0);
    server.denied(&cost(1));
    // A cost has the same bound.
    for huge in [LARGEST + 1, u64::MAX] {
        let detail = server.check(&cost(huge)).problem(400);
        assert!(
            detail.contains("`cost` must be at most 999999999999999"),
            "{detail}"
        );
    }
}

#[test]
fn a_bucket_of_the_largest_size_tells_its_wait_in_whole_milliseconds() {
    let policy = format!("{{id: vast, scope: org, limit: 1, burst: {LARGEST}, window: 366d}}");
    let server = Server::start(&file_of(&[policy]), &[]);
    let body = json!({"orgId": "acme", "cost": LARGEST});
    assert_eq!(server.allowed(&body)["remaining"], 0);
    let answer = server.check(&body);
    assert_eq!(answer.status, 429);
    // More than 64 bits hold: a client that reads numbers as floats still gets one.
    let denial = answer.json();
    assert!(denial["retryAfterMs"].as_f64().unwrap() > 3.0e25, "{denial}");
    assert_eq!(denial["limits"][0]["resetAt"], "9999-12-31T23:59:59.999Z");
}
