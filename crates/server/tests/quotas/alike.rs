//! Quotas that are alike but for a permission, a condition or the name of their count, and are never taken for one another.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::common::{Launch, Server, noon_zone};

/// Pairs of quotas on a day of an org, with other limits in each tier.
fn policies() -> String {
    let zone = noon_zone();
    let mut text = "tiers: [{tier: A}, {tier: B}]\npolicies:\n".to_owned();
    for (tier, times) in [("A", 1), ("B", 2)] {
        for (id, limit, rest) in [
            ("read", 1_000 * times, "requiredScope: read"),
            ("write", 100 * times * times * times, "requiredScope: write"),
            ("eu", 500, "match: {region: eu}"),
            ("us", 50 * times, "match: {region: us}"),
            ("one", 300 * times, "counter: one, match: {kind: one}"),
            ("two", 30, "counter: two, match: {kind: two}"),
        ] {
            let _ = writeln!(
                text,
                "  - {{id: {id}-{tier}, orgTier: {tier}, scope: org, algorithm: quota, window: day, timezone: {zone}, \
                 limit: {limit}, {rest}}}"
            );
        }
    }
    text
}

fn quotas(server: &Server) -> Vec<(String, u64, u64)> {
    let items = server.platform_admin().items("/v1/orgs/acme/quotas");
    let shown = |item: &Value| {
        let number = |name: &str| item[name].as_u64().unwrap();
        (
            item["policyId"].as_str().unwrap().to_owned(),
            number("used"),
            number("limit"),
        )
    };
    let mut shown: Vec<_> = items.iter().map(shown).collect();
    shown.sort();
    shown
}

#[test]
fn each_has_its_own_use_and_its_own_limit() {
    let server = Server::launch(&Launch {
        policies: Some(&policies()),
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({"tier": "A"}));
    server.allowed(&json!({"orgId": "acme", "scopes": ["read"], "cost": 10}));
    server.allowed(&json!({"orgId": "acme", "scopes": ["write"], "cost": 50}));
    server.allowed(&json!({"orgId": "acme", "descriptors": {"region": "us"}, "cost": 25}));
    server.allowed(&json!({"orgId": "acme", "descriptors": {"kind": "two"}, "cost": 3}));
    let own = |id: &str, used: u64, limit: u64| (id.to_owned(), used, limit);
    assert_eq!(
        quotas(&server),
        [
            own("eu-A", 0, 500),
            own("one-A", 0, 300),
            own("read-A", 10, 1_000),
            own("two-A", 3, 30),
            own("us-A", 25, 50),
            own("write-A", 50, 100),
        ]
    );
    // A correction is of the one that is named, and told as that.
    let items = admin.items("/v1/orgs/acme/quotas");
    let two = items.iter().find(|item| item["policyId"] == "two-A").unwrap();
    let target = format!(
        "/v1/orgs/acme/quotas/{}/corrections",
        two["quotaId"].as_str().unwrap()
    );
    let corrected = admin
        .post(&target, &json!({"used": 6, "reason": "a mistake"}))
        .expect(200);
    assert_eq!(
        (&corrected["policyId"], &corrected["used"], &corrected["limit"]),
        (&json!("two-A"), &json!(6), &json!(30))
    );
    // The same parts of other limits.
    admin.set("/v1/orgs/acme?usage=proportional", &json!({"tier": "B"}));
    assert_eq!(
        quotas(&server),
        [
            own("eu-B", 0, 500),
            own("one-B", 0, 600),
            own("read-B", 20, 2_000),
            own("two-B", 6, 30),
            own("us-B", 50, 100),
            own("write-B", 400, 800),
        ]
    );
}
