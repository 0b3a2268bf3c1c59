//! What nobody should send: the server answers it, or closes, and lives.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::json;
use tonic::Code;

use crate::asker::{Asker, codes, descriptor, edge};
use crate::common::{DEADLINE, Server, file_of, hourly, wait_for};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, frame, head, head_of, message,
    question, raw, read_until,
};

fn server() -> Server {
    Server::start(&file_of(&[hourly("org", "org", 5, "")]), &[])
}

fn lives(server: &Server) {
    assert!(Asker::of(server).codes(vec![descriptor(&[("org", "after")])]).0);
}

/// What the server's process takes of the memory, in bytes.
fn memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn ten_thousand_descriptors_are_refused() {
    let server = server();
    let asker = Asker::of(&server);
    let short = descriptor(&[("a", "b")]);
    let status = asker.envoy(edge(vec![short.clone(); 10_000])).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("at most 100 descriptors"), "{status:?}");
    let long = descriptor(&[("remote_address", "203.0.113.9"), ("path", "/some/longer/path")]);
    let status = asker.envoy(edge(vec![long; 10_000])).unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert_eq!(codes(&asker.descriptors(vec![short; 100])).1.len(), 100);
    let many: Vec<(String, String)> = (0..33).map(|n| (format!("k{n}"), String::new())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(key, value)| (&**key, &**value)).collect();
    let status = asker.envoy(edge(vec![descriptor(&many)])).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    lives(&server);
}

#[test]
fn long_strings_are_refused() {
    let server = server();
    let asker = Asker::of(&server);
    let mib = "x".repeat(1 << 20);
    for question in [
        edge(vec![descriptor(&[("a", &mib)])]),
        edge(vec![descriptor(&[(&mib, "a")])]),
    ] {
        assert_eq!(asker.envoy(question).unwrap_err().code(), Code::OutOfRange);
    }
    let value = "x".repeat(8193);
    let answer = asker.descriptors(vec![descriptor(&[("a", &value)])]);
    assert_eq!(codes(&answer), (false, vec![false]));
    assert!(answer.raw_body.len() < 400, "it is not repeated");
    let check = tollgate_proto::v1::CheckLimitRequest {
        org_id: Some(mib),
        ..Default::default()
    };
    assert!(matches!(
        asker.check(check).unwrap_err().code(),
        Code::OutOfRange | Code::InvalidArgument
    ));
    lives(&server);
}

#[test]
fn many_tiny_descriptors_take_no_lasting_memory() {
    let server = server();
    let asker = Asker::of(&server);
    lives(&server);
    let before = memory(&server);
    // Two bytes each: as many as a message can hold.
    let tiny = edge(vec![descriptor(&[]); 60_000]);
    for _ in 0..50 {
        assert_eq!(
            asker.envoy(tiny.clone()).unwrap_err().code(),
            Code::InvalidArgument
        );
    }
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes more");
}

#[test]
fn malformed_messages_get_a_status() {
    let server = server();
    for body in [
        &[0xff; 64][..],
        &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0x12, 0x05, 0x0a, 0x03, 0x0a, 0x01],
        &[0x0a, 0x02, 0xc3, 0x28],
        &[
            0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ],
    ] {
        let mut stream = raw(&server);
        stream
            .write_all(&frame(HEADERS, END_HEADERS, 1, &head()))
            .unwrap();
        stream
            .write_all(&frame(DATA, END_STREAM, 1, &message(body)))
            .unwrap();
        let answer = read_until(&mut stream, HEADERS);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.len() > 9, "{text}");
    }
    // A length that does not come, and one that is said to be compressed.
    for start in [&[0, 0, 0, 1, 0][..], &[1, 0, 0, 0, 0]] {
        let mut stream = raw(&server);
        stream
            .write_all(&frame(HEADERS, END_HEADERS, 1, &head()))
            .unwrap();
        stream.write_all(&frame(DATA, END_STREAM, 1, start)).unwrap();
        read_until(&mut stream, HEADERS);
    }
    lives(&server);
}

/// A question that is taken back at once.
fn given_up(id: u32) -> Vec<u8> {
    let mut frames = frame(HEADERS, END_HEADERS, id, &head());
    frames.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    frames
}

#[test]
fn as_many_as_may_ask_may_give_up_waiting_at_once() {
    let server = server();
    let mut stream = raw(&server);
    // In one piece, as they lie there after a moment in which nothing was read.
    let mut arrived = Vec::new();
    for number in 0..1000_u32 {
        arrived.extend(given_up(2 * number + 1));
    }
    arrived.extend(frame(HEADERS, END_HEADERS, 2001, &head()));
    arrived.extend(frame(DATA, END_STREAM, 2001, &message(&question("patient"))));
    stream.write_all(&arrived).unwrap();
    read_until(&mut stream, DATA);
    assert_eq!(server.left("org", &json!({"orgId": "patient"})), 4);
}

