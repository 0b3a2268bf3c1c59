//! SIGTERM: what is in flight is answered, then the process ends well.

use std::io::{BufReader, Read, Write};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Server, file_of, hourly};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[])
}

#[test]
fn sigterm_ends_it_with_0() {
    let server = server();
    server.allowed(&json!({"orgId": "acme"}));
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_request_in_flight_is_answered_before_the_end() {
    let server = server();
    let body = r#"{"orgId":"acme"}"#;
    let mut stream = connect(server.http);
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    // The server says this when it has begun to read the body: from here on the request is in its hands.
    assert_eq!(Answer::read(&mut reader, "POST").status, 100);
    server.terminate();
    server.logs("draining");
    stream.write_all(body.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut reader, "POST").expect(200)["remaining"], 99);
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "and the connection is closed");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let server = server();
    let mut idle = connect(server.http);
    idle.write_all(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        .unwrap();
    let mut reader = BufReader::new(idle);
    Answer::read(&mut reader, "POST").expect(200);
    let untouched = connect(server.http);
    server.terminate();
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    drop(untouched);
    assert_eq!(server.wait().code(), Some(0));
}
