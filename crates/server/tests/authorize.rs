//! `ANY /v1/authorize`: what a gateway asks before it forwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod common;

use std::io::{BufReader, Write};

use common::http::connect;
use common::{Answer, Ask, Server, file_of, hourly};
use serde_json::{Value, json};

fn policies() -> String {
    file_of(&[
        hourly("exports", "org", 3, "endpointPattern: \"POST /v1/exports\""),
        hourly("org", "org", 10, ""),
        hourly("address", "ip", 20, ""),
    ])
}

fn server() -> Server {
    Server::start(&policies(), &[])
}

fn ask(server: &Server) -> Ask {
    server.ask("GET", "/v1/authorize")
}

/// What is left of a policy for the request that was answered, as the headers tell it.
fn left(answer: &Answer, policy: &str) -> Option<i64> {
    let states: sfv::List = sfv::Parser::new(answer.header("ratelimit")?).parse().unwrap();
    states.iter().find_map(|entry| match entry {
        sfv::ListEntry::Item(item) if item.bare_item.as_string()?.as_str() == policy => {
            Some(item.params.get("r")?.as_integer()?.into())
        }
        _ => None,
    })
}

#[test]
fn the_original_request_comes_in_either_familys_headers() {
    let server = server();
    let forwarded = ask(&server)
        .header("X-Forwarded-Method", "POST")
        .header("X-Forwarded-Uri", "/v1/exports?format=csv")
        .header("X-Tollgate-Org", "acme");
    let answer = forwarded.send();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, b"");
    assert_eq!(left(&answer, "exports"), Some(2));
    let original = ask(&server)
        .header("X-Original-Method", "post")
        .header("X-Original-URI", "https://api.example/v1//exports")
        .header("X-Tollgate-Org", "acme");
    assert_eq!(left(&original.send(), "exports"), Some(1));
    let both = ask(&server)
        .header("X-Forwarded-Method", "POST")
        .header("X-Original-Method", "POST")
        .header("X-Forwarded-Uri", "/v1/exports")
        .header("X-Original-Uri", "/v1/exports")
        .header("X-Tollgate-Org", "acme");
    assert_eq!(left(&both.send(), "exports"), Some(0));
}

#[test]
fn both_families_that_disagree_are_an_error() {
    let server = server();
    let methods = ask(&server)
        .header("X-Forwarded-Method", "GET")
        .header("X-Original-Method", "POST")
        .header("X-Forwarded-Uri", "/a");
    assert!(methods.send().problem(400).contains("x-original-method"));
    let paths = ask(&server)
        .header("X-Forwarded-Uri", "/a")
        .header("X-Original-URI", "/b");
    assert!(paths.send().problem(400).contains("x-original-uri"));
}

#[test]
fn one_header_with_two_values_is_an_error() {
    let server = server();
    for (name, values) in [
        ("X-Tollgate-Org", ["acme", "globex"]),
        ("X-API-Key", ["tgk_live_a", "tgk_live_b"]),
        ("X-Forwarded-Uri", ["/v1/exports", "/"]),
        ("X-Tollgate-Cost", ["1", "0"]),
    ] {
        let twice = ask(&server).header(name, values[0]).header(name, values[1]);
        let said = twice.send().problem(400);
        assert!(said.contains("more than once, with different values"), "{said}");
    }
    let key = "tgk_0000000000000000000000000000";
    for (name, values) in [
        ("X-API-Key", &[key, key][..]),
        ("X-API-Key", &["tgk_live_a,tgk_live_b"]),
        ("Authorization", &["Basic abc", "Basic abc"]),
        ("Authorization", &["Basic abc, Bearer tgk_live_b"]),
    ] {
        let twice = values
            .iter()
            .fold(ask(&server), |ask, value| ask.header(name, value));
        let said = twice.send().problem(400);
        assert!(said.contains("comes more than once"), "{said}");
    }
    let same = ask(&server)
        .header("X-Tollgate-Org", "acme")
        .header("X-Tollgate-Org", "acme");
    assert_eq!(left(&same.send(), "org"), Some(9));
}

