//! `--require-identity`: a request that names nobody is not decided.

use serde_json::{Value, json};

use crate::common::{Launch, Server, file_of, hourly};

const PATHS: [&str; 2] = ["/v1/check", "/v1/reserve"];

fn policies() -> String {
    file_of(&[hourly("address", "ip", 50, ""), hourly("key", "key", 50, "")])
}

fn server(required: &str) -> Server {
    Server::start(&policies(), &["--require-identity", required])
}

fn nobody() -> Value {
    json!({"ip": "203.0.113.9"})
}

#[test]
fn without_the_setting_nobody_needs_to_be_named() {
    let server = Server::start(&policies(), &[]);
    server.allowed(&nobody());
    assert_eq!(server.ask("GET", "/v1/authorize").send().status, 200);
    let server = self::server("none");
    server.allowed(&nobody());
}

#[test]
fn a_check_without_an_org_is_401_and_says_what_to_send() {
    let server = server("org");
    for path in PATHS {
        let answer = server.ask("POST", path).body(nobody().to_string()).send();
        let detail = answer.problem(401);
        assert!(
            detail.contains("`orgId`") && detail.contains("`apiKey`"),
            "{detail}"
        );
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert_eq!(answer.json()["error"], "unauthorized");
    }
    for body in [
        json!({"ip": "203.0.113.9", "dryRun": true}),
        json!({"ip": "203.0.113.9", "cost": 0}),
        json!({"ip": "203.0.113.9", "keyId": "k1", "appId": "web", "userId": "u7"}),
    ] {
        server.check(&body).problem(401);
    }
    let look = json!({"orgId": "acme", "ip": "203.0.113.9"});
    assert_eq!(server.left("address", &look), 50, "nothing was charged");
    server.allowed(&look);
}

#[test]
fn where_a_key_is_required_an_org_is_not_enough() {
    let server = server("key");
    for body in [
        nobody(),
        json!({"orgId": "acme"}),
        json!({"orgId": "acme", "userId": "u7"}),
        json!({"keyId": "k1"}),
    ] {
        for path in PATHS {
            let answer = server.ask("POST", path).body(body.to_string()).send();
            let detail = answer.problem(401);
            assert!(
                detail.contains("`apiKey`") && detail.contains("`keyId`"),
                "{detail}"
            );
        }
    }
    server.allowed(&json!({"orgId": "acme", "keyId": "k1"}));
}

#[test]
fn of_a_batch_nothing_is_decided() {
    let server = server("org");
    let batch = json!({"requests": [{"orgId": "acme", "ip": "203.0.113.9"}, nobody()]});
    let answer = server
        .ask("POST", "/v1/check/batch")
        .body(batch.to_string())
        .send();
    let detail = answer.problem(401);
    assert!(
        detail.starts_with("requests[1]: ") && detail.contains("`orgId`"),
        "{detail}"
    );
    let look = json!({"orgId": "acme", "ip": "203.0.113.9"});
    assert_eq!(server.left("address", &look), 50);
}

#[test]
fn a_gateway_is_told_what_its_client_should_send() {
    let server = server("key");
    let ask = || server.ask("GET", "/v1/authorize");
    let answer = ask().header("X-Tollgate-Org", "acme").send();
    let detail = answer.problem(401);
    assert!(
        detail.contains("`X-API-Key`") && detail.contains("`X-Tollgate-Key`"),
        "{detail}"
    );
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    let behind_403 = server.ask("GET", "/v1/authorize?deny_status=403").send();
    assert_eq!(
        behind_403.status, 401,
        "gateways that know 403 alone know 401 as well"
    );
    let named = ask()
        .header("X-Tollgate-Org", "acme")
        .header("X-Tollgate-Key", "k1");
    assert_eq!(named.send().status, 200);
}

#[test]
fn whoever_is_not_trusted_is_told_why_headers_do_not_help() {
    let flags = ["--require-identity", "org", "--trusted-proxies", "192.0.2.1"];
    let server = Server::start(&policies(), &flags);
    let ask = server.ask("GET", "/v1/authorize");
    let detail = ask.header("X-Tollgate-Org", "acme").send().problem(401);
    assert!(detail.contains("--trusted-proxies"), "{detail}");
}

#[test]
fn an_api_key_is_an_identity() {
    let server = Server::launch(&Launch {
        environment: &[("TOLLGATE_REQUIRE_IDENTITY", "key")],
        ..Launch::default()
    });
    let admin = server.platform_admin();
    admin.set("/v1/tiers/gold", &json!({}));
    admin.set("/v1/orgs/acme", &json!({"tier": "gold"}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    server.allowed(&json!({"apiKey": secret}));
    let ask = server.ask("GET", "/v1/authorize").header("X-API-Key", &secret);
    assert_eq!(ask.send().status, 200);
    assert_eq!(server.ask("GET", "/v1/authorize").send().status, 401);
}

#[test]
fn the_configuration_file_may_say_so() {
    let server = Server::launch(&Launch {
        flags: &["--config", "tollgate.yaml"],
        files: &[("tollgate.yaml", "require-identity: org\n")],
        ..Launch::default()
    });
    server.check(&nobody()).problem(401);
}
