//! The admin address: health, readiness, and the token.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::common::{Launch, Server, file_of, hourly};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[])
}

#[test]
fn health_readiness_and_metrics_need_no_token() {
    let server = server();
    let health = server.ask_admin("GET", "/healthz").send();
    assert_eq!((health.status, health.text()), (200, "ok\n"));
    let ready = server.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["status"], "ready");
    assert_eq!(ready["degraded"], json!([]));
    let metrics = server.ask_admin("GET", "/metrics").send();
    assert_eq!(metrics.status, 200);
    let kind = metrics.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    server.ask_admin("POST", "/healthz").send().problem(405);
    server.ask_admin("GET", "/v1/nothing").send().problem(404);
    server
        .ask_admin("POST", "/v1/check")
        .body("{}")
        .send()
        .problem(404);
}

#[test]
fn the_token_is_made_at_the_first_start_kept_for_its_owner_only_and_shown_once() {
    let server = server();
    let path = server.data("admin-token");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&path).unwrap().trim().to_owned();
    assert!(token.len() >= 32, "{token}");
    assert_eq!(server.logs(&token).matches(&token).count(), 1);
    let explain = |token: &str| {
        server
            .ask_admin("POST", "/v1/ratelimit/explain")
            .header("Authorization", &format!("Bearer {token}"))
            .body("{}")
            .send()
    };
    explain(&token).expect(200);
    explain(&token[1..]).problem(401);
    explain(&format!("{token}0")).problem(401);
    let none = server.ask_admin("POST", "/v1/ratelimit/explain").body("{}");
    none.send().problem(401);
}

#[test]
fn a_token_that_is_there_already_is_used_and_not_shown() {
    let dir = tempfile::TempDir::new().unwrap();
    let data = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("admin-token"), "kept-from-an-earlier-start\n").unwrap();
    let kept = Server::launch(&Launch {
        policies: Some("policies: []\n"),
        flags: &[
            "--data-dir",
            data,
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ],
        bare: true,
        ..Launch::default()
    });
    let explain = kept
        .ask_admin("POST", "/v1/ratelimit/explain")
        .header("authorization", "bearer kept-from-an-earlier-start")
        .body("{}");
    explain.send().expect(200);
    assert!(!kept.stderr().contains("kept-from-an-earlier-start"));
}

#[test]
fn an_explanation_charges_nothing_and_refuses_what_is_not_a_check() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 100, "")]),
        &["--admin-token", "a-token-for-this-test"],
    );
    let explain = |body: &str| {
        server
            .ask_admin("POST", "/v1/ratelimit/explain")
            .header("Authorization", "Bearer a-token-for-this-test")
            .body(body)
            .send()
    };
    for _ in 0..3 {
        let explained = explain(r#"{"orgId":"acme"}"#).expect(200);
        assert_eq!(explained["applied"][0]["remaining"], 99);
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 100);
    for body in ["", "[]", "{\"orgId\":\"\"}", "{\"tenant\":1}"] {
        explain(body).problem(400);
    }
    assert_eq!(explain(&" ".repeat((1 << 20) + 1)).status, 413);
}
