//! `Retry-After` and `X-RateLimit-Scope`: only on a denial, and never too early.

use serde_json::json;

use super::ietf::items;
use crate::common::{Server, file_of, hourly, wait_for};

#[test]
fn an_allowed_request_is_not_told_to_come_back() {
    let server = Server::start(&file_of(&[hourly("org", "org", 1, "")]), &[]);
    let answer = server.check(&json!({"orgId": "acme"}));
    assert_eq!(answer.header("retry-after"), None);
    assert_eq!(answer.header("x-ratelimit-scope"), None);
}

#[test]
fn it_is_never_before_the_t_of_any_violated_limit() {
    let policies = [
        hourly("org", "org", 2, ""),
        "{id: app, scope: app, limit: 2, window: 10h}".to_owned(),
        "{id: key, scope: key, algorithm: sliding_window_log, limit: 2, window: 90s}".to_owned(),
    ];
    let server = Server::start(&file_of(&policies), &[]);
    let body = json!({"orgId": "acme", "appId": "web", "keyId": "k", "cost": 2});
    server.allowed(&body);
    let answer = server.check(&body);
    let retry_after = i64::try_from(answer.number("retry-after").unwrap()).unwrap();
    let waits: Vec<i64> = items(&answer, "ratelimit")
        .iter()
        .map(|(_, state)| state["t"])
        .collect();
    assert_eq!(waits.len(), 3);
    for wait in &waits {
        assert!(retry_after >= *wait, "{retry_after} < {wait}");
    }
    assert_eq!(Some(&retry_after), waits.iter().max());
    assert_eq!(answer.header("x-ratelimit-scope"), Some("app"));
}

#[test]
fn it_is_at_least_a_second() {
    let policy = "{id: p, scope: org, algorithm: sliding_window_log, limit: 1, window: 50ms}";
    let server = Server::start(&file_of(&[policy.to_owned()]), &[]);
    let answer = wait_for("a denial", || {
        let answer = server.check(&json!({"orgId": "acme"}));
        (answer.status == 429).then_some(answer)
    });
    assert_eq!(answer.number("retry-after"), Some(1));
    assert!(
        answer.json()["retryAfterMs"].as_u64().unwrap() <= 50,
        "the body is exact"
    );
}

#[test]
fn jitter_moves_it_later_only_and_not_too_far() {
    let policy = hourly("p", "org", 1, "resetJitter: 10m");
    let server = Server::start(&file_of(&[policy]), &[]);
    let body = json!({"orgId": "acme"});
    server.allowed(&body);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..30 {
        let answer = server.check(&body);
        let denial = answer.expect(429);
        let told = answer.number("retry-after").unwrap();
        let exact = denial["retryAfterMs"].as_u64().unwrap();
        assert!(told * 1_000 >= exact, "{told} s is before {exact} ms");
        assert!(
            told * 1_000 <= exact + 600_000 + 1_000,
            "{told} s is too long after {exact} ms"
        );
        assert_eq!(denial["retry_after"], told);
        seen.insert(told);
    }
    assert!(seen.len() > 5, "it spreads: {seen:?}");
}
