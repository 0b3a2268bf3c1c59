//! `/v1/orgs`: an org and the tier it is on, in force at once.

use serde_json::json;

use crate::common::server::{applied, limit};
use crate::{POLICIES, empty, golden, hourly};

#[test]
fn an_org_has_the_limits_of_its_tier_at_once() {
    let (server, admin) = golden();
    let acme = json!({"orgId": "acme"});
    for left in [2, 1, 0] {
        let decision = server.allowed(&acme);
        assert_eq!(limit(&decision, "gold-org")["remaining"], left);
        assert_eq!(limit(&decision, "gold-org")["limit"], 3);
    }
    assert_eq!(server.denied(&acme)["policyId"], "gold-org");
    // Another org, which nobody knows, is not on the tier.
    assert!(applied(&server.allowed(&json!({"orgId": "other"}))).is_empty());
    admin.set("/v1/tiers/silver", &json!({}));
    admin.set(POLICIES, &hourly("silver-org", "silver", "org", 7));
    admin.set("/v1/orgs/acme", &json!({"tier": "silver"}));
    assert_eq!(applied(&server.allowed(&acme)), ["silver-org"]);
    admin.set("/v1/orgs/acme", &json!({}));
    assert!(applied(&server.allowed(&acme)).is_empty());
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    server.denied(&acme);
    admin.remove("/v1/orgs/acme");
    assert!(applied(&server.allowed(&acme)).is_empty());
}

#[test]
fn an_org_is_replaced_whole_and_shown_as_it_was_written() {
    let (_server, admin) = golden();
    let full = json!({
        "orgId": "globex",
        "tier": "gold",
        "timezone": "Europe/Berlin",
        "billingAnchor": "2024-01-31",
    });
    let made = admin.put("/v1/orgs/globex", &full);
    assert_eq!(made.expect(201), full);
    assert_eq!(admin.get("/v1/orgs/globex").expect(200), full);
    assert_eq!(
        admin.items("/v1/orgs"),
        [json!({"orgId": "acme", "tier": "gold"}), full]
    );
    let less = json!({"billingAnchor": "2024-01-31T09:00:00Z"});
    let replaced = admin.put("/v1/orgs/globex", &less).expect(200);
    assert_eq!(
        replaced,
        json!({"orgId": "globex", "billingAnchor": "2024-01-31T09:00:00Z"})
    );
    assert_eq!(admin.get("/v1/orgs/globex").expect(200), replaced);
}

#[test]
fn what_is_no_org_is_refused_by_the_field_and_changes_nothing() {
    let (server, admin) = golden();
    let revision = || server.counted("tollgate_policy_revision");
    let before = (admin.changes(), revision());
    for (body, field) in [
        (json!({"tier": "nothing"}), "`nothing`"),
        (json!({"tier": "gold\0"}), "tier"),
        (json!({"tier": 3.5}), "3.5"),
        (json!({"tier": ""}), "tier"),
        (json!({"timezone": "Europe/Berlim"}), "Europe/Berlin"),
        (json!({"timezone": ["UTC"]}), "timezone"),
        (json!({"billingAnchor": "the first"}), "billingAnchor"),
        (json!({"billingAnchor": "2024-02-30"}), "billingAnchor"),
        (json!({"orgId": "other"}), "orgId"),
        (json!({"tiers": "gold"}), "tiers"),
        (json!({"name": "Acme"}), "name"),
    ] {
        for org in ["acme", "new"] {
            let said = admin.put(&format!("/v1/orgs/{org}"), &body).problem(422);
            assert!(said.contains(field), "{body}: {said}");
        }
    }
    assert_eq!((admin.changes(), revision()), before);
    admin.get("/v1/orgs/new").problem(404);
    assert_eq!(
        admin.get("/v1/orgs/acme").expect(200),
        json!({"orgId": "acme", "tier": "gold"})
    );
}

