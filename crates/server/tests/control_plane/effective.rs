//! `GET /v1/orgs/{orgId}/ratelimit/policies`: what is in force for an org.

use serde_json::{Value, json};

use crate::{POLICIES, golden, hourly};

const EFFECTIVE: &str = "/v1/orgs/acme/ratelimit/policies";

fn item<'a>(effective: &'a Value, policy: &str, of: &str) -> &'a Value {
    let items = effective["items"].as_array().unwrap();
    let found = items
        .iter()
        .find(|item| item["policyId"] == policy && item["for"] == of);
    found.unwrap_or_else(|| panic!("{policy} for {of} is not in {effective}"))
}

#[test]
fn each_value_says_where_it_came_from_and_what_it_hides() {
    let (_server, admin) = golden();
    let effective = admin.get(EFFECTIVE).expect(200);
    assert_eq!(
        (&effective["orgId"], &effective["tier"]),
        (&json!("acme"), &json!("gold"))
    );
    let plain = item(&effective, "gold-org", "org");
    assert_eq!(plain["values"]["limit"], json!({"value": 3, "from": "policy"}));
    assert_eq!(
        plain["values"]["algorithm"],
        json!({"value": "fixed_window", "from": "policy"})
    );
    assert_eq!(plain["values"]["burst"]["value"], Value::Null);
    assert_eq!(plain["scope"], "org");
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    let change = json!({"policyId": "gold-org", "limit": 7, "reason": "a fair"});
    admin.post(overrides, &change).expect(201);
    admin
        .post(
            overrides,
            &json!({"policyId": "gold-org", "keyId": "mobile", "limit": 1}),
        )
        .expect(201);
    let effective = admin.get(EFFECTIVE).expect(200);
    let raised = item(&effective, "gold-org", "org");
    assert_eq!(
        raised["values"]["limit"],
        json!({"value": 7, "from": "override", "hides": 3})
    );
    assert_eq!(
        raised["values"]["window"],
        json!({"value": "1h", "from": "policy"})
    );
    let said = raised["from"].as_str().unwrap();
    assert!(said.contains("override") && said.contains("a fair"), "{said}");
    let beside = &item(&effective, "gold-org:key:mobile", "key mobile")["values"];
    assert_eq!(beside["limit"], json!({"value": 1, "from": "override"}));
    assert_eq!(beside["window"], json!({"value": "1h", "from": "policy"}));
}

#[test]
fn the_tightest_of_each_level_is_the_one_that_admits_least_in_the_long_run() {
    let (_server, admin) = golden();
    // Ten in a minute are more than three in an hour, a hundred in a week are less.
    let mut minute = hourly("gold-minute", "gold", "org", 10);
    minute["window"] = json!("1m");
    admin.set(POLICIES, &minute);
    let mut week = hourly("gold-week", "gold", "org", 100);
    week["window"] = json!("7d");
    admin.set(POLICIES, &week);
    admin.set(POLICIES, &hourly("gold-key", "gold", "key", 2));
    let mut trial = hourly("gold-trial", "gold", "key", 1);
    trial["mode"] = json!("shadow");
    admin.set(POLICIES, &trial);
    admin.set("/v1/tiers/silver", &json!({}));
    admin.set(POLICIES, &hourly("silver-org", "silver", "org", 1));
    let effective = admin.get(EFFECTIVE).expect(200);
    let week = json!({"policyId": "gold-week", "limit": 100, "window": "7d"});
    let key = json!({"policyId": "gold-key", "limit": 2, "window": "1h"});
    assert_eq!(effective["tightest"], json!({"org": week, "key": key}));
    assert_eq!(effective["items"].as_array().unwrap().len(), 5, "{effective}");
}

#[test]
fn a_tenant_is_not_told_of_what_is_hidden_or_only_being_tried() {
    let (_server, admin) = golden();
    admin.set(POLICIES, &hourly("everyone", "*", "global", 9));
    let mut trial = hourly("gold-trial", "gold", "org", 1);
    trial["mode"] = json!("shadow");
    admin.set(POLICIES, &trial);
    let mut quiet = hourly("gold-quiet", "gold", "key", 1);
    quiet["expose"] = json!(false);
    admin.set(POLICIES, &quiet);
    let seen = |effective: &Value| {
        let items = effective["items"].as_array().unwrap().iter();
        items
            .map(|item| item["policyId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let mut all = seen(&admin.get(EFFECTIVE).expect(200));
    all.sort();
    assert_eq!(all, ["everyone", "gold-org", "gold-quiet", "gold-trial"]);
    let viewer = admin.with_role("tenant-viewer", Some("acme"));
    let effective = viewer.get(EFFECTIVE).expect(200);
    assert_eq!(seen(&effective), ["gold-org"]);
    assert_eq!(effective["tightest"].as_object().unwrap().len(), 1, "{effective}");
}

#[test]
fn an_org_or_a_parameter_that_is_not_there_is_refused() {
    let (_server, admin) = golden();
    admin.get("/v1/orgs/absent/ratelimit/policies").problem(404);
    admin.get("/v1/orgs/a%00b/ratelimit/policies").problem(400);
    admin.get("/v1/orgs/%FF/ratelimit/policies").problem(400);
    let said = admin.get(&format!("{EFFECTIVE}?at=now")).problem(400);
    assert!(said.contains("`at`"), "{said}");
}