#[test]
fn streams_that_are_reset_at_once_end_the_connection_and_nothing_else() {
    let server = server();
    let mut stream = raw(&server);
    // As short as can be, so that many arrive at once: `POST`, `http` and `/`.
    let short = [0x83, 0x86, 0x84];
    let mut flood = Vec::new();
    for number in 0..20_000_u32 {
        let id = 2 * number + 1;
        flood.extend(frame(HEADERS, END_HEADERS, id, &short));
        flood.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
    }
    // The server may have closed before all is written.
    let _ = stream.write_all(&flood);
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(
        matches!(ended, Ok(_) | Err(ErrorKind::ConnectionReset)),
        "{ended:?}"
    );
    assert!(!rest.is_empty(), "it says why it closes");
    lives(&server);
}

#[test]
fn more_streams_than_may_be_are_refused() {
    let server = server();
    let mut stream = raw(&server);
    let settings = read_until(&mut stream, SETTINGS);
    let most = settings
        .chunks(6)
        .find(|one| one[..2] == [0, 3])
        .map(|one| u32::from_be_bytes(one[2..].try_into().unwrap()));
    assert_eq!(most, Some(1024), "it says how many");
    for number in 0..1100_u32 {
        stream
            .write_all(&frame(HEADERS, END_HEADERS, 2 * number + 1, &head()))
            .unwrap();
    }
    // Refused streams are reset; the others wait for their message.
    read_until(&mut stream, RST_STREAM);
    lives(&server);
}

/// Large answers are under way until they are taken: what is not is bounded, and not kept for ever.
#[test]
fn large_answers_that_nobody_takes_are_not_kept() {
    let policies: Vec<String> = (0..20)
        .map(|number| {
            hourly(
                &format!("a-policy-of-some-length-{number}"),
                "org",
                100_000_000,
                "",
            )
        })
        .collect();
    let server = Server::start(&file_of(&policies), &[]);
    lives(&server);
    let check = tollgate_proto::v1::CheckLimitRequest {
        org_id: Some("acme".to_owned()),
        with_headers: Some(true),
        ..Default::default()
    };
    let batch = tollgate_proto::v1::CheckLimitsRequest {
        requests: vec![check; 500],
    };
    let asked = message(&tollgate_proto::Message::encode_to_vec(&batch));
    let mut stream = raw(&server);
    // Streams begin with a window of nothing.
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]))
        .unwrap();
    // Its own, and that it has heard of both of ours: from here on they hold.
    for _ in 0..3 {
        read_until(&mut stream, SETTINGS);
    }
    let before = memory(&server);
    for number in 0..40_u32 {
        let id = 2 * number + 1;
        let path = b"/tollgate.v1.RateLimiter/CheckLimits";
        stream
            .write_all(&frame(HEADERS, END_HEADERS, id, &head_of(path)))
            .unwrap();
        for piece in asked.chunks(16_000) {
            stream.write_all(&frame(DATA, 0, id, piece)).unwrap();
        }
        stream.write_all(&frame(DATA, END_STREAM, id, &[])).unwrap();
    }
    // Whoever does not take them is given up.
    for _ in 0..40 {
        read_until(&mut stream, RST_STREAM);
    }
    let kept = memory(&server).saturating_sub(before);
    assert!(kept < 60 << 20, "{kept} bytes more");
    lives(&server);
}

#[test]
fn who_reads_nothing_is_not_written_to_without_end() {
    let server = server();
    lives(&server);
    let before = memory(&server);
    let mut slow: Vec<TcpStream> = (0..20).map(|_| raw(&server)).collect();
    let question = question("slow");
    for stream in &mut slow {
        stream.set_nonblocking(true).unwrap();
        for number in 0..2000_u32 {
            let id = 2 * number + 1;
            let mut asked = frame(HEADERS, END_HEADERS, id, &head());
            asked.extend(frame(DATA, END_STREAM, id, &message(&question)));
            if stream.write_all(&asked).is_err() {
                break;
            }
        }
    }
    let asker = Asker::of(&server);
    wait_for("an answer in time", || {
        asker.envoy(edge(vec![descriptor(&[("org", "other")])])).ok()
    });
    let grown = memory(&server).saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
    drop(slow);
    lives(&server);
}

#[test]
fn a_message_that_does_not_come_is_not_waited_for() {
    let server = server();
    let mut stream = raw(&server);
    stream
        .write_all(&frame(HEADERS, END_HEADERS, 1, &head()))
        .unwrap();
    stream.set_read_timeout(Some(2 * DEADLINE)).unwrap();
    let started = std::time::Instant::now();
    read_until(&mut stream, HEADERS);
    assert!(started.elapsed() < DEADLINE, "an answer without the message");
    // What was not asked is not charged.
    assert_eq!(server.left("org", &json!({"orgId": "slow"})), 5);
}

#[test]
fn another_protocol_is_hung_up_on() {
    let server = server();
    let mut stream = crate::common::http::connect(server.grpc);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let mut stream = raw(&server);
    stream.write_all(&frame(DATA, 0, 1, b"before any head")).unwrap();
    read_until(&mut stream, GOAWAY);
    lives(&server);
}
