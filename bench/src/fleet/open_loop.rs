//! Checks sent at a pace that does not wait for answers, as callers who know nothing of each other do.
//!
//! If the answer before is late, a wait is counted from when the check was due, not from when it could be sent: a server
//! that makes everybody wait for a while makes all wait who come meanwhile. That this program's timer is a little late is
//! not the server's doing.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rounds::Shuffled;

/// Each is for itself; a pace is shared by all.
const CONNECTIONS: u32 = 64;
/// Of a hundred checks, so many are by one of a few callers.
const HOT: usize = 90;
const HOT_CALLERS: usize = 100;
const COLD_CALLERS: usize = 1_000_000;

/// How long checks took, from the shortest to the longest.
pub(super) struct Times(Vec<Duration>);

impl Times {
    /// The time that so many of a thousand did not take longer than.
    pub(super) fn at(&self, thousandths: usize) -> Duration {
        self.0[(self.0.len() * thousandths / 1000).min(self.0.len() - 1)]
    }
}

/// Sends checks to a server for so long.
pub(super) async fn run(address: SocketAddr, per_second: u32, lasting: Duration) -> Times {
    let started = Instant::now() + Duration::from_millis(50);
    let every = Duration::from_secs(1) * CONNECTIONS / per_second;
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..CONNECTIONS {
        let first = started + every * number / CONNECTIONS;
        asking.spawn(connection(address, number, first, every, started + lasting));
    }
    let mut times = Vec::new();
    while let Some(done) = asking.join_next().await {
        times.extend(done.expect("answers"));
    }
    times.sort_unstable();
    Times(times)
}

async fn connection(
    address: SocketAddr,
    number: u32,
    first: Instant,
    every: Duration,
    end: Instant,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    let (mut order, mut times) = (Shuffled::of(u64::from(number)), Vec::new());
    let (mut due, mut answer) = (first, Vec::with_capacity(4096));
    while due < end {
        let mut counted_from = due;
        if Instant::now() < due {
            tokio::time::sleep_until(due.into()).await;
            counted_from = Instant::now();
        }
        let caller = if order.below(100) < HOT {
            order.below(HOT_CALLERS)
        } else {
            order.below(COLD_CALLERS)
        };
        let org = caller % 1000;
        let body = format!(
            r#"{{"orgId":"org-{org}","appId":"web","keyId":"key-{caller}","endpoint":"GET /v1/records"}}"#
        );
        let request = format!(
            "POST /v1/check HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        read_answer(&mut stream, &mut answer).await;
        times.push(counted_from.elapsed());
        due += every;
    }
    times
}

/// Reads one answer, which must be a decision that lets through.
async fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) {
    answer.clear();
    loop {
        assert!(
            stream.read_buf(answer).await.expect("read") > 0,
            "the server hung up"
        );
        let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length
            .and_then(|length| length.trim().parse().ok())
            .expect("a length");
        if answer.len() >= end + 4 + length {
            return;
        }
    }
}