#[test]
fn an_org_goes_with_all_that_is_its_own() {
    let (server, admin) = golden();
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    admin
        .post(overrides, &json!({"policyId": "gold-org", "limit": 9}))
        .expect(201);
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    tenant.get("/v1/orgs/acme").expect(200);
    let plan = admin.delete("/v1/orgs/acme?dryRun=true").expect(200);
    let mut kinds: Vec<&str> = plan["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["app", "key", "org", "override", "token"]);
    server.allowed(&json!({"apiKey": secret}));

    admin.remove("/v1/orgs/acme");
    server.check(&json!({"apiKey": secret})).problem(401);
    tenant.get("/v1/orgs/acme").problem(401);
    for target in [
        "/v1/orgs/acme",
        "/v1/orgs/acme/apps",
        "/v1/orgs/acme/apps/web",
        overrides,
    ] {
        admin.get(target).problem(404);
    }
    // Whoever is called so next begins anew.
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    assert!(admin.items("/v1/orgs/acme/apps").is_empty());
    assert!(admin.items(overrides).is_empty());
    server.check(&json!({"apiKey": secret})).problem(401);
    tenant.get("/v1/orgs/acme").problem(401);
    let decision = server.allowed(&json!({"orgId": "acme"}));
    assert_eq!(limit(&decision, "gold-org")["limit"], 3);
}

#[test]
fn odd_ids_work_and_unprintable_ones_do_not() {
    let (server, admin) = golden();
    for (target, id) in [("a%2Fb%20c", "a/b c"), ("%C3%BC", "ü"), ("*", "*"), ("..", "..")] {
        admin.set(&format!("/v1/orgs/{target}"), &json!({"tier": "gold"}));
        let app = format!("/v1/orgs/{target}/apps/{target}");
        assert_eq!(admin.set(&app, &json!({}))["appId"], id);
        let (_, secret) = admin.key(target, target, "live");
        let known = json!({"apiKey": secret, "orgId": id, "appId": id});
        assert_eq!(applied(&server.allowed(&known)), ["gold-org"]);
        assert_eq!(server.left("gold-org", &json!({"orgId": id})), 2);
        let token = json!({"role": "tenant-viewer", "orgId": id});
        let token = admin.post("/v1/tokens", &token).expect(201);
        let viewer = server.with_token(token["secret"].as_str().unwrap());
        viewer.get(&app).expect(200);
        admin.remove(&format!("/v1/orgs/{target}"));
    }
    for target in ["%0A", "%1B", &"x".repeat(257)] {
        let said = admin.put(&format!("/v1/orgs/{target}"), &json!({})).problem(422);
        assert!(said.contains("orgId"), "{said}");
        let said = admin
            .put(&format!("/v1/orgs/acme/apps/{target}"), &json!({}))
            .problem(422);
        assert!(said.contains("appId"), "{said}");
    }
}

#[test]
fn the_demonstration_ends_with_the_first_policy() {
    let (server, admin) = empty();
    let acme = json!({"orgId": "acme"});
    let demonstrated = || applied(&server.allowed(&acme)).contains(&"enterprise-org-day");
    assert!(demonstrated());
    // Nothing of it is in the catalogue, and nothing of it can be built on: it goes with the first policy.
    for list in ["/v1/tiers", "/v1/orgs", POLICIES] {
        assert!(admin.items(list).is_empty(), "{list}");
    }
    admin
        .put("/v1/orgs/new", &json!({"tier": "Enterprise"}))
        .problem(422);
    admin
        .put(POLICIES, &hourly("own", "Enterprise", "org", 3))
        .problem(422);
    admin.with_role("operator", None);
    admin
        .put(&format!("{POLICIES}?dryRun=true"), &hourly("own", "*", "org", 3))
        .expect(200);
    admin.set("/v1/tiers/gold", &json!({}));
    assert!(demonstrated());
    admin.set(POLICIES, &hourly("own", "*", "org", 3));
    assert_eq!(applied(&server.allowed(&acme)), ["own"]);
    admin.remove(&format!("{POLICIES}/own"));
    assert!(applied(&server.allowed(&acme)).is_empty());
}
