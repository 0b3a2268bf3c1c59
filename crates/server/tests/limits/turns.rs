//! Other people's turn: whoever has much to ask holds up nobody else for long.

use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::http::connect;
use crate::common::{Answer, Server, file_of, hourly};

/// Checks of which the slowest of a hundred is looked at.
const CHECKS: usize = 400;
/// How much longer a check may take beside a flood.
const MOST: f64 = 5.0;
/// A machine that others use, too, is given some chances to show what the server does.
const ROUNDS: usize = 6;

fn post(path: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes()
}

/// How long nearly all checks of an org take, one after the other on one connection.
fn p99(address: SocketAddr) -> Duration {
    let mut stream = connect(address);
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let check = post("/v1/check", r#"{"orgId":"quiet"}"#);
    let mut times: Vec<Duration> = (0..CHECKS)
        .map(|_| {
            let begun = Instant::now();
            stream.write_all(&check).unwrap();
            Answer::read(&mut reader, "POST").expect(200);
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[CHECKS * 99 / 100]
}

/// Compares checks alone with checks beside this, sent again and again on so many connections.
fn compare(flood: &[u8], answers: usize, connections: usize) {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 100_000_000, "")]),
        &["--threads", "1"],
    );
    p99(server.http);
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let alone = p99(server.http);
        let (end, address) = (AtomicBool::new(false), server.http);
        let beside = std::thread::scope(|scope| {
            for _ in 0..connections {
                scope.spawn(|| {
                    let mut stream = connect(address);
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while !end.load(Ordering::Relaxed) {
                        stream.write_all(flood).unwrap();
                        for _ in 0..answers {
                            assert_eq!(Answer::read(&mut reader, "POST").status, 200);
                        }
                    }
                });
            }
            let beside = p99(server.http);
            end.store(true, Ordering::Relaxed);
            beside
        });
        let times = beside.as_secs_f64() / alone.as_secs_f64();
        seen.push((alone, beside));
        if times <= MOST {
            return;
        }
    }
    panic!("alone and beside the flood: {seen:?}");
}

#[test]
fn batches_hold_up_nobody_else() {
    let batch = format!(r#"{{"requests":[{}]}}"#, [r#"{"orgId":"loud"}"#; 1_000].join(","));
    compare(&post("/v1/check/batch", &batch), 1, 8);
}

#[test]
fn pipelines_hold_up_nobody_else() {
    let check = post("/v1/check", r#"{"orgId":"loud"}"#);
    compare(&check.repeat(500), 500, 6);
}

#[test]
fn a_pipeline_of_batches_and_checks_is_answered_in_order() {
    let server = Server::start(
        &file_of(&[hourly("org", "org", 100_000, "")]),
        &["--threads", "1"],
    );
    let mut stream = connect(server.http);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let check = post("/v1/check", r#"{"orgId":"acme"}"#);
    let batch = post(
        "/v1/check/batch",
        &format!(r#"{{"requests":[{}]}}"#, [r#"{"orgId":"acme"}"#; 300].join(",")),
    );
    let chunked = [
        b"POST /v1/check/batch HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        b"1f\r\n{\"requests\":[{\"orgId\":\"acme\"}]}\r\n0\r\n\r\n".to_vec(),
    ]
    .concat();
    let all = [check.repeat(100), batch.clone(), check.clone(), chunked, check].concat();
    stream.write_all(&all).unwrap();
    let mut left = 100_000;
    let mut expect = |answer: &serde_json::Value| {
        left -= 1;
        assert_eq!(answer["remaining"], left);
    };
    for _ in 0..100 {
        expect(&Answer::read(&mut reader, "POST").expect(200));
    }
    for size in [300, 0, 1, 0] {
        let answer = Answer::read(&mut reader, "POST").expect(200);
        match size {
            0 => expect(&answer),
            size => {
                let decisions = answer["decisions"].as_array().unwrap();
                assert_eq!(decisions.len(), size);
                decisions.iter().for_each(&mut expect);
            }
        }
    }
}
