//! Conditions that a policy puts on a request, and dimensions it counts by.

use serde_json::{Value, json};

use crate::common::server::{applied, limit};
use crate::common::{Server, file_of, hourly};

#[test]
fn a_policy_whose_dimension_the_request_lacks_is_skipped() {
    let policies = file_of(&[
        hourly("a-endpoint", "endpoint", 100, ""),
        hourly("b-ip", "ip", 100, ""),
        hourly("c-org", "org", 100, ""),
        hourly("d-app", "app", 100, ""),
        hourly("e-key", "key", 100, ""),
        hourly("f-user", "user", 100, ""),
        hourly("g-region", "\"descriptor:region\"", 100, ""),
        hourly("h-pair", "[org, ip]", 100, ""),
    ]);
    let server = Server::start(&policies, &[]);
    for (body, expected) in [
        (json!({}), vec![]),
        (json!({"endpoint": "/"}), vec!["a-endpoint"]),
        (json!({"ip": "::1"}), vec!["b-ip"]),
        (json!({"orgId": "o"}), vec!["c-org"]),
        (json!({"appId": "a"}), vec!["d-app"]),
        (json!({"keyId": "k"}), vec!["e-key"]),
        (json!({"userId": "u"}), vec!["f-user"]),
        (json!({"descriptors": {"region": "eu"}}), vec!["g-region"]),
        (json!({"descriptors": {"Region": "eu"}}), vec![]),
        (
            json!({"orgId": "o", "ip": "::1"}),
            vec!["b-ip", "c-org", "h-pair"],
        ),
    ] {
        assert_eq!(applied(&server.allowed(&body)), expected, "{body}");
    }
}

#[test]
fn a_descriptor_counts_each_of_its_values_apart() {
    let server = Server::start(&file_of(&[hourly("region", "\"descriptor:region\"", 1, "")]), &[]);
    let body = |region: &str| json!({"descriptors": {"region": region}});
    server.allowed(&body("eu"));
    server.allowed(&body("us"));
    let denial = server.denied(&body("eu"));
    assert_eq!(denial["scope"], "descriptor:region");
    assert!(
        denial["message"]
            .as_str()
            .unwrap()
            .starts_with("This region has used up")
    );
}

#[test]
fn a_match_wants_the_value_or_its_beginning() {
    let policies = file_of(&[
        hourly("exact", "org", 100, "match: {plan: pro}"),
        hourly("prefix", "org", 100, "match: {plan: \"pro*\"}"),
        hourly("present", "org", 100, "match: {plan: \"*\"}"),
        hourly("both", "org", 100, "match: {plan: pro, region: \"eu-*\"}"),
    ]);
    let server = Server::start(&policies, &[]);
    let ask = |descriptors: Value| {
        let decision = server.allowed(&json!({"orgId": "acme", "descriptors": descriptors}));
        applied(&decision).join(" ")
    };
    assert_eq!(ask(json!({"plan": "pro"})), "exact prefix present");
    assert_eq!(ask(json!({"plan": "professional"})), "prefix present");
    assert_eq!(ask(json!({"plan": "PRO"})), "present");
    assert_eq!(ask(json!({"plan": "pr"})), "present");
    assert_eq!(
        ask(json!({"plan": "pro", "region": "eu-west"})),
        "both exact prefix present"
    );
    assert_eq!(
        ask(json!({"plan": "pro", "region": "eu"})),
        "exact prefix present"
    );
    assert_eq!(ask(json!({"region": "eu-west"})), "");
}

#[test]
fn a_required_scope_must_be_carried() {
    let server = Server::start(
        &file_of(&[hourly("writes", "org", 100, "requiredScope: write")]),
        &[],
    );
    for (scopes, applies) in [
        (json!(["read", "write"]), true),
        (json!(["write"]), true),
        (json!(["read"]), false),
        (json!(["Write"]), false),
        (json!(["writer"]), false),
        (json!([]), false),
        (Value::Null, false),
    ] {
        let decision = server.allowed(&json!({"orgId": "acme", "scopes": scopes}));
        assert_eq!(!applied(&decision).is_empty(), applies, "{scopes}");
    }
}

#[test]
fn a_composite_counts_each_combination_and_is_shown_joined() {
    let policies = file_of(&[hourly("pair", "[org, ip]", 1, "")]);
    let server = Server::start(&policies, &[]);
    let body = |org: &str, ip: &str| json!({"orgId": org, "ip": ip});
    let decision = server.allowed(&body("acme", "203.0.113.9"));
    assert_eq!(limit(&decision, "pair")["scope"], "org+ip");
    server.allowed(&body("acme", "203.0.113.10"));
    server.allowed(&body("globex", "203.0.113.9"));
    let answer = server.check(&body("acme", "203.0.113.9"));
    assert_eq!(answer.expect(429)["scope"], "org+ip");
    assert_eq!(answer.header("x-ratelimit-scope"), Some("org+ip"));
}

#[test]
fn a_scope_keeps_the_order_in_which_it_is_written_and_counts_the_same() {
    let server = Server::start(&file_of(&[hourly("pair", "ip+org", 2, "")]), &[]);
    let body = json!({"orgId": "acme", "ip": "203.0.113.9"});
    let decision = server.allowed(&body);
    assert_eq!(limit(&decision, "pair")["scope"], "ip+org");
    server.reload(&file_of(&[hourly("pair", "[org, ip]", 2, "")]));
    assert_eq!(server.left("pair", &body), 1, "the same pair is the same count");
}

#[test]
fn policies_of_all_tiers_and_of_the_orgs_own_apply_together() {
    let policies = "orgs: [{orgId: acme, tier: Gold}]\npolicies:\n  \
        - {id: b, scope: org, limit: 9, window: 1h}\n  \
        - {id: a, orgTier: Gold, scope: org, limit: 7, window: 1h}\n  \
        - {id: c, orgTier: \"*\", scope: org, limit: 8, window: 1h}\n  \
        - {id: d, orgTier: Silver, scope: org, limit: 1, window: 1h}\n";
    let server = Server::start(policies, &[]);
    let decision = server.allowed(&json!({"orgId": "acme"}));
    assert_eq!(applied(&decision), ["a", "b", "c"]);
    assert_eq!(decision["remaining"], 6);
}
