//! Envoy's external authorization.

use serde_json::json;
use tollgate::clock;

use crate::common::{Server, file_of, hourly, wait_for};
use crate::proxy::Envoy;
use crate::service::Service;
use crate::signer::Signer;

const FILE: &str = "ext-authz.yaml";

fn policies(limit: u64) -> String {
    file_of(&[
        hourly("org", "org", limit, ""),
        hourly("key", "key", 100, ""),
        hourly("exports", "ip", 2, "endpointPattern: 'GET /exports/*'"),
    ])
}

/// A server with a key of acme's, its secret, the service, and an Envoy before it.
fn world(limit: u64, flags: &[&str], changes: &[(&str, &str)]) -> (Server, String, Service, Envoy) {
    let tollgate = Server::start(&policies(limit), flags);
    let admin = tollgate.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    let service = Service::start();
    let envoy = Envoy::start(FILE, &tollgate, &service, changes);
    wait_for("Envoy to find Tollgate", || {
        (envoy.get("/", &[]).status == 200).then_some(())
    });
    (tollgate, secret, service, envoy)
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_key_is_known_and_a_denial_carries_the_whole_429() {
    let (tollgate, secret, service, envoy) = world(2, &[], &[]);
    let ask = || envoy.get("/v1/things", &[("x-api-key", &secret)]);
    let before = service.asked();
    let allowed = ask();
    assert_eq!((allowed.status, allowed.text()), (200, "hello"));
    assert_eq!(allowed.number("x-ratelimit-org-remaining"), Some(1));
    assert!(allowed.header("ratelimit").unwrap().contains("\"org\";r=1"));
    assert_eq!(ask().status, 200);
    let denied = ask();
    assert_eq!(service.asked(), before + 2, "the service did not notice");
    let body = denied.expect(429);
    assert_eq!(denied.header("content-type"), Some("application/problem+json"));
    assert_eq!((&body["policy"], &body["scope"]), (&"org".into(), &"org".into()));
    assert_eq!(denied.number("retry-after"), body["retry_after"].as_u64());
    assert_eq!(denied.number("x-ratelimit-org-remaining"), Some(0));
    assert_eq!(denied.header("x-ratelimit-scope"), Some("org"));
    assert_eq!(
        tollgate.left("key", &json!({"apiKey": secret})),
        98,
        "the refused one was not charged"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn an_unknown_key_is_401_and_a_client_can_not_name_an_org() {
    let (tollgate, _, _, envoy) = world(2, &[], &[]);
    let stranger = envoy.get("/", &[("x-api-key", "tgk_0000000000000000000000000000")]);
    assert_eq!(stranger.problem(401), "The API key is unknown or revoked.");
    assert_eq!(
        envoy
            .get("/", &[("x-tollgate-org", "acme"), ("x-tollgate-cost", "2")])
            .status,
        200
    );
    assert_eq!(
        tollgate.left("org", &json!({"orgId": "acme"})),
        2,
        "Envoy has removed it"
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn endpoint_address_and_route_come_from_envoy() {
    let (tollgate, _, _, envoy) = world(4, &[], &[]);
    let export = || envoy.get("/Exports//7?x", &[]).status;
    assert_eq!([export(), export(), export()], [200, 200, 429]);
    assert_eq!(envoy.get("/partner/a", &[]).status, 200);
    assert_eq!(
        tollgate.left("org", &json!({"orgId": "partner"})),
        2,
        "the route says org and cost"
    );
    assert_eq!(
        [
            envoy.get("/partner/b", &[]).status,
            envoy.get("/partner/c", &[]).status
        ],
        [200, 429]
    );
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn while_tollgate_is_away_envoy_does_as_it_is_set() {
    for (allow, status) in [("false", 403), ("true", 200)] {
        let change = format!("failure_mode_allow: {allow}");
        let (tollgate, secret, _, envoy) = world(1, &[], &[("failure_mode_allow: false", &change)]);
        let ask = || envoy.get("/", &[("x-api-key", &secret)]).status;
        assert_eq!([ask(), ask()], [200, 429]);
        tollgate.terminate();
        assert!(tollgate.wait().success());
        wait_for("Envoy to notice", || (ask() == status).then_some(()));
    }
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_changed_limit_counts_at_once() {
    let (tollgate, secret, _, envoy) = world(1, &[], &[]);
    let ask = || envoy.get("/", &[("x-api-key", &secret)]).status;
    assert_eq!([ask(), ask()], [200, 429]);
    tollgate.reload(&policies(2));
    assert_eq!([ask(), ask()], [200, 429]);
}

#[test]
#[ignore = "needs Envoy, which ./test installs"]
fn a_token_says_who_asks() {
    let signer = Signer::new("key", "ES256");
    let keys = json!({"keys": [signer.jwk()]}).to_string();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    std::fs::write(&file, keys).unwrap();
    let issuer = "https://login.example";
    let flags = [
        "--jwt-issuer",
        issuer,
        "--jwt-audience",
        "api",
        "--jwt-jwks",
        file.to_str().unwrap(),
    ];
    let (tollgate, _, _, envoy) = world(2, &flags, &[]);
    let token = signer.sign(&json!({
        "iss": issuer, "aud": "api", "exp": clock::now().seconds() + 600, "org_id": "acme", "sub": "u7",
    }));
    let ask = |token: &str| envoy.get("/v1/things", &[("authorization", &format!("Bearer {token}"))]);
    assert_eq!(ask(&token).status, 200);
    assert_eq!(ask(&token).status, 200);
    assert_eq!(ask(&token).expect(429)["policy"], "org");
    assert_eq!(ask("a.b.c").problem(401), "The token can't be verified.");
    assert_eq!(tollgate.left("org", &json!({"orgId": "acme"})), 0);
}
