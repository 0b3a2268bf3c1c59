//! What a check may hold, and what it may not.

use serde_json::json;

use crate::common::{Server, file_of, hourly};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 1_000, "")]), &[])
}

#[test]
fn null_is_the_same_as_absent() {
    let server = server();
    let decision = server.allowed(&json!({
        "orgId": "acme", "appId": null, "keyId": null, "userId": null, "ip": null, "endpoint": null,
        "scopes": null, "cost": null, "costs": null, "descriptors": null, "dryRun": null, "apiKey": null,
    }));
    assert_eq!(decision["remaining"], 999, "a cost of null is 1");
    let decision = server.allowed(&json!({"orgId": null}));
    assert_eq!(decision["limits"], json!([]));
}

#[test]
fn empty_text_is_an_error_that_names_the_field() {
    let server = server();
    for field in ["orgId", "appId", "keyId", "userId", "ip", "endpoint", "apiKey"] {
        let problem = server.check(&json!({field: ""})).problem(400);
        assert!(problem.contains(field), "{field}: {problem}");
    }
    for body in [
        json!({"scopes": [""]}),
        json!({"descriptors": {"": "x"}}),
        json!({"descriptors": {"x": ""}}),
        json!({"costs": {"": 1}}),
    ] {
        server.check(&body).problem(400);
    }
}

