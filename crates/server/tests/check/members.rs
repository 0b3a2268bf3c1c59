//! The members of an answer: all there, of the right kind, in the right order.

use serde_json::{Value, json};

use crate::common::server::applied;
use crate::common::{Server, file_of, hourly};

const MEMBERS: [&str; 8] = [
    "allowed",
    "scope",
    "policyId",
    "remaining",
    "retryAfterMs",
    "delayMs",
    "degraded",
    "limits",
];
const LIMIT_MEMBERS: [&str; 8] = [
    "policyId",
    "scope",
    "limit",
    "remaining",
    "resetMs",
    "resetAt",
    "mode",
    "violated",
];

/// The names of an object's members, in the order of the text.
fn names(text: &str) -> Vec<String> {
    let object: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
    let mut names: Vec<String> = object.keys().cloned().collect();
    names.sort_by_key(|name| text.find(&format!("\"{name}\":")));
    names
}

fn assert_whole(decision: &Value) {
    for name in MEMBERS {
        assert!(decision.get(name).is_some(), "{name} is missing: {decision}");
    }
    assert!(decision["allowed"].is_boolean());
    assert!(decision["delayMs"].is_u64());
    assert!(decision["degraded"].is_boolean());
    for limit in decision["limits"].as_array().unwrap() {
        assert_eq!(limit.as_object().unwrap().len(), LIMIT_MEMBERS.len(), "{limit}");
        for name in ["policyId", "scope", "mode"] {
            assert!(limit[name].is_string(), "{name} of {limit}");
        }
        for name in ["limit", "remaining", "resetMs"] {
            assert!(limit[name].is_u64(), "{name} of {limit}");
        }
        assert!(limit["violated"].is_boolean(), "{limit}");
        let at = limit["resetAt"].as_str().unwrap();
        assert!(at.ends_with('Z'), "{at} is not in UTC");
        at.parse::<jiff::Timestamp>().unwrap();
    }
}

#[test]
fn an_allowed_answer_has_every_member_and_no_other() {
    let server = Server::start(&file_of(&[hourly("day", "org", 5, "")]), &[]);
    let answer = server.check(&json!({"orgId": "acme"}));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(names(answer.text()), MEMBERS);
    let decision = answer.expect(200);
    assert_whole(&decision);
    assert_eq!(decision["allowed"], true);
    assert_eq!(decision["scope"], Value::Null);
    assert_eq!(decision["policyId"], Value::Null);
    assert_eq!(decision["remaining"], 4);
    assert_eq!(decision["retryAfterMs"], 0);
    assert_eq!(decision["delayMs"], 0);
    assert_eq!(decision["degraded"], false);
    let limit = &decision["limits"][0];
    assert_eq!(limit["policyId"], "day");
    assert_eq!(limit["scope"], "org");
    assert_eq!(limit["limit"], 5);
    assert_eq!(limit["remaining"], 4);
    assert_eq!(limit["resetMs"], 3_600_000);
    assert_eq!(limit["mode"], "enforce");
    assert_eq!(limit["violated"], false);
}

#[test]
fn with_no_policy_that_applies_remaining_is_null_and_limits_is_empty() {
    let server = Server::start("policies: []\n", &[]);
    let decision = server.allowed(&json!({"orgId": "acme"}));
    assert_whole(&decision);
    assert_eq!(decision["remaining"], Value::Null);
    assert_eq!(decision["limits"], json!([]));
    let decision = server.check_raw("{}").expect(200);
    assert_whole(&decision);
}

#[test]
fn remaining_is_the_least_of_the_enforced_limits_only() {
    let policies = file_of(&[
        hourly("wide", "org", 100, ""),
        hourly("narrow", "app", 7, ""),
        hourly("watched", "org", 3, "mode: shadow"),
        hourly("gentle", "org", 2, "mode: soft"),
    ]);
    let server = Server::start(&policies, &[]);
    let decision = server.allowed(&json!({"orgId": "acme", "appId": "web"}));
    assert_eq!(decision["remaining"], 6);
    let decision = server.allowed(&json!({"orgId": "acme", "appId": "web", "endpoint": "GET /"}));
    assert_eq!(decision["remaining"], 5);
}

#[test]
fn a_denied_answer_has_every_member_too() {
    let server = Server::start(&file_of(&[hourly("day", "org", 1, "")]), &[]);
    server.allowed(&json!({"orgId": "acme"}));
    let decision = server.denied(&json!({"orgId": "acme"}));
    assert_whole(&decision);
    assert_eq!(decision["scope"], "org");
    assert_eq!(decision["policyId"], "day");
    assert_eq!(decision["remaining"], 0);
    assert_eq!(decision["limits"][0]["violated"], true);
}

#[test]
fn limits_are_shown_from_broad_to_narrow_and_then_by_id() {
    let scopes = [
        ("[org, ip]", "o"),
        ("\"descriptor:region\"", "n"),
        ("user", "m"),
        ("key", "l"),
        ("app", "k"),
        ("org", "j2"),
        ("org", "j1"),
        ("ip", "i"),
        ("endpoint", "h"),
        ("global", "z"),
    ];
    let policies: Vec<String> = scopes
        .iter()
        .map(|(scope, id)| hourly(id, scope, 9, ""))
        .collect();
    let server = Server::start(&file_of(&policies), &[]);
    let decision = server.allowed(&json!({
        "orgId": "acme", "appId": "web", "keyId": "k1", "userId": "u7", "ip": "203.0.113.9",
        "endpoint": "POST /v1/exports", "descriptors": {"region": "eu"},
    }));
    assert_eq!(
        applied(&decision),
        ["z", "h", "i", "j1", "j2", "k", "l", "m", "n", "o"]
    );
    let shown: Vec<&str> = decision["limits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|limit| limit["scope"].as_str().unwrap())
        .collect();
    assert_eq!(
        shown,
        [
            "global",
            "endpoint",
            "ip",
            "org",
            "org",
            "app",
            "key",
            "user",
            "descriptor:region",
            "org+ip"
        ]
    );
}

#[test]
fn the_reset_instant_is_the_reset_time_from_now() {
    let server = Server::start(&file_of(&[hourly("day", "org", 5, "")]), &[]);
    let before = tollgate::clock::now().millis();
    let decision = server.allowed(&json!({"orgId": "acme"}));
    let after = tollgate::clock::now().millis();
    let limit = &decision["limits"][0];
    let at: jiff::Timestamp = limit["resetAt"].as_str().unwrap().parse().unwrap();
    let asked = u64::try_from(at.as_millisecond()).unwrap() - limit["resetMs"].as_u64().unwrap();
    assert!(
        (before..=after + 1).contains(&asked),
        "{before} <= {asked} <= {after}"
    );
}
