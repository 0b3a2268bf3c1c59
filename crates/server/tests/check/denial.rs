//! What a refused client is told in the body.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Server, file_of, hourly, noon_zone, wait_for};

const TYPE: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// One policy and a request with which it refuses; then the parts that name it.
fn refusal(policy: &str, body: &Value) -> Value {
    let server = Server::start(&format!("policies:\n  - {policy}\n"), &[]);
    server.allowed(body);
    server.denied(body)
}

#[test]
fn a_denial_is_problem_json_with_the_members_of_both_sections() {
    let server = Server::start(&file_of(&[hourly("cap", "org", 1, "")]), &[]);
    server.allowed(&json!({"orgId": "acme"}));
    let answer = server.check(&json!({"orgId": "acme"}));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let denial = answer.expect(429);
    assert_eq!(denial["type"], TYPE);
    assert_eq!(denial["title"], "Rate limit exceeded");
    assert_eq!(denial["status"], 429);
    assert_eq!(denial["violated-policies"], json!(["cap"]));
    assert_eq!(denial["error"], "rate_limit_exceeded");
    assert_eq!(denial["scope"], "org");
    assert_eq!(denial["policy"], "cap");
    assert_eq!(denial["policyId"], "cap");
    assert_eq!(denial["limit_type"], "per_hour");
    assert_eq!(denial["message"], denial["detail"]);
    let message = denial["message"].as_str().unwrap();
    assert!(
        message.starts_with("This organization has used up its limit of 1 in 1h (policy cap)."),
        "{message}"
    );
    let seconds = denial["retry_after"].as_u64().unwrap();
    assert!((3_590..=3_600).contains(&seconds), "{seconds}");
    assert_eq!(denial["retry_after_seconds"], seconds);
    assert_eq!(answer.number("retry-after"), Some(seconds));
    let millis = denial["retryAfterMs"].as_u64().unwrap();
    assert_eq!(millis.div_ceil(1_000), seconds);
}

