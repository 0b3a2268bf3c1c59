//! What one client may take up.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Ask, Server, file_of, hourly};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), &[])
}

/// What comes until the server closes the connection, which must be soon.
fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return all,
            Ok(read) => all.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }
}

#[test]
fn whoever_dawdles_is_cut_off() {
    let server = server();
    let started = Instant::now();
    let dawdle = |address, text: &str| {
        let mut stream = connect(address);
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    // All at once, so that the test waits for the timeout only once.
    let half_a_head = dawdle(server.http, "POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    let half_a_line = dawdle(server.admin, "GET /hea");
    let half_a_body = dawdle(
        server.http,
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"orgId\":",
    );
    let body = json!({"orgId": "acme"});
    server.allowed(&body);
    until_closed(&half_a_head);
    until_closed(&half_a_line);
    let answer = until_closed(&half_a_body);
    let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 ");
    assert!(refused, "{}", String::from_utf8_lossy(&answer));
    assert!(
        started.elapsed() > Duration::from_secs(5),
        "a slow client is given some time"
    );
    assert_eq!(server.allowed(&body)["remaining"], 98, "nobody else noticed");
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = server();
    for address in [server.http, server.admin] {
        let mut stream = connect(address);
        let head = format!(
            "GET /v1/authorize HTTP/1.1\r\nHost: x\r\nX-Large: {}",
            "x".repeat(40 * 1024)
        );
        // The server may hang up before it has seen all of it.
        let _ = stream.write_all(head.as_bytes());
        let answer = until_closed(&stream);
        let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 431 ");
        assert!(refused, "{}", String::from_utf8_lossy(&answer));
    }
    server.allowed(&json!({"orgId": "acme"}));
}

#[test]
fn a_body_over_a_mebibyte_is_refused() {
    let server = server();
    let padded = |length: usize| {
        let mut body = json!({"orgId": "acme"}).to_string();
        body.push_str(&" ".repeat(length - body.len()));
        body
    };
    server.check_raw(padded(1 << 20)).expect(200);
    let mut announced = connect(server.http);
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        (1 << 20) + 1
    );
    announced.write_all(head.as_bytes()).unwrap();
    let answer = Answer::read(&mut BufReader::new(&announced), "POST");
    assert!(answer.problem(413).contains("1048576 bytes"));
    let mut chunked = connect(server.http);
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        (1 << 20) + 1
    );
    chunked.write_all(head.as_bytes()).unwrap();
    chunked.write_all(padded((1 << 20) + 1).as_bytes()).unwrap();
    let answer = Answer::read(&mut BufReader::new(&chunked), "POST");
    answer.problem(413);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 99);
}

#[test]
fn what_is_not_http_is_refused() {
    let server = server();
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"nonsense\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = connect(server.http);
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = until_closed(&stream);
        let refused = answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 ");
        assert!(refused, "{}", String::from_utf8_lossy(&answer));
    }
    server.allowed(&json!({"orgId": "acme"}));
}

#[test]
fn one_connection_carries_many_requests_even_before_their_answers() {
    let server = server();
    let mut stream = connect(server.http);
    let body = r#"{"orgId":"acme"}"#;
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.repeat(20).as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    for left in (80..100).rev() {
        assert_eq!(Answer::read(&mut reader, "POST").expect(200)["remaining"], left);
    }
}

#[test]
fn every_connection_is_answered_however_many_come_and_go() {
    let server = Server::start("policies: []\n", &[]);
    let address = server.http;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..3_000 {
                    Ask::new(address, "POST", "/v1/check")
                        .body("{}")
                        .send()
                        .expect(200);
                }
            });
        }
    });
}
