//! Who is counted together and who apart.

use serde_json::{Value, json};

use crate::common::server::applied;
use crate::common::{Server, file_of, hourly};

/// Starts a server with one limit of 1 and returns how its answers to these requests differ.
fn admitted(policy: &str, bodies: &[Value]) -> Vec<bool> {
    let server = Server::start(&file_of(&[policy.to_owned()]), &[]);
    let answers = bodies.iter().map(|body| server.check(body));
    answers.map(|answer| answer.status == 200).collect()
}

#[test]
fn an_app_key_or_user_is_one_only_within_its_org() {
    for (scope, field) in [("app", "appId"), ("key", "keyId"), ("user", "userId")] {
        let admitted = admitted(
            &hourly("p", scope, 1, ""),
            &[
                json!({"orgId": "acme", field: "x"}),
                json!({"orgId": "acme", field: "x"}),
                json!({"orgId": "globex", field: "x"}),
                json!({"orgId": "acme", field: "y"}),
                json!({field: "x"}),
                json!({field: "x"}),
            ],
        );
        assert_eq!(admitted, [true, false, true, true, true, false], "{scope}");
    }
}

#[test]
fn ids_are_case_sensitive_and_never_trimmed() {
    let ids = ["acme", "Acme", "acme ", " acme", "acmé"];
    let bodies: Vec<Value> = ids.iter().map(|id| json!({"orgId": id})).collect();
    assert_eq!(admitted(&hourly("p", "org", 1, ""), &bodies), [true; 5]);
}

#[test]
fn ids_that_run_together_are_not_mixed_up() {
    let admitted = admitted(
        &hourly("p", "[app, user]", 1, ""),
        &[
            json!({"orgId": "o", "appId": "ab", "userId": "c"}),
            json!({"orgId": "o", "appId": "a", "userId": "bc"}),
            json!({"orgId": "o", "appId": "c", "userId": "ab"}),
            json!({"orgId": "oa", "appId": "b", "userId": "c"}),
        ],
    );
    assert_eq!(admitted, [true; 4]);
}

#[test]
fn addresses_endpoints_and_everything_span_orgs() {
    for (scope, field, value) in [
        ("ip", "ip", "203.0.113.9"),
        ("endpoint", "endpoint", "GET /a"),
        ("global", "appId", "any"),
    ] {
        let admitted = admitted(
            &hourly("p", scope, 1, ""),
            &[
                json!({"orgId": "acme", field: value}),
                json!({"orgId": "globex", field: value}),
                json!({field: value}),
            ],
        );
        assert_eq!(admitted, [true, false, false], "{scope}");
    }
}

#[test]
fn ipv6_addresses_are_counted_by_their_first_64_bits() {
    let ips = [
        "2001:db8:0:1::1",
        "2001:db8:0:1:ffff:ffff:ffff:ffff",
        "2001:0DB8::1:0:0:0:2",
        "2001:db8:0:2::1",
        "203.0.113.9",
        "203.0.113.10",
        "::ffff:203.0.113.9",
    ];
    let bodies: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    assert_eq!(
        admitted(&hourly("p", "ip", 1, ""), &bodies),
        [true, false, false, true, true, true, false]
    );
}

#[test]
fn a_policy_can_count_networks_of_other_sizes() {
    let ips = [
        "203.0.113.9",
        "203.0.113.200",
        "203.0.114.9",
        "2001:db8:1::1",
        "2001:db8:1:2::1",
        "2001:db8:2::1",
    ];
    let bodies: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let policy = hourly("p", "ip", 1, "ipv4Prefix: 24, ipv6Prefix: 48");
    assert_eq!(admitted(&policy, &bodies), [true, false, true, true, false, true]);
    let policy = hourly("p", "ip", 1, "ipv4Prefix: 0, ipv6Prefix: 128");
    assert_eq!(admitted(&policy, &bodies), [true, false, false, true, true, true]);
}

#[test]
fn an_unknown_org_or_none_has_the_default_tier() {
    let policies = "tiers: [{tier: Gold}]\norgs:\n  - {orgId: acme, tier: Gold}\n  - {orgId: plain}\npolicies:\n  \
        - {id: gold, orgTier: Gold, scope: org, limit: 9, window: 1h}\n  \
        - {id: basic, orgTier: default, scope: org, limit: 5, window: 1h}\n  \
        - {id: basic-ip, orgTier: default, scope: ip, limit: 5, window: 1h}\n  \
        - {id: all, scope: org, limit: 50, window: 1h}\n";
    let server = Server::start(policies, &[]);
    let ask = |org: Value| server.allowed(&json!({"orgId": org, "ip": "203.0.113.9"}));
    assert_eq!(applied(&ask("acme".into())), ["all", "gold"]);
    assert_eq!(applied(&ask("nobody".into())), ["basic-ip", "all", "basic"]);
    assert_eq!(applied(&ask("plain".into())), ["basic-ip", "all", "basic"]);
    assert_eq!(applied(&ask("ACME".into())), ["basic-ip", "all", "basic"]);
    assert_eq!(applied(&ask(Value::Null)), ["basic-ip"]);
}

#[test]
fn unknown_apps_keys_and_users_are_counted_as_given() {
    let policies = file_of(&[
        hourly("app", "app", 2, ""),
        hourly("key", "key", 2, ""),
        hourly("user", "user", 2, ""),
    ]);
    let server = Server::start(&policies, &[]);
    let body = json!({"orgId": "nobody", "appId": "a", "keyId": "k", "userId": "u"});
    let decision = server.allowed(&body);
    assert_eq!(applied(&decision), ["app", "key", "user"]);
    assert_eq!(decision["remaining"], 1);
}

#[test]
fn an_unknown_api_key_is_401_and_charges_nothing() {
    let server = Server::start(&file_of(&[hourly("ip", "ip", 5, "")]), &[]);
    let body = json!({"ip": "203.0.113.9", "apiKey": "tg_live_0123456789"});
    for _ in 0..3 {
        let answer = server.check(&body);
        let problem = answer.expect(401);
        assert_eq!(problem["error"], "unauthorized");
        assert!(
            !answer.text().contains("0123456789"),
            "the secret is never repeated"
        );
    }
    assert_eq!(server.left("ip", &json!({"ip": "203.0.113.9"})), 5);
}