#[test]
fn an_unknown_field_is_an_error_that_names_it() {
    let server = server();
    for field in ["orgID", "org_id", "tenant", "at", "dry_run"] {
        let body = json!({"orgId": "acme", field: 1_700_000_000_000_u64});
        let problem = server.check(&body).problem(400);
        assert!(problem.contains(field), "{field}: {problem}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 1_000);
}

#[test]
fn a_field_given_twice_is_an_error() {
    let server = server();
    for body in [
        r#"{"orgId":"acme","orgId":"globex"}"#,
        r#"{"descriptors":{"a":"1","a":"2"}}"#,
        r#"{"costs":{"tokens":1,"tokens":2}}"#,
    ] {
        server.check_raw(body).problem(400);
    }
}

#[test]
fn a_cost_that_is_not_a_whole_number_is_an_error() {
    let server = server();
    for cost in [
        "-1",
        "1.5",
        "1e3",
        "1.0",
        "\"1\"",
        "true",
        "[]",
        "18446744073709551616",
        "1e400",
        "NaN",
        "-0.0",
        "01",
        "0x10",
    ] {
        let body = format!(r#"{{"orgId":"acme","cost":{cost}}}"#);
        server.check_raw(body).problem(400);
        let body = format!(r#"{{"orgId":"acme","costs":{{"tokens":{cost}}}}}"#);
        server.check_raw(body).problem(400);
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 1_000);
}

#[test]
fn a_field_of_another_kind_is_an_error() {
    let server = server();
    for body in [
        r#"{"orgId":7}"#,
        r#"{"orgId":["acme"]}"#,
        r#"{"scopes":"write"}"#,
        r#"{"scopes":[1]}"#,
        r#"{"scopes":[null]}"#,
        r#"{"descriptors":["a"]}"#,
        r#"{"descriptors":{"a":1}}"#,
        r#"{"dryRun":"yes"}"#,
        r#"{"dryRun":1}"#,
        r#"{"ip":1}"#,
    ] {
        server.check_raw(body).problem(400);
    }
}

#[test]
fn what_is_not_a_json_object_is_an_error() {
    let server = server();
    let deep = format!("{{\"descriptors\":{}", "[".repeat(100_000));
    let full = r#"["acme",null,null,null,null,null,null,null,null,null,null,null,null]"#;
    for body in [
        "",
        " ",
        "{",
        "{}}",
        "{} {}",
        "nonsense",
        "null",
        "1",
        "\"acme\"",
        "[]",
        "[{}]",
        full,
        r#"{"orgId":"acme",}"#,
        "{'orgId':'acme'}",
        r#"{"orgId":"\ud800"}"#,
        r#"{"orgId":"a"#,
        &deep,
    ] {
        server.check_raw(body).problem(400);
    }
    server.check_raw(&b"{\"orgId\":\"\xff\"}"[..]).problem(400);
    for end in ["\t", "\n", "\r", " \t"] {
        server
            .check_raw(&*format!("{{\"orgId\":\"acme{end}\"}}"))
            .problem(400);
    }
    server.check_raw(&b"\xef\xbb\xbf{}"[..]).problem(400);
    assert_eq!(server.check_raw(" \n{ \"orgId\" : \"acme\" }\r\n ").status, 200);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 999);
}

#[test]
fn ids_have_no_control_characters_and_at_most_256_bytes() {
    let server = server();
    for field in ["orgId", "appId", "keyId", "userId", "apiKey"] {
        for id in ["a\nb", "\u{0}", "\u{7f}", "a\u{85}", "\t"] {
            let problem = server.check(&json!({field: id})).problem(400);
            assert!(
                problem.contains(field) && problem.contains("control"),
                "{problem}"
            );
        }
        let problem = server.check(&json!({field: "x".repeat(257)})).problem(400);
        assert!(problem.contains(field) && problem.contains("256"), "{problem}");
        // 129 characters of two bytes are 258 bytes.
        server.check(&json!({field: "é".repeat(129)})).problem(400);
    }
    for id in [
        "x".repeat(256),
        "é".repeat(128),
        "Ünï çødé \"quoted\" \\ / 日本".to_owned(),
    ] {
        assert_eq!(server.allowed(&json!({"orgId": id}))["remaining"], 999);
    }
}

#[test]
fn an_address_that_is_none_is_an_error() {
    let server = server();
    for ip in [
        "203.0.113",
        "203.0.113.256",
        "::g",
        "localhost",
        "203.0.113.9:80",
        "fe80::1%eth0",
        " 203.0.113.9",
        "0x7f.1",
    ] {
        let problem = server.check(&json!({"ip": ip})).problem(400);
        assert!(problem.contains("`ip`"), "{problem}");
    }
}

#[test]
fn an_endpoint_that_is_none_is_an_error() {
    let server = server();
    let long = format!("GET /{}", "a".repeat(9_000));
    for endpoint in [
        "exports",
        "GET",
        "GET exports",
        "GET  /a",
        " /a",
        "G@T /a",
        "GET /%",
        "GET /%g0",
        "GET /a%0ab",
        "GET /a\u{0}",
        "GET http://host/a",
        "*",
        &long,
    ] {
        let problem = server.check(&json!({"endpoint": endpoint})).problem(400);
        assert!(problem.contains("endpoint"), "{endpoint}: {problem}");
    }
}

#[test]
fn lists_are_bounded() {
    let server = server();
    let names = |count: usize| (0..count).map(|n| format!("n{n}"));
    let scopes: Vec<String> = names(64).collect();
    server.allowed(&json!({"scopes": scopes}));
    let scopes: Vec<String> = names(65).collect();
    assert!(
        server
            .check(&json!({"scopes": scopes}))
            .problem(400)
            .contains("scopes")
    );
    let pairs: serde_json::Map<_, _> = names(65).map(|name| (name, json!("x"))).collect();
    let problem = server.check(&json!({"descriptors": pairs})).problem(400);
    assert!(problem.contains("descriptors"), "{problem}");
    let pairs: serde_json::Map<_, _> = names(65).map(|name| (name, json!(1))).collect();
    assert!(
        server
            .check(&json!({"costs": pairs}))
            .problem(400)
            .contains("costs")
    );
}

#[test]
fn other_methods_and_other_addresses_are_not_checks() {
    let server = server();
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = server.ask(method, "/v1/check").send();
        answer.problem(405);
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    assert_eq!(server.ask("HEAD", "/v1/check").send().status, 405);
    for target in ["/", "/v1", "/v1/check/", "/v1/checks", "/healthz", "/metrics"] {
        server.ask("POST", target).body("{}").send().problem(404);
    }
}

/// In words of JSON, not of the program that reads it.
#[test]
fn a_wrong_value_is_an_error_that_names_its_field() {
    let server = server();
    let nested = format!(
        r#"{{"orgId":"acme","appId":{}{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    for (body, said) in [
        (r#"{"orgId":"acme","cost":-1}"#, "`cost` must be a whole number"),
        (r#"{"cost":1.5}"#, "`cost` must be a whole number"),
        (
            r#"{"cost":18446744073709551616}"#,
            "`cost` must be a whole number",
        ),
        (r#"{"cost":1e400}"#, "`cost` must be a whole number"),
        (r#"{"orgId":7}"#, "`orgId` must be text"),
        (r#"{"orgId":"\ud800"}"#, "`orgId` must be text"),
        (&nested, "`appId` must be text"),
        (r#"{"scopes":"write"}"#, "`scopes` must be a list of texts"),
        (
            r#"{"costs":{"tokens":"many"}}"#,
            "`costs` must be an object of whole numbers",
        ),
        (
            r#"{"descriptors":["eu"]}"#,
            "`descriptors` must be an object of texts",
        ),
        (r#"{"dryRun":"yes"}"#, "`dryRun` must be true or false"),
        (r#"{"orgID":"acme"}"#, "unknown field `orgID`"),
        ("null", "must be an object"),
        ("[]", "must be an object"),
        ("7", "must be an object"),
    ] {
        let problem = server.check_raw(body).problem(400);
        assert!(problem.contains(said), "{body}: {problem}");
        for word in ["struct", "u64", "i64", "CheckBody"] {
            assert!(!problem.contains(word), "{body}: {problem}");
        }
    }
}