#[test]
fn asked_for_200_a_denial_says_the_same_under_another_status() {
    let server = Server::start(&file_of(&[hourly("cap", "org", 1, "")]), &[]);
    let body = json!({"orgId": "acme"}).to_string();
    let ask = || {
        server
            .ask("POST", "/v1/check?status=200")
            .body(body.as_str())
            .send()
    };
    assert_eq!(ask().expect(200)["allowed"], true);
    let answer = ask();
    let denial = answer.expect(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(denial["allowed"], false);
    assert_eq!(denial["error"], "rate_limit_exceeded");
    assert_eq!(denial["policyId"], "cap");
    assert!(answer.number("retry-after").is_some());
    let other = server.ask("POST", "/v1/check?status=204").body(body.as_str());
    assert!(other.send().problem(400).contains("status"));
}

#[test]
fn every_kind_of_limit_has_its_type_and_error() {
    let zone = noon_zone();
    let org = json!({"orgId": "acme"});
    let routed = json!({"orgId": "acme", "endpoint": "GET /a"});
    for (policy, body, limit_type, error) in [
        (
            "scope: org, limit: 1, window: 1m",
            &org,
            "per_minute",
            "rate_limit_exceeded",
        ),
        (
            "scope: org, limit: 1, window: 1h",
            &org,
            "per_hour",
            "rate_limit_exceeded",
        ),
        (
            "scope: org, limit: 1, window: 1d",
            &org,
            "per_day",
            "rate_limit_exceeded",
        ),
        (
            "scope: org, limit: 1, window: 24h",
            &org,
            "per_day",
            "rate_limit_exceeded",
        ),
        (
            "scope: org, limit: 1, window: 90s",
            &org,
            "window",
            "rate_limit_exceeded",
        ),
        (
            "scope: org, limit: 1, window: day",
            &org,
            "daily_quota",
            "quota_exceeded",
        ),
        (
            "scope: org, limit: 1, window: week",
            &org,
            "weekly_quota",
            "quota_exceeded",
        ),
        (
            "scope: org, limit: 1, window: month",
            &org,
            "monthly_quota",
            "quota_exceeded",
        ),
        (
            "scope: org, limit: 1, window: billing_month",
            &org,
            "monthly_quota",
            "quota_exceeded",
        ),
        (
            "scope: endpoint, limit: 1, window: 1h",
            &routed,
            "endpoint_per_hour",
            "rate_limit_exceeded",
        ),
        (
            "scope: endpoint, limit: 1, window: 90s",
            &routed,
            "endpoint_window",
            "rate_limit_exceeded",
        ),
        (
            "scope: endpoint, limit: 1, window: day",
            &routed,
            "endpoint_daily_quota",
            "quota_exceeded",
        ),
    ] {
        let zoned = if error == "quota_exceeded" {
            format!(", timezone: {zone}")
        } else {
            ", algorithm: sliding_window_log".to_owned()
        };
        let denial = refusal(&format!("{{id: p, {policy}{zoned}}}"), body);
        assert_eq!(denial["limit_type"], limit_type, "{policy}");
        assert_eq!(denial["error"], error, "{policy}");
    }
}

#[test]
fn a_limit_in_a_second_is_called_so() {
    // A bucket that holds one and refills one a second: two requests at once are one too many, unless a
    // whole second passes between them.
    let server = Server::start("policies:\n  - {id: p, scope: org, limit: 1, window: 1s}\n", &[]);
    let body = json!({"orgId": "acme"});
    let denial = wait_for("a denial", || {
        let answer = server.check(&body);
        (answer.status == 429).then(|| answer.json())
    });
    assert_eq!(denial["limit_type"], "per_second");
    assert_eq!(denial["retry_after"], 1, "at least a second");
}

#[test]
fn the_sentence_tells_the_reset_in_the_orgs_own_zone() {
    let zone = noon_zone();
    let policies = format!(
        "orgs:\n  - {{orgId: acme, timezone: Asia/Tokyo}}\npolicies:\n  \
         - {{id: day, scope: org, limit: 1, window: day, timezone: {zone}}}\n"
    );
    let server = Server::start(&policies, &[]);
    let body = json!({"orgId": "acme"});
    server.allowed(&body);
    let denial = server.denied(&body);
    let message = denial["message"].as_str().unwrap();
    let at: jiff::Timestamp = denial["limits"][0]["resetAt"].as_str().unwrap().parse().unwrap();
    let local = at.in_tz("Asia/Tokyo").unwrap().strftime("%Y-%m-%d %H:%M:%S JST");
    assert!(message.contains("daily quota of 1 (policy day)"), "{message}");
    assert!(
        message.contains(&format!("at {local}.")),
        "{message} and not {local}"
    );
}

#[test]
fn every_violated_policy_is_listed_and_no_shadow() {
    let policies = file_of(&[
        hourly("a", "org", 1, ""),
        hourly("b", "app", 1, ""),
        hourly("c", "key", 9, ""),
        hourly("d", "key", 1, "mode: shadow"),
        hourly("e", "key", 1, "mode: soft"),
    ]);
    let server = Server::start(&policies, &[]);
    let body = json!({"orgId": "acme", "appId": "web", "keyId": "k"});
    server.allowed(&body);
    assert_eq!(server.denied(&body)["violated-policies"], json!(["a", "b"]));
}

#[test]
fn room_comes_back_after_the_wait_and_not_before() {
    let server = Server::start(
        "policies:\n  - {id: p, scope: org, algorithm: sliding_window_log, limit: 1, window: 200ms}\n",
        &[],
    );
    let body = json!({"orgId": "acme"});
    let (asked, wait) = wait_for("a denial", || {
        let asked = Instant::now();
        let answer = server.check(&body);
        (answer.status == 429).then(|| (asked, answer.json()["retryAfterMs"].as_u64().unwrap()))
    });
    assert!((1..=200).contains(&wait), "{wait}");
    wait_for("room", || (server.check(&body).status == 200).then_some(()));
    // Told in whole milliseconds, rounded up.
    assert!(asked.elapsed() > Duration::from_millis(wait - 1), "{wait}");
}

#[test]
fn asked_for_200_an_org_that_asks_too_often_gets_200() {
    let server = Server::start("policies: []\n", &["--max-org-rate", "1"]);
    let body = json!({"orgId": "acme"}).to_string();
    let refused = |target: &str| {
        let answers = (0..20).map(|_| server.ask("POST", target).body(body.clone()).send());
        answers.reduce(|_, last| last).unwrap()
    };
    for (target, status) in [("/v1/check", 429), ("/v1/check?status=200", 200)] {
        let answer = refused(target);
        let body = answer.expect(status);
        assert_eq!(
            (&body["allowed"], &body["error"]),
            (&false.into(), &"rate_limit_exceeded".into())
        );
        assert_eq!(answer.number("retry-after"), Some(1));
        assert_eq!(answer.header("x-ratelimit-scope"), Some("org"));
    }
    let reserved = refused("/v1/reserve");
    let body = reserved.expect(429);
    let opened = [body.get("reservationId"), body.get("expiresAt")];
    assert_eq!(opened, [Some(&serde_json::Value::Null); 2]);
}

#[test]
fn the_sentence_does_not_say_that_all_is_used_where_there_is_some_left() {
    let server = Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[]);
    server.allowed(&json!({"orgId": "acme", "cost": 60}));
    let message = |cost: u64| {
        let denied = server.check(&json!({"orgId": "acme", "cost": cost})).expect(429);
        denied["message"].as_str().unwrap().to_owned()
    };
    let text = message(60);
    assert!(
        text.contains("has only 40 left of its limit of 100 in 1h, and the request costs 60"),
        "{text}"
    );
    let text = message(999_999_999_999_999);
    assert!(text.contains("costs 999,999,999,999,999"), "{text}");
    server.allowed(&json!({"orgId": "acme", "cost": 40}));
    let text = message(1);
    assert!(text.contains("has used up its limit of 100 in 1h"), "{text}");
}
