//! `POST /json` and `/healthcheck`, as envoyproxy/ratelimit has them.

use serde_json::{Value, json};

use crate::common::{Answer, Server, file_of};

fn server(rest: &[&str]) -> Server {
    let policy = "{id: by-user, scope: 'descriptor:user', match: {domain: edge}, algorithm: fixed_window, limit: 2, window: 30d}";
    Server::start(&file_of(&[policy.to_owned()]), rest)
}

fn ask(server: &Server, body: &Value) -> Answer {
    server.ask("POST", "/json").body(body.to_string()).send()
}

#[test]
fn a_question_is_answered_in_the_form_of_protobuf() {
    let server = server(&[]);
    let body = json!({"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "u1"}]}]});
    let answer = ask(&server, &body).expect(200);
    assert_eq!(answer["overallCode"], "OK");
    let status = &answer["statuses"][0];
    assert_eq!(
        (&status["code"], &status["limitRemaining"]),
        (&json!("OK"), &json!(1))
    );
    assert_eq!(
        status["currentLimit"],
        json!({"requestsPerUnit": 2, "unit": "MONTH", "name": "by-user"})
    );
    let reset = status["durationUntilReset"]
        .as_str()
        .unwrap()
        .strip_suffix('s')
        .unwrap();
    assert!((1..=30 * 86_400).contains(&reset.parse::<u64>().unwrap()));
    ask(&server, &body).expect(200);
    let denied = ask(&server, &body);
    assert_eq!(denied.header("content-type"), Some("application/json"));
    let denied = denied.expect(429);
    assert_eq!(
        (&denied["overallCode"], &denied["statuses"][0]["code"]),
        (&json!("OVER_LIMIT"), &json!("OVER_LIMIT"))
    );
    assert!(denied["rawBody"].is_string());
}

#[test]
fn names_may_be_as_in_the_proto_file_and_large_numbers_text() {
    let server = server(&[]);
    let body = json!({
        "domain": "edge", "hits_addend": 7,
        "descriptors": [
            {"entries": [{"key": "user", "value": "u1"}], "hits_addend": "0"},
            {"entries": [{"key": "user", "value": "u2"}], "limit": {"requests_per_unit": 9, "unit": "HOUR"}},
            {"entries": [{"key": "user", "value": "u3"}], "hitsAddend": 1, "isNegativeHits": true},
        ],
    });
    let answer = ask(&server, &body).expect(200);
    assert_eq!(answer["statuses"][0]["limitRemaining"], 2);
    assert_eq!(answer["statuses"][1]["limitRemaining"], 2);
    assert_eq!(answer["statuses"][2]["limitRemaining"], 2);
}

#[test]
fn a_value_that_can_not_be_is_refused_as_over_grpc() {
    let server = server(&[]);
    let entries = |key: &str, value: &str| json!({"entries": [{"key": key, "value": value}]});
    let long = "x".repeat(257);
    for (key, value) in [("org", long.as_str()), ("ip", "nowhere"), ("endpoint", "/%zz")] {
        let body = json!({"domain": "edge", "descriptors": [entries("user", "u1"), entries(key, value)]});
        let answer = ask(&server, &body).expect(429);
        let codes = [&answer["statuses"][0]["code"], &answer["statuses"][1]["code"]];
        assert_eq!(codes, [&json!("OK"), &json!("OVER_LIMIT")], "{answer}");
        assert_eq!(answer["overallCode"], "OVER_LIMIT");
    }
    // Nothing was charged.
    let body = json!({"domain": "edge", "descriptors": [entries("user", "u1")]});
    assert_eq!(
        ask(&server, &body).expect(200)["statuses"][0]["limitRemaining"],
        1
    );
}

#[test]
fn what_is_no_question_is_400() {
    let server = server(&[]);
    for body in [
        json!({}),
        json!({"domain": "edge"}),
        json!({"domain": "edge", "descriptors": [{"entries": []}]}),
        json!({"domain": "edge", "descriptors": [], "surprise": 1}),
        json!([]),
        json!({"domain": "edge", "descriptors": [{"entries": [{"key": "a"}], "limit": {"unit": "FORTNIGHT"}}]}),
    ] {
        ask(&server, &body).problem(400);
    }
    assert_eq!(server.ask("GET", "/json").send().status, 405);
}

#[test]
fn a_token_is_needed_for_questions_and_not_for_health() {
    let server = server(&["--data-token", "a-token-for-this-test"]);
    assert_eq!(ask(&server, &json!({"domain": "edge"})).status, 401);
    let health = server.ask("GET", "/healthcheck").send();
    assert_eq!((health.status, health.text()), (200, "OK"));
}