#[test]
fn a_gateway_that_passes_on_what_it_got_trusts_keys_alone() {
    let server = server();
    let admin = server.platform_admin();
    admin.set("/v1/orgs/globex", &json!({}));
    admin.set("/v1/orgs/globex/apps/web", &json!({}));
    let (_, secret) = admin.key("globex", "web", "live");
    let ask = || {
        Ask::new(server.http, "GET", "/v1/authorize?trust=keys")
            .header("X-Tollgate-Org", "acme")
            .header("X-Tollgate-Scopes", "write")
            .header("X-Tollgate-Cost", "5")
            .header("X-Forwarded-Uri", "/")
    };
    assert_eq!(left(&ask().send(), "org"), None);
    assert_eq!(left(&ask().header("X-API-Key", &secret).send(), "org"), Some(9));
    let other = Ask::new(server.http, "GET", "/v1/authorize?trust=nobody").send();
    assert!(other.problem(400).contains("trust"));
}

#[test]
fn permissions_may_come_in_several_lines() {
    let policies = file_of(&[hourly("writes", "org", 3, "requiredScope: write")]);
    let server = Server::start(&policies, &[]);
    let asked = ask(&server)
        .header("X-Tollgate-Org", "acme")
        .header("X-Tollgate-Scopes", "read list")
        .header("X-Tollgate-Scopes", "write");
    assert_eq!(left(&asked.send(), "writes"), Some(2));
    let many = "a ".repeat(33);
    let too_many = ask(&server)
        .header("X-Tollgate-Scopes", &many)
        .header("X-Tollgate-Scopes", &many);
    assert!(too_many.send().problem(400).contains("at most 64"));
}

#[test]
fn without_a_path_there_is_no_endpoint() {
    let server = server();
    let answer = ask(&server)
        .header("X-Forwarded-Method", "POST")
        .header("X-Tollgate-Org", "acme")
        .send();
    assert_eq!(left(&answer, "org"), Some(9));
    assert_eq!(left(&answer, "exports"), None);
}

#[test]
fn identity_scopes_and_cost_come_in_headers_of_their_own() {
    let server = Server::start(
        &file_of(&[
            hourly("org", "org", 10, ""),
            hourly("app", "app", 20, ""),
            hourly("key", "key", 30, ""),
            hourly("user", "user", 40, ""),
            hourly("writes", "org", 50, "requiredScope: write"),
            hourly("deletes", "org", 50, "requiredScope: delete"),
        ]),
        &[],
    );
    let answer = ask(&server)
        .header("X-Tollgate-Org", "acme")
        .header("X-Tollgate-App", "web")
        .header("X-Tollgate-Key", "k1")
        .header("X-Tollgate-User", "u7")
        .header("X-Tollgate-Scopes", "read, write")
        .header("X-Tollgate-Cost", "3")
        .send();
    assert_eq!(answer.status, 200);
    for (policy, remaining) in [("org", 7), ("app", 17), ("key", 27), ("user", 37), ("writes", 47)] {
        assert_eq!(left(&answer, policy), Some(remaining), "{policy}");
    }
    assert_eq!(left(&answer, "deletes"), None);
}

#[test]
fn a_header_that_makes_no_sense_is_an_error_that_names_it() {
    let server = server();
    for (name, value) in [
        ("X-Tollgate-Cost", "-1"),
        ("X-Tollgate-Cost", "1.5"),
        ("X-Tollgate-Cost", "many"),
        ("X-Tollgate-Org", ""),
        ("X-Tollgate-Cost", "+5"),
        ("X-Tollgate-Scopes", &"a ".repeat(65)),
        ("X-Forwarded-Uri", "exports"),
        ("X-Forwarded-Uri", "/%zz"),
        ("X-Original-URI", "*"),
    ] {
        let problem = ask(&server).header(name, value).send().problem(400);
        assert!(problem.contains(&name.to_lowercase()), "{name}: {problem}");
    }
    let long = "x".repeat(257);
    let problem = ask(&server).header("X-Tollgate-Key", &long).send().problem(400);
    assert!(problem.contains("x-tollgate-key"), "{problem}");
}

#[test]
fn the_clients_address_is_the_last_hop_that_no_trusted_proxy_is() {
    let server = Server::start(&policies(), &["--trusted-proxies", "127.0.0.0/8,10.0.0.0/8"]);
    let from = |hops: &str| left(&ask(&server).header("X-Forwarded-For", hops).send(), "address");
    assert_eq!(from("203.0.113.9"), Some(19));
    assert_eq!(
        from("198.51.100.7, 203.0.113.9"),
        Some(18),
        "the first hop is the client's own word"
    );
    assert_eq!(from("198.51.100.7, 203.0.113.9, 10.0.0.3"), Some(17));
    assert_eq!(from("198.51.100.7"), Some(19));
    assert_eq!(server.left("address", &json!({"ip": "127.0.0.1"})), 20);
}

