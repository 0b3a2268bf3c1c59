//! What one client may take up, and how it ends.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::common::{DEADLINE, wait_for};
use crate::{Wire, packed, start};

#[test]
fn what_is_no_command_is_answered_and_the_connection_closed() {
    let server = start(&[]);
    for (bytes, why) in [
        ("*1\r\n+PING\r\n", "expected '$', got '+'"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$100000000\r\n", "invalid bulk length"),
        ("*1000000\r\n", "invalid multibulk length"),
        (&"a".repeat(20_000), "too big inline request"),
    ] {
        let mut wire = Wire::to(&server);
        wire.send(format!("{}{bytes}", packed(&["PING"])));
        assert_eq!(wire.rest(), format!("+PONG\r\n-ERR Protocol error: {why}\r\n"));
    }
    Wire::to(&server).asks(&["PING"], "+PONG\r\n");
}

#[test]
fn connections_past_the_bound_wait_for_their_turn() {
    let server = start(&["--max-connections", "1"]);
    let mut first = Wire::to(&server);
    first.asks(&["PING"], "+PONG\r\n");
    let mut second = Wire::to(&server);
    second.send(packed(&["PING"]));
    first.asks(&["QUIT"], "+OK\r\n");
    drop(first);
    second.says("+PONG\r\n");
}

#[test]
fn a_client_that_does_not_read_is_not_read_from_without_end() {
    let server = start(&["--threads", "1"]);
    let wire = Wire::to(&server);
    wire.0.set_nonblocking(true).unwrap();
    let ask = packed(&["ECHO", &"a".repeat(60_000)]).repeat(16);
    // The server stops reading once its answers are not taken, and the kernel's buffers are full.
    let sent = wait_for("the server to read no more", || {
        let mut sent = 0;
        while let Ok(count) = (&wire.0).write(ask.as_bytes()) {
            sent += count;
            assert!(sent < 256 << 20, "{sent} bytes were taken");
        }
        Some(sent)
    });
    assert!(sent > 0);
    // Others on the same thread are served meanwhile.
    Wire::to(&server).asks(&["PING"], "+PONG\r\n");
}

#[test]
fn a_signal_ends_it_after_what_has_arrived_is_answered() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    wire.asks(&["PING"], "+PONG\r\n");
    server.terminate();
    assert_eq!(wire.rest(), "");
    assert!(server.wait().success());
}

#[test]
fn a_command_that_trickles_in_is_not_waited_for_longer_than_one_that_stops() {
    let server = start(&[]);
    let mut wire = Wire::to(&server);
    wire.asks(&["PING"], "+PONG\r\n");
    wire.send("*2\r\n$4\r\nECHO\r\n$60000\r\n");
    let started = Instant::now();
    // Each wait for an answer that does not come spaces the bytes apart.
    wire.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let closed = |wire: &mut Wire| match wire.0.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    while wire.0.write_all(b"a").is_ok() && !closed(&mut wire) {
        assert!(started.elapsed() < DEADLINE, "it is still waited for");
    }
    assert!(started.elapsed() > Duration::from_secs(8), "it had its time");
}
