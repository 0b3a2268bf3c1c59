//! Routes: whatever is done to a path, it is counted by the pattern it matches.

use serde_json::json;

use crate::common::server::applied;
use crate::common::{Server, file_of, hourly};

#[test]
fn tricks_with_a_path_count_together() {
    let policy = hourly("exports", "org", 100, "endpointPattern: \"POST /v1/exports\"");
    let server = Server::start(&file_of(&[policy]), &[]);
    for (taken, endpoint) in (1..).zip([
        "POST /v1/exports",
        "post /V1/Exports/",
        "POST //v1///exports",
        "POST /v1/./exports/.",
        "POST /v1/x/../exports",
        "POST /v1/%65xports",
        "POST /v1%2Fexports",
        "POST /v1/%2e%2e/v1/exports",
        "POST /v1\\exports",
        "POST /v1/exports;v=1",
        "POST /v1/exports?limit=7&x=/../",
        "POST /v1/exports#top",
        "POST /../../v1/exports",
    ]) {
        let decision = server.allowed(&json!({"orgId": "acme", "endpoint": endpoint}));
        assert_eq!(decision["remaining"], 100 - taken, "{endpoint}");
    }
    for endpoint in [
        "GET /v1/exports",
        "/v1/exports",
        "POST /v1/exports/7",
        "POST /v1",
        "POST /v1/exportss",
    ] {
        let decision = server.allowed(&json!({"orgId": "acme", "endpoint": endpoint}));
        assert_eq!(decision["limits"], json!([]), "{endpoint}");
    }
}

#[test]
fn a_pattern_counts_all_its_paths_together() {
    let policy = hourly("user", "endpoint", 3, "endpointPattern: \"GET /users/{id}\"");
    let server = Server::start(&file_of(&[policy]), &[]);
    for path in ["/users/1", "/users/2", "/users/anything"] {
        server.allowed(&json!({"endpoint": format!("GET {path}")}));
    }
    let denial = server.denied(&json!({"endpoint": "GET /users/4"}));
    assert_eq!(denial["scope"], "endpoint");
    server.allowed(&json!({"endpoint": "GET /users/4/posts"}));
}

#[test]
fn an_open_pattern_takes_zero_or_more_segments() {
    let policies = file_of(&[
        hourly("files", "org", 100, "endpointPattern: \"/files/*\""),
        hourly("root", "org", 100, "endpointPattern: \"GET /*\""),
    ]);
    let server = Server::start(&policies, &[]);
    let ask = |endpoint: &str| {
        let decision = server.allowed(&json!({"orgId": "acme", "endpoint": endpoint}));
        applied(&decision).join(" ")
    };
    assert_eq!(ask("GET /files"), "files root");
    assert_eq!(ask("GET /files/a/b/c"), "files root");
    assert_eq!(ask("PUT /files/a"), "files");
    assert_eq!(ask("GET /"), "root");
    assert_eq!(ask("/"), "");
    assert_eq!(ask("GET /filesystem"), "root");
}

#[test]
fn without_an_endpoint_only_patterns_for_everything_apply() {
    let policies = file_of(&[
        hourly("any", "org", 100, ""),
        hourly("star", "org", 100, "endpointPattern: \"*\""),
        hourly("open", "org", 100, "endpointPattern: \"/*\""),
        hourly("route", "endpoint", 100, ""),
    ]);
    let server = Server::start(&policies, &[]);
    assert_eq!(
        applied(&server.allowed(&json!({"orgId": "acme"}))),
        ["any", "star"]
    );
    let decision = server.allowed(&json!({"orgId": "acme", "endpoint": "/x"}));
    assert_eq!(applied(&decision), ["route", "any", "open", "star"]);
}

#[test]
fn the_first_endpoint_class_that_matches_wins() {
    let policies = "endpointClasses:\n  - {pattern: \"POST /v1/exports\", class: heavy}\n  \
        - {pattern: \"/v1/*\", class: light}\n  - {pattern: \"GET /v1/search\", class: heavy}\n  \
        - {pattern: \"GET /v2/search\", class: heavy}\npolicies:\n  \
        - {id: heavy, scope: org, endpointPattern: \"class:heavy\", limit: 2, window: 1h}\n  \
        - {id: light, scope: org, endpointPattern: \"class:light\", limit: 5, window: 1h}\n";
    let server = Server::start(policies, &[]);
    let body = |endpoint: &str| json!({"orgId": "acme", "endpoint": endpoint});
    assert_eq!(applied(&server.allowed(&body("POST /v1/exports"))), ["heavy"]);
    assert_eq!(applied(&server.allowed(&body("GET /v1/search"))), ["light"]);
    assert_eq!(applied(&server.allowed(&body("GET /other"))), Vec::<&str>::new());
    let decision = server.allowed(&body("GET /v2/search"));
    assert_eq!(decision["remaining"], 0, "one count for the whole class");
    server.denied(&body("POST /v1/exports"));
}