#[test]
fn whoever_is_not_a_trusted_proxy_is_not_believed() {
    let server = Server::start(&policies(), &["--trusted-proxies", "10.0.0.0/8"]);
    for spoofed in ["203.0.113.1", "203.0.113.2", "10.0.0.1", "127.0.0.9"] {
        let answer = ask(&server)
            .header("X-Forwarded-For", spoofed)
            .header("X-Forwarded-Uri", "/v1/exports")
            .header("X-Forwarded-Method", "POST")
            .header("X-Tollgate-Org", "acme")
            .header("X-Tollgate-Cost", "0")
            .send();
        assert_eq!(answer.status, 200);
        assert_eq!(
            left(&answer, "org"),
            None,
            "its word on the org counts for nothing"
        );
    }
    assert_eq!(
        server.left("address", &json!({"ip": "127.0.0.1"})),
        16,
        "its own address does"
    );
    assert_eq!(server.left("address", &json!({"ip": "203.0.113.1"})), 20);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 10);
}

#[test]
fn an_unknown_key_or_token_is_401_and_charges_nothing() {
    let server = server();
    for (name, value) in [
        ("X-API-Key", "secret-of-nobody"),
        ("Authorization", "Bearer tg_live_nobody"),
        ("authorization", "bearer tg_live_nobody"),
    ] {
        let answer = ask(&server)
            .header(name, value)
            .header("X-Tollgate-Org", "acme")
            .send();
        let problem = answer.expect(401);
        assert_eq!(problem["error"], "unauthorized");
        assert!(!answer.text().contains("nobody"), "the secret is never repeated");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 10);
    let foreign = ask(&server)
        .header("Authorization", "Bearer eyJhbGciOi.of.another")
        .header("X-Tollgate-Org", "acme");
    assert_eq!(
        foreign.send().status,
        200,
        "the protected service's own token is none of ours"
    );
}

#[test]
fn a_denial_is_429_with_the_problem_as_its_body() {
    let server = server();
    let deny = || {
        ask(&server)
            .header("X-Tollgate-Org", "acme")
            .header("X-Tollgate-Cost", "10")
            .send()
    };
    assert_eq!(deny().status, 200);
    let answer = deny();
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("x-ratelimit-scope"), Some("org"));
    assert!(answer.number("retry-after").unwrap() >= 1);
    let denial = answer.expect(429);
    assert_denial(&denial);
    assert!(
        denial.get("limits").is_none(),
        "what a client need not know stays out"
    );
}

