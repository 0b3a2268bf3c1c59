//! SIGTERM: what is in flight is answered, then the process ends well.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

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

/// Asks on many connections at a time, each of which always has a request under way, until the server has closed them
/// all. How many requests have no answer is handed back.
fn saturate(address: SocketAddr, connections: usize) -> usize {
    let request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"orgId\":\"acme\"}";
    let mut open: Vec<BufReader<TcpStream>> = (0..connections)
        .map(|_| BufReader::new(connect(address)))
        .collect();
    let mut lost = 0;
    while !open.is_empty() {
        for reader in &mut open {
            // The answer that never comes is what counts.
            let _ = reader.get_mut().write_all(request);
        }
        open.retain_mut(|reader| {
            if !reader.fill_buf().is_ok_and(|answer| !answer.is_empty()) {
                lost += 1;
                return false;
            }
            let answer = Answer::read(reader, "POST");
            assert_eq!(answer.status, 200);
            answer.header("connection") != Some("close")
        });
    }
    lost
}

#[test]
fn no_request_on_an_open_connection_stays_without_an_answer_at_saturation() {
    let policies = file_of(&[hourly("org", "org", 100_000_000, "")]);
    for _ in 0..3 {
        let server = Server::start(&policies, &[]);
        let address = server.http;
        let lost: usize = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|_| scope.spawn(move || saturate(address, 75)))
                .collect();
            crate::common::wait_for("load", || {
                (server.counted("tollgate_request_seconds_count{protocol=\"http\"}") > 3_000).then_some(())
            });
            server.terminate();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_eq!(lost, 0);
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// What was sent before its client could know of the end is answered, on connections old and new.
#[test]
fn a_request_that_comes_a_moment_after_the_signal_is_answered() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 100, "")]),
        &["--resp", "127.0.0.1:0"],
    );
    let request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    let mut used = connect(server.http);
    let mut reader = BufReader::new(used.try_clone().unwrap());
    used.write_all(request).unwrap();
    Answer::read(&mut reader, "POST").expect(200);
    let mut unused = connect(server.http);
    let mut redis = connect(server.resp.unwrap());
    server.terminate();
    server.logs("draining");
    let _silent = {
        let (silent, pause) = std::sync::mpsc::channel::<()>();
        let _ = pause.recv_timeout(std::time::Duration::from_millis(100));
        silent
    };
    for (stream, reader) in [
        (&mut used, &mut reader),
        (&mut unused.try_clone().unwrap(), &mut BufReader::new(unused)),
    ] {
        stream.write_all(request).unwrap();
        let answer = Answer::read(reader, "POST");
        answer.expect(200);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    redis.write_all(b"PING\r\n").unwrap();
    let mut said = String::new();
    redis.read_to_string(&mut said).unwrap();
    assert_eq!(said, "+PONG\r\n");
    assert_eq!(server.wait().code(), Some(0));
}
