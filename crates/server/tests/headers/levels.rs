//! `X-RateLimit-Org-Limit` and its like: each level by itself.

use serde_json::{Value, json};

use crate::common::{Answer, Server, file_of, hourly, noon_zone};

fn start(policies: &[String]) -> Server {
    Server::start(&file_of(policies), &["--headers", "levels"])
}

fn level(answer: &Answer, name: &str) -> Option<(u64, u64)> {
    let limit = answer.number(&format!("x-ratelimit-{name}-limit"));
    let remaining = answer.number(&format!("x-ratelimit-{name}-remaining"));
    assert_eq!(limit.is_some(), remaining.is_some(), "{name}");
    limit.zip(remaining)
}

fn body() -> Value {
    json!({
        "orgId": "acme", "appId": "web", "keyId": "k", "userId": "u", "ip": "203.0.113.9", "endpoint": "GET /a",
        "descriptors": {"region": "eu"},
    })
}

#[test]
fn each_level_has_a_pair_of_its_own() {
    let server = start(&[
        hourly("global", "global", 10, "expose: true"),
        hourly("endpoint", "endpoint", 20, ""),
        hourly("ip", "ip", 30, ""),
        hourly("org", "org", 40, ""),
        hourly("app", "app", 50, ""),
        hourly("key", "key", 60, ""),
        hourly("user", "user", 70, ""),
        hourly("region", "\"descriptor:region\"", 80, ""),
        hourly("pair", "[org, ip]", 90, ""),
    ]);
    let answer = server.check(&body());
    for (name, limit) in [
        ("global", 10),
        ("endpoint", 20),
        ("ip", 30),
        ("org", 40),
        ("app", 50),
        ("key", 60),
        ("user", 70),
    ] {
        assert_eq!(level(&answer, name), Some((limit, limit - 1)), "{name}");
    }
    assert_eq!(
        answer.limit_headers().len(),
        14,
        "descriptors and composites have no level: {:?}",
        answer.headers
    );
}

#[test]
fn of_a_levels_limits_the_one_with_the_least_left_is_told() {
    let server = start(&[
        hourly("a", "org", 100, ""),
        hourly("b", "org", 50, "requiredScope: write"),
        hourly("c", "org", 20, "endpointPattern: \"GET /b\""),
    ]);
    assert_eq!(level(&server.check(&body()), "org"), Some((100, 99)));
    let mut writing = body();
    writing["scopes"] = json!(["write"]);
    assert_eq!(level(&server.check(&writing), "org"), Some((50, 49)));
}

#[test]
fn an_orgs_quotas_have_headers_of_their_own() {
    let zone = noon_zone();
    let quota = |id: &str, window: &str, limit: u64| {
        format!("{{id: {id}, scope: org, limit: {limit}, window: {window}, timezone: {zone}}}")
    };
    let server = start(&[
        quota("day", "day", 1_000),
        quota("month", "month", 20_000),
        hourly("rate", "org", 100, ""),
    ]);
    let answer = server.check(&body());
    assert_eq!(level(&answer, "org"), Some((100, 99)));
    assert_eq!(level(&answer, "org-daily"), Some((1_000, 999)));
    assert_eq!(level(&answer, "org-monthly"), Some((20_000, 19_999)));
    let decision = answer.json();
    let day = crate::common::server::limit(&decision, "day");
    let at: jiff::Timestamp = day["resetAt"].as_str().unwrap().parse().unwrap();
    let reset = i64::try_from(answer.number("x-ratelimit-org-reset").unwrap()).unwrap();
    assert_eq!(reset, at.as_second(), "of the quota with the least left");
}

#[test]
fn a_billing_month_is_a_month_and_a_week_has_only_the_reset() {
    let zone = noon_zone();
    let only = |window: &str| {
        start(&[format!(
            "{{id: q, scope: org, limit: 9, window: {window}, timezone: {zone}}}"
        )])
        .check(&body())
    };
    assert_eq!(level(&only("billing_month"), "org-monthly"), Some((9, 8)));
    let week = only("week");
    assert_eq!(level(&week, "org-daily"), None);
    assert_eq!(level(&week, "org-monthly"), None);
    assert_eq!(level(&week, "org"), Some((9, 8)));
    assert!(week.number("x-ratelimit-org-reset").is_some());
}

#[test]
fn soft_limits_are_shown_and_hidden_or_shadow_ones_are_not() {
    let server = start(&[
        hourly("everyone", "global", 5, ""),
        hourly("hidden", "ip", 5, "expose: false"),
        hourly("watched", "org", 5, "mode: shadow"),
        hourly("gentle", "app", 5, "mode: soft"),
    ]);
    let answer = server.check(&body());
    assert_eq!(level(&answer, "app"), Some((5, 4)));
    assert_eq!(answer.limit_headers().len(), 2, "{:?}", answer.headers);
}
