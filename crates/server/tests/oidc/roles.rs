//! What a good token opens, by role and org, and what the audit says of its bearer.

use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::signer::Signer;
use crate::{believing, claims, has_keys, launch, tiers};

#[test]
fn a_token_opens_what_its_role_opens() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let with =
        |role: &str, org: Option<&str>| server.with_token(&signer.sign(&claims(&issuer.url(), role, org)));
    let admin = with("platform-admin", None);
    admin.set("/v1/tiers/silver", &json!({}));
    let operator = with("operator", None);
    operator.get("/v1/orgs/acme").expect(200);
    operator.put("/v1/tiers/bronze", &json!({})).problem(403);
    let tenant = with("tenant-admin", Some("acme"));
    tenant.set("/v1/orgs/acme/apps/web", &json!({}));
    tenant.get("/v1/orgs/globex").problem(404);
    tenant.put("/v1/orgs/globex/apps/web", &json!({})).problem(404);
    tenant.get("/v1/tiers").problem(403);
    let viewer = with("tenant-viewer", Some("acme"));
    viewer.get("/v1/orgs/acme/apps/web").expect(200);
    viewer.put("/v1/orgs/acme/apps/cron", &json!({})).problem(403);
    viewer.get("/v1/orgs/globex/apps").problem(404);
    // An org that nobody made is as absent as a foreign one.
    with("tenant-admin", Some("nobody"))
        .get("/v1/orgs/nobody")
        .problem(404);
}

#[test]
fn the_audit_names_the_bearer() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let mut who = claims(&issuer.url(), "platform-admin", None);
    who["sub"] = json!("auth0|ada lovelace");
    server
        .with_token(&signer.sign(&who))
        .set("/v1/tiers/silver", &json!({}));
    let newest = &server.platform_admin().items("/v1/audit")[0];
    assert_eq!(newest["actor"], "oidc:auth0|ada lovelace", "{newest}");
}

#[test]
fn a_token_that_does_not_name_its_bearer_is_not_taken() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    for subject in [
        json!(null),
        json!(""),
        json!(7),
        json!("a\nb"),
        json!("a".repeat(257)),
    ] {
        let mut who = claims(&issuer.url(), "operator", None);
        who["sub"] = subject;
        tiers(&server, &signer.sign(&who)).problem(401);
    }
}

#[test]
fn a_role_that_makes_no_sense_is_forbidden_in_a_sentence() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let said = |role: Value, org: Value| {
        let mut who = claims(&issuer.url(), "operator", None);
        who["tollgate_role"] = role;
        who["tollgate_org"] = org;
        tiers(&server, &signer.sign(&who)).problem(403)
    };
    for role in [
        json!(null),
        json!("root"),
        json!([]),
        json!(["root"]),
        json!({"operator": true}),
    ] {
        let sentence = said(role, json!(null));
        assert!(
            sentence.contains("tollgate_role") && sentence.contains("no role"),
            "{sentence}"
        );
    }
    let sentence = said(json!(["operator", "tenant-admin"]), json!("acme"));
    assert!(sentence.contains("none includes the others"), "{sentence}");
    let sentence = said(json!("tenant-admin"), json!(null));
    assert!(sentence.contains("needs an org"), "{sentence}");
    let sentence = said(json!("operator"), json!("acme"));
    assert!(sentence.contains("is for no org"), "{sentence}");
    for org in [json!(""), json!("a\u{1}b"), json!(["acme"]), json!(7)] {
        let sentence = said(json!("tenant-admin"), org);
        assert!(sentence.contains("tollgate_org"), "{sentence}");
    }
}

#[test]
fn a_list_of_roles_counts_as_the_one_that_includes_the_others() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let mut who = claims(&issuer.url(), "", Some("acme"));
    who["tollgate_role"] = json!(["offline_access", "tenant-viewer", "tenant-admin"]);
    let tenant = server.with_token(&signer.sign(&who));
    tenant.set("/v1/orgs/acme/apps/web", &json!({}));
    tenant.get("/v1/orgs/globex").problem(404);
}

#[test]
fn role_and_org_may_lie_within_other_claims() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let paths = [
        "--oidc-role-claim=/realm_access/roles",
        "--oidc-org-claim=/tenant/acme.example~1org",
    ];
    let server = launch(&issuer, &paths);
    has_keys(&server);
    server.platform_admin().set("/v1/orgs/acme", &json!({}));
    // What stands where it does by default counts for nothing.
    let mut who = claims(&issuer.url(), "platform-admin", Some("globex"));
    tiers(&server, &signer.sign(&who)).problem(403);
    who["realm_access"] = json!({"roles": ["offline_access", "tenant-admin"]});
    let sentence = tiers(&server, &signer.sign(&who)).problem(403);
    assert!(sentence.contains("`/tenant/acme.example~1org`"), "{sentence}");
    who["tenant"] = json!({"acme.example/org": "acme"});
    let tenant = server.with_token(&signer.sign(&who));
    tenant.set("/v1/orgs/acme/apps/web", &json!({}));
    tenant.get("/v1/tiers").problem(403);
    who["realm_access"] = json!(["platform-admin"]);
    tiers(&server, &signer.sign(&who)).problem(403);
}

#[test]
fn a_token_that_is_made_with_another_issuers_ends_with_that() {
    let signer = Signer::new("k", "ES256");
    let issuer = Issuer::new(&[&signer]);
    let server = believing(&issuer);
    let mut who = claims(&issuer.url(), "tenant-admin", Some("acme"));
    let end = jiff::Timestamp::from_second(who["exp"].as_i64().unwrap()).unwrap();
    let tenant = server.with_token(&signer.sign(&who));
    let wish = json!({"role": "tenant-admin", "orgId": "acme"});
    let made = tenant.post("/v1/tokens", &wish).expect(201);
    assert_eq!(made["expiresAt"], end.to_string());
    let mut later = wish.clone();
    later["expiresAt"] = json!("2999-01-01T00:00:00Z");
    tenant.post("/v1/tokens", &later).problem(422);
    // Nor does one that has ended, and is only taken since clocks differ.
    who["exp"] = json!(tollgate::clock::now().seconds() - 10);
    let ended = server.with_token(&signer.sign(&who)).post("/v1/tokens", &wish);
    let child = server.with_token(ended.expect(201)["secret"].as_str().unwrap());
    child.get("/v1/orgs/acme").problem(401);
}
