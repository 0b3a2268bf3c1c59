//! What somebody may take up of whom nothing is known.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Ask, Server, file_of, hourly, wait_for};

const TOKEN: &str = "a-token-of-sixteen";

fn server(flags: &[&str]) -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100, "")]), flags)
}

/// What the server's process takes of the memory, in bytes.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse::<u64>().unwrap() * 1024
}

fn known(server: &Server) -> Ask {
    server
        .ask("POST", "/v1/check")
        .header("X-Tollgate-Token", TOKEN)
        .body("{}")
}

#[test]
fn whoever_may_not_ask_is_told_before_a_body_is_sent() {
    let server = server(&["--data-token", TOKEN]);
    for (line, headers, status) in [
        ("POST /v1/check", "", 401),
        ("POST /v1/check/batch", "", 401),
        ("POST /v1/authorize", "", 401),
        ("POST /json", "", 401),
        ("POST /v1/check", "X-Tollgate-Token: another-of-sixteen\r\n", 401),
        ("POST /nowhere", "", 404),
        ("PUT /v1/check", "X-Tollgate-Token: a-token-of-sixteen\r\n", 405),
        ("POST /healthcheck", "", 200),
    ] {
        for length in [
            "Content-Length: 1000000\r\n",
            "Transfer-Encoding: chunked\r\n",
            "Expect: 100-continue\r\nContent-Length: 1000000\r\n",
            // It would be too much, which is nobody's business.
            "Content-Length: 100000000\r\n",
        ] {
            let mut stream = connect(server.http);
            let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{headers}{length}\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            let mut reader = BufReader::new(stream);
            let answer = Answer::read(&mut reader, "POST");
            assert_eq!(answer.status, status, "{head}");
            assert_eq!(answer.header("connection"), Some("close"), "{head}");
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "the rest is not waited for");
        }
    }
    known(&server).send().expect(200);
}

#[test]
fn a_refused_request_that_is_there_whole_does_not_end_the_connection() {
    let server = server(&["--data-token", TOKEN]);
    let mut stream = connect(server.http);
    let refused = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    let chunked =
        "POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    let taken = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Tollgate-Token: {TOKEN}\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    stream
        .write_all(format!("{refused}{chunked}{taken}").as_bytes())
        .unwrap();
    let mut reader = BufReader::new(stream);
    let statuses = [(); 3].map(|()| Answer::read(&mut reader, "POST").status);
    assert_eq!(statuses, [401, 404, 200]);
}

/// Connections to each of which somebody writes without a pause, and whether the server has had enough of each.
fn pour(address: SocketAddr, head: &str, body: &[u8], count: usize) -> Vec<TcpStream> {
    (0..count)
        .map(|_| {
            let mut stream = connect(address);
            let _ = stream.write_all(head.as_bytes());
            // The server may close before it has seen all.
            let _ = stream.write_all(body);
            stream
        })
        .collect()
}

#[test]
fn what_stands_beside_chunks_is_bounded() {
    let server = server(&[]);
    known(&server).send().expect(200);
    let before = memory(&server);
    let extension = "e".repeat(4_000);
    let chunks = format!("1;{extension}\r\n \r\n").repeat(200);
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    let open = pour(server.http, head, chunks.as_bytes(), 200);
    known(&server).send().expect(200);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 32 << 20, "{} MiB more", grown >> 20);
    drop(open);
}

#[test]
fn chunks_may_be_small() {
    let server = server(&[]);
    let body = json!({"orgId": "acme"}).to_string() + &" ".repeat(100_000);
    let mut stream = connect(server.http);
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunks: String = (body.as_bytes().chunks(8))
        .map(|piece| format!("{:x}\r\n{}\r\n", piece.len(), std::str::from_utf8(piece).unwrap()))
        .collect();
    stream.write_all(format!("{chunks}0\r\n\r\n").as_bytes()).unwrap();
    Answer::read(&mut BufReader::new(stream), "POST").expect(200);
}

#[test]
fn requests_that_have_not_arrived_whole_are_bounded_together() {
    let server = server(&[]);
    known(&server).send().expect(200);
    let before = memory(&server);
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n";
    let body = vec![b' '; 999_999];
    let open = pour(server.http, head, &body, 200);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 100 << 20, "{} MiB more", grown >> 20);
    // Ordinary requests don't come near that bound.
    known(&server).send().expect(200);
    let refused = open.iter().find_map(|stream| {
        stream.set_nonblocking(true).unwrap();
        let mut answer = vec![0; 4096];
        let read = (&*stream).read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..read]).into_owned())
    });
    let refused = refused.expect("a refusal");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("limiter_unavailable") && refused.contains("retry-after: 1"));
    drop(open);
    wait_for("room for a large body", || {
        let large = json!({"orgId": "acme"}).to_string() + &" ".repeat(900_000);
        (server.check_raw(large).status == 200).then_some(())
    });
}

/// Whether a connection is still open. Nothing is sent on it.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = (&*stream).read(&mut [0]);
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn the_oldest_silent_connection_gives_way_when_all_places_are_taken() {
    let server = server(&["--max-connections", "20", "--threads", "2"]);
    let mut used = connect(server.http);
    let request = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    let mut ask = || {
        used.write_all(request).unwrap();
        Answer::read(&mut BufReader::new(&used), "POST").status
    };
    assert_eq!(ask(), 200);
    // Some say nothing, others never come to an end.
    let mut silent: Vec<TcpStream> = (0..30).map(|_| connect(server.http)).collect();
    for stream in silent.iter_mut().step_by(2) {
        let _ = stream.write_all(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{");
    }
    let begun = std::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(server.check(&json!({})).status, 200);
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(ask(), 200, "who has asked before is not hung up on");
    let open = silent.iter().filter(|stream| is_open(stream)).count();
    assert!(
        (1..30).contains(&open),
        "{open} are open: no more give way than there must"
    );
}

#[test]
fn silent_connections_over_grpc_and_resp_give_way_too() {
    let server = server(&["--max-connections", "8", "--resp", "127.0.0.1:0"]);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (address, says) in [(server.grpc, &preface[..]), (server.resp.unwrap(), b"PING\r\n")] {
        let silent: Vec<TcpStream> = (0..8).map(|_| connect(address)).collect();
        wait_for("a place", || {
            let mut stream = connect(address);
            stream.write_all(says).ok()?;
            matches!(stream.read(&mut [0; 4]), Ok(1..)).then_some(())
        });
        drop(silent);
    }
}

#[test]
fn a_stranger_may_not_send_long_commands() {
    let server = server(&["--data-token", TOKEN, "--resp", "127.0.0.1:0"]);
    let mut stream = connect(server.resp.unwrap());
    let _ = stream.write_all(format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}", "a".repeat(30_000)).as_bytes());
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert_eq!(said, "-ERR Protocol error: too big command\r\n");
}
