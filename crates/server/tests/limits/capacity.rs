//! What all clients together may take up.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::http::connect;
use crate::common::{Answer, Server, file_of, hourly, wait_for};

const REQUEST: &[u8] = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn connections_past_the_cap_wait_their_turn() {
    let server = Server::start("policies: []\n", &["--max-connections", "1"]);
    let mut first = connect(server.http);
    first.write_all(REQUEST).unwrap();
    Answer::read(&mut BufReader::new(&first), "POST").expect(200);
    let mut second = connect(server.http);
    second.write_all(REQUEST).unwrap();
    second.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let error = second.read(&mut [0]).unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::WouldBlock,
        "not served while the first is open"
    );
    drop(first);
    second.set_read_timeout(Some(crate::common::DEADLINE)).unwrap();
    Answer::read(&mut BufReader::new(&second), "POST").expect(200);
}

/// Whether HTTP/2 is spoken on a connection; a connection that is closed at once speaks nothing.
fn speaks_http2(stream: &mut std::net::TcpStream) -> bool {
    let settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(settings).is_ok() && matches!(stream.read(&mut [0; 9]), Ok(1..))
}

#[test]
fn connections_over_grpc_past_the_cap_are_closed_at_once() {
    let server = Server::start("policies: []\n", &["--max-connections", "2"]);
    let mut open = [connect(server.grpc), connect(server.grpc)];
    assert!(open.iter_mut().all(speaks_http2));
    assert!(!speaks_http2(&mut connect(server.grpc)));
    assert!(!speaks_http2(&mut connect(server.grpc)));
    // Those that are open go on, the data plane's own places are others, and one that ends makes room.
    assert_eq!(server.check(&json!({})).status, 200);
    drop(open);
    wait_for("a place", || {
        speaks_http2(&mut connect(server.grpc)).then_some(())
    });
}

/// Asks for orgs of ever new names until the server has no room for another.
fn fill(server: &Server) -> (Answer, Value) {
    let answers = (0..50).map(|number| {
        let body = json!({"orgId": format!("org-{number}")});
        (server.check(&body), body)
    });
    let full = answers.into_iter().find(|(answer, _)| answer.status != 200);
    full.expect("a store that is full")
}

#[test]
fn a_full_store_answers_that_the_limiter_is_unavailable_and_charges_nothing() {
    let policies = file_of(&[
        hourly("org", "org", 10, ""),
        hourly("global", "global", 1_000, ""),
    ]);
    let server = Server::start(&policies, &["--max-counters", "4"]);
    let (answer, body) = fill(&server);
    answer.problem(503);
    assert_eq!(answer.json()["error"], "limiter_unavailable");
    assert!(answer.number("retry-after").unwrap() >= 1);
    let left = server.left("global", &body);
    server.check(&body).problem(503);
    assert_eq!(server.left("global", &body), left);
    assert_eq!(server.left("org", &body), 10);
    assert!(server.counted("tollgate_counters_refused_total") >= 2);
    server.allowed(&json!({"orgId": "org-0"}));
}

#[test]
fn in_a_batch_a_full_store_is_an_item_like_any_other() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 10, "")]),
        &["--max-counters", "4"],
    );
    let requests: Vec<Value> = (0..20)
        .map(|number| json!({"orgId": format!("org-{number}")}))
        .collect();
    let body = json!({"requests": requests}).to_string();
    let answer = server
        .ask("POST", "/v1/check/batch")
        .body(body)
        .send()
        .expect(200);
    let decisions = answer["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 20);
    assert_eq!(decisions[0]["allowed"], true);
    assert_eq!(decisions[19]["error"], "limiter_unavailable");
    assert_eq!(decisions[19]["status"], 503);
}