fn assert_denial(denial: &Value) {
    assert_eq!(
        denial["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(denial["status"], 429);
    assert_eq!(denial["error"], "rate_limit_exceeded");
    assert_eq!(denial["scope"], "org");
    assert_eq!(denial["policy"], "org");
    assert_eq!(denial["limit_type"], "per_hour");
    assert_eq!(denial["violated-policies"], json!(["org"]));
    assert_eq!(denial["message"], denial["detail"]);
    assert_eq!(denial["retry_after"], denial["retry_after_seconds"]);
    assert!(denial["title"].is_string());
}

#[test]
fn for_nginx_a_denial_is_403_with_status_and_body_in_headers() {
    let server = server();
    let deny = || {
        server
            .ask("GET", "/v1/authorize?deny_status=403")
            .header("X-Tollgate-Org", "acme")
            .header("X-Tollgate-Cost", "10")
            .send()
    };
    let allowed = deny();
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("x-tollgate-status"), None);
    let answer = deny();
    assert_eq!(answer.status, 403);
    assert_eq!(answer.body, b"");
    assert_eq!(answer.header("x-tollgate-status"), Some("429"));
    assert!(answer.number("retry-after").unwrap() >= 1);
    assert_eq!(answer.header("x-ratelimit-scope"), Some("org"));
    let body = answer.header("x-tollgate-body").unwrap();
    assert!(body.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{body}");
    assert_denial(&serde_json::from_str(body).unwrap());
    let other = server.ask("GET", "/v1/authorize?deny_status=500");
    assert!(other.send().problem(400).contains("deny_status"));
    let usual = server
        .ask("GET", "/v1/authorize?deny_status=429")
        .header("X-Tollgate-Org", "acme");
    assert_eq!(usual.send().status, 429);
}

/// Sends a question with these header lines as they are.
fn raw(server: &Server, target: &str, headers: &[u8]) -> Answer {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    let mut stream = connect(server.http);
    let request = [head.as_bytes(), headers, b"\r\n"].concat();
    stream.write_all(&request).unwrap();
    Answer::read(&mut BufReader::new(stream), "GET")
}

/// Anything but 401 and 403 would be a 500 to nginx, which may let everybody pass then.
#[test]
fn for_nginx_what_a_client_does_wrong_is_403_too() {
    let server = server();
    let mistakes: [(&[u8], u64); 6] = [
        (b"X-API-Key: tgk_a\r\nAuthorization: Bearer tgk_b\r\n", 400),
        (b"X-Original-URI: /\xff\r\n", 400),
        (b"X-API-Key: \xff\r\n", 400),
        (b"X-API-Key: \x01\r\n", 400),
        (&b"X-A: b\r\n".repeat(101), 431),
        (&[b"X-A: ", &*b"b".repeat(40_000), b"\r\n"].concat(), 431),
    ];
    for (headers, status) in mistakes {
        let answer = raw(&server, "/v1/authorize?deny_status=403", headers);
        assert_eq!(answer.status, 403, "{answer:?}");
        assert_eq!(answer.number("x-tollgate-status"), Some(status), "{answer:?}");
        let body = answer.header("x-tollgate-body").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["status"], status);
        assert_eq!(u64::from(raw(&server, "/v1/authorize", headers).status), status);
    }
    let unknown = raw(&server, "/v1/authorize?deny_status=403", b"X-API-Key: tgk_a\r\n");
    assert_eq!(unknown.status, 401);
}

/// What follows a path is dropped, whatever it is.
#[test]
fn a_query_is_not_looked_at() {
    let server = server();
    let long = [b"X-Original-URI: /exports?", &*b"q".repeat(20_000), b"\r\n"].concat();
    for uri in [&b"X-Original-URI: /exports?\xff\r\n"[..], &long] {
        assert_eq!(raw(&server, "/v1/authorize", uri).status, 200);
    }
    let endpoint = format!("/exports?{}", "q".repeat(10_000));
    let answer = server.check(&json!({"endpoint": endpoint}));
    assert_eq!(answer.status, 200);
    let endpoint = format!("/{}?q", "e".repeat(8_192));
    server.check(&json!({"endpoint": endpoint})).problem(400);
}

#[test]
fn an_api_key_that_says_otherwise_is_an_error_that_names_the_header() {
    let server = server();
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let (_, secret) = admin.key("acme", "web", "live");
    let other = ask(&server).header("X-API-Key", &secret);
    let problem = other.header("X-Tollgate-Org", "globex").send().problem(400);
    assert!(problem.contains("x-tollgate-org"), "{problem}");
}

#[test]
fn a_trusted_proxy_may_be_written_as_ipv4_inside_ipv6() {
    for proxies in ["::ffff:127.0.0.1", "::ffff:127.0.0.0/104"] {
        let server = Server::start(&policies(), &["--trusted-proxies", proxies]);
        let answer = ask(&server).header("X-Tollgate-Org", "acme").send();
        assert_eq!(left(&answer, "org"), Some(9), "{proxies}");
    }
}

#[test]
fn the_body_in_a_header_is_ascii_whatever_the_names() {
    let policy = hourly("p", "org", 1, "endpointPattern: \"/größe/日本\"");
    let server = Server::start(&file_of(&[policy]), &[]);
    let deny = || {
        server
            .ask("GET", "/v1/authorize?deny_status=403")
            .header("X-Tollgate-Org", "größe")
            .header("X-Forwarded-Uri", "/gr%C3%B6%C3%9Fe/%E6%97%A5%E6%9C%AC")
            .send()
    };
    assert_eq!(deny().status, 200);
    let answer = deny();
    assert_eq!(answer.status, 403);
    let body = answer.header("x-tollgate-body").unwrap();
    assert!(body.is_ascii() && body.contains("\\u00f6"), "{body}");
    let denial: Value = serde_json::from_str(body).unwrap();
    assert!(
        denial["message"].as_str().unwrap().contains("/größe/日本"),
        "{denial}"
    );
}

#[test]
fn every_method_asks_and_a_body_is_ignored() {
    let server = server();
    for method in [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE",
    ] {
        let answer = server
            .ask(method, "/v1/authorize")
            .header("X-Tollgate-Org", "acme")
            .body(if method == "HEAD" {
                ""
            } else {
                "{\"orgId\": not even JSON"
            })
            .send();
        assert_eq!(answer.status, 200, "{method}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 2);
}
