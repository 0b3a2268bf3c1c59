//! What connections may take up of others: nothing.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_proto::v1::CheckLimitRequest;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::asker::Asker;
use crate::common::{DEADLINE, Server, file_of, hourly};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame, head_of, message, raw, read_until,
};

const TOKEN: &str = "a-token-of-sixteen";
const HEALTH: &[u8] = b"/grpc.health.v1.Health/Check";
const WATCH: &[u8] = b"/grpc.health.v1.Health/Watch";
const CHECK: &[u8] = b"/tollgate.v1.RateLimiter/CheckLimit";

fn server(flags: &[&str]) -> Server {
    Server::start(&file_of(&[hourly("org", "org", 100_000, "")]), flags)
}

/// Connections on each of which as many calls were begun as may be.
fn begun(server: &Server, path: &[u8], rest: &[u8], count: usize) -> Vec<TcpStream> {
    let open = |_| {
        let mut stream = raw(server);
        let mut all = Vec::new();
        for number in 0..1024_u32 {
            let id = 2 * number + 1;
            all.extend(frame(HEADERS, END_HEADERS, id, &head_of(path)));
            if !rest.is_empty() {
                all.extend(frame(DATA, END_STREAM, id, rest));
            }
        }
        stream.write_all(&all).unwrap();
        read_until(&mut stream, SETTINGS);
        stream
    };
    (0..count).map(open).collect()
}

fn asks(server: &Server) {
    let asker = Asker::of(server).showing("x-tollgate-token", TOKEN);
    for _ in 0..20 {
        let check = CheckLimitRequest {
            org_id: Some("acme".to_owned()),
            ..CheckLimitRequest::default()
        };
        assert!(asker.check(check).unwrap().allowed);
    }
}

fn is_healthy(server: &Server) {
    let asker = Asker::of(server);
    let mut health = HealthClient::new(asker.channel.clone());
    for _ in 0..5 {
        let answer = (asker.runtime).block_on(health.check(HealthCheckRequest::default()));
        assert_eq!(answer.unwrap().into_inner().status, 1);
    }
}

/// What the server's process takes of the memory, in bytes.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse::<u64>().unwrap() * 1024
}

#[test]
fn calls_of_strangers_that_never_come_take_no_places() {
    let server = server(&["--data-token", TOKEN]);
    let open = begun(&server, HEALTH, b"", 8);
    asks(&server);
    is_healthy(&server);
    drop(open);
}

#[test]
fn calls_that_never_come_take_no_places_of_others_that_may_ask() {
    let server = server(&[]);
    let open = begun(&server, CHECK, b"", 6);
    asks(&server);
    is_healthy(&server);
    drop(open);
}

#[test]
fn whoever_watches_without_end_takes_little() {
    let server = server(&["--data-token", TOKEN]);
    asks(&server);
    let before = memory(&server);
    let open = begun(&server, WATCH, &message(b""), 20);
    asks(&server);
    is_healthy(&server);
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 40 << 20, "{} MiB more", grown >> 20);
    drop(open);
}

#[test]
fn answers_that_nobody_takes_are_given_up_however_small() {
    let server = server(&[]);
    let mut stream = raw(&server);
    // Streams begin with a window of nothing.
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
        .unwrap();
    for _ in 0..3 {
        read_until(&mut stream, SETTINGS);
    }
    for number in 0..20_u32 {
        let id = 2 * number + 1;
        stream
            .write_all(&frame(HEADERS, END_HEADERS, id, &head_of(CHECK)))
            .unwrap();
        stream
            .write_all(&frame(DATA, END_STREAM, id, &message(b"")))
            .unwrap();
    }
    for _ in 0..20 {
        read_until(&mut stream, RST_STREAM);
    }
    asks(&server);
}

#[test]
fn whoever_does_not_read_is_hung_up_on() {
    let server = server(&[]);
    let mut stream = raw(&server);
    // As large a window as there is, on the connection and on streams.
    let most = 0x7fff_ffff_u32.to_be_bytes();
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &most].concat()))
        .unwrap();
    stream
        .write_all(&frame(8, 0, 0, &(0x7fff_ffff_u32 - 65_535).to_be_bytes()))
        .unwrap();
    let before = memory(&server);
    let begun = Instant::now();
    let mut id = 1_u32;
    let error = loop {
        let mut calls = Vec::new();
        for _ in 0..100 {
            calls.extend(frame(HEADERS, END_HEADERS, id, &head_of(CHECK)));
            calls.extend(frame(DATA, END_STREAM, id, &message(b"")));
            id += 2;
        }
        if let Err(error) = stream.write_all(&calls) {
            break error;
        }
        assert!(begun.elapsed() < 4 * DEADLINE, "it is still listened to");
    };
    assert_ne!(error.kind(), ErrorKind::WouldBlock, "it is still open");
    assert!(begun.elapsed() > Duration::from_secs(5), "it was given some time");
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 20 << 20, "{} MiB more", grown >> 20);
    asks(&server);
}
