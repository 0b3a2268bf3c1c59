//! Tokens on the data plane.

use serde_json::json;

use crate::common::process::{finish, program};
use crate::common::{Answer, Ask, Launch, Server, file_of, hourly, run};

const OLD: &str = "the-token-until-now-1";
const NEW: &str = "the-token-from-now-on";

fn server(tokens: &str) -> Server {
    Server::start(
        &file_of(&[hourly("everything", "global", 100, "")]),
        &["--data-token", tokens],
    )
}

/// A request to each route that decides. All of them cost one.
fn routes(server: &Server) -> [Ask; 3] {
    [
        server.ask("POST", "/v1/check").body("{}"),
        server.ask("POST", "/v1/check/batch").body(r#"{"requests":[{}]}"#),
        server.ask("GET", "/v1/authorize"),
    ]
}

fn left(server: &Server) -> u64 {
    let ask = server.ask("POST", "/v1/check").body(r#"{"cost":0}"#);
    let decision = ask.header("X-Tollgate-Token", NEW).send().expect(200);
    decision["remaining"].as_u64().unwrap()
}

#[test]
fn every_route_wants_a_token_and_charges_nothing_without_one() {
    let server = server(NEW);
    for ask in routes(&server) {
        let wants = |ask: Ask| -> Answer {
            let answer = ask.send();
            let sentence = answer.problem(401);
            assert!(!sentence.contains(NEW), "{sentence}");
            assert!(answer.limit_headers().is_empty(), "{answer:?}");
            answer
        };
        wants(ask.clone());
        for wrong in ["", OLD, &NEW[1..], &format!("{NEW}x"), &format!("{NEW},{OLD}")] {
            wants(ask.clone().header("X-Tollgate-Token", wrong));
            wants(ask.clone().header("Authorization", &format!("Bearer {wrong}")));
        }
        // A wrong token is not made good by a right one elsewhere.
        wants(
            ask.clone()
                .header("X-Tollgate-Token", OLD)
                .header("Authorization", &format!("Bearer {NEW}")),
        );
        wants(ask.header("Authorization", NEW));
    }
    assert_eq!(left(&server), 100);
    let answer = server.ask("GET", "/v1/check").send();
    assert_eq!(answer.status, 401, "not even the method is looked at");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
}

#[test]
fn every_route_takes_the_token_in_its_own_header() {
    let server = server(NEW);
    for (ask, left_after) in routes(&server).into_iter().zip([99, 98, 97]) {
        let answer = ask.header("x-tollgate-token", NEW).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(left(&server), left_after);
    }
}

#[test]
fn check_and_batch_take_it_as_a_bearer_token_too() {
    let server = server(NEW);
    let [check, batch, authorize] = routes(&server);
    for ask in [check, batch] {
        for scheme in ["Bearer", "bearer"] {
            let ask = ask.clone().header("Authorization", &format!("{scheme} {NEW}"));
            ask.send().expect(200);
        }
    }
    assert_eq!(left(&server), 96);
    // There it belongs to the client that the gateway asks about.
    let answer = authorize
        .clone()
        .header("Authorization", &format!("Bearer {NEW}"));
    let sentence = answer.send().problem(401);
    assert!(
        sentence.contains("X-Tollgate-Token") && !sentence.contains("Bearer"),
        "{sentence}"
    );
    let answer = authorize
        .header("Authorization", "Bearer the-clients-own")
        .header("X-Tollgate-Token", NEW)
        .send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(left(&server), 95);
}

#[test]
fn of_several_tokens_each_is_good_until_it_is_taken_out() {
    let with = |server: &Server, token: &str| {
        let answers = routes(server).map(|ask| ask.header("X-Tollgate-Token", token).send().status);
        assert!(answers.iter().all(|status| *status == answers[0]), "{answers:?}");
        answers[0]
    };
    let before = server(OLD);
    assert_eq!((with(&before, OLD), with(&before, NEW)), (200, 401));
    let meanwhile = server(&format!("{OLD}, {NEW}"));
    assert_eq!((with(&meanwhile, OLD), with(&meanwhile, NEW)), (200, 200));
    let after = server(NEW);
    assert_eq!((with(&after, OLD), with(&after, NEW)), (401, 200));
}

#[test]
fn health_metrics_and_unknown_routes_need_none() {
    let server = server(NEW);
    assert_eq!(server.ask_admin("GET", "/healthz").send().status, 200);
    assert_eq!(server.ask_admin("GET", "/metrics").send().status, 200);
    server.ask("GET", "/v1/nothing").send().problem(404);
    // Nor does it open the control plane.
    let explain = server.ask_admin("POST", "/v1/ratelimit/explain").body("{}");
    let explain = explain.header("Authorization", &format!("Bearer {NEW}"));
    explain.header("X-Tollgate-Token", NEW).send().problem(401);
}

#[test]
fn a_token_is_neither_logged_nor_shown() {
    let server = Server::launch(&Launch {
        policies: Some("policies: []\n"),
        flags: &["--data-token", NEW],
        environment: &[("TOLLGATE_LOG", "trace")],
        ..Launch::default()
    });
    for token in [NEW, OLD] {
        for ask in routes(&server) {
            ask.header("X-Tollgate-Token", token).send();
        }
    }
    server.terminate();
    server.logs("draining");
    let log = server.stderr();
    assert!(!log.contains(NEW) && !log.contains(OLD), "{log}");
    for command in ["serve", "check"] {
        let mut help = program(&[command, "--help"]);
        help.env("TOLLGATE_DATA_TOKEN", NEW);
        let help = finish(help, "");
        let shown = help.expect(0);
        assert!(
            shown.contains("TOLLGATE_DATA_TOKEN") && !shown.contains(NEW),
            "{shown}"
        );
    }
}

#[test]
fn a_token_that_is_too_short_or_cannot_be_sent_is_refused_and_not_repeated() {
    for bad in [
        "hunter2",
        "the-token-until-now-1,hunter2",
        "hunter2 hunter2 hunter2",
        "hunter2-hunter2-hünter2",
        "",
    ] {
        let run = run(&["serve", "--data-token", bad]);
        let complaint = run.complaint(2);
        let named = complaint.contains("--data-token: ") && complaint.contains("16 characters");
        assert!(named && !complaint.contains("hunter2"), "{complaint}");
    }
}

#[test]
fn a_key_of_a_tenant_is_asked_for_besides() {
    let server = server(NEW);
    let body = json!({"apiKey": "tgk_live_unknown"}).to_string();
    let ask = server.ask("POST", "/v1/check").body(body);
    let sentence = ask.header("X-Tollgate-Token", NEW).send().problem(401);
    assert!(sentence.contains("key"), "{sentence}");
}
