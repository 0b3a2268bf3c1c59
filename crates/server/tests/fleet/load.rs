//! Nodes, and callers that ask as fast as they can.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::http::connect;
use crate::common::{Answer, DEADLINE, Launch, Server, file_of};

/// The org of these tests.
pub const ORG: &str = "acme";

/// Starts a node on a policy file.
pub fn node(policies: &str, redis: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(policies),
        flags: &["--redis", redis, "--threads", "1"],
        ..Launch::default()
    })
}

/// Starts so many nodes at the same moment.
pub fn nodes<const N: usize>(policies: &[String], redis: &str) -> [Server; N] {
    let policies = file_of(policies);
    std::thread::scope(|scope| {
        let all = [(); N].map(|()| scope.spawn(|| node(&policies, redis)));
        all.map(|one| one.join().unwrap())
    })
}

/// What callers were told.
#[derive(Debug, Default)]
pub struct Tally {
    pub allowed: u64,
    pub denied: u64,
    pub unavailable: u64,
    pub degraded: u64,
    /// What was allowed of the policy that was asked about, by the end of its window.
    pub windows: BTreeMap<String, u64>,
    /// From before the first request until after the last.
    pub took: Duration,
}

impl Tally {
    fn add(&mut self, answer: &Answer, policy: &str) {
        match answer.status {
            200 => {
                let decision: Value = answer.json();
                self.allowed += 1;
                self.degraded += u64::from(decision["degraded"] == true);
                let limits = decision["limits"].as_array().unwrap();
                let limit = limits.iter().find(|limit| limit["policyId"] == policy);
                let end = limit.map(|limit| limit["resetAt"].to_string());
                *self.windows.entry(end.unwrap_or_default()).or_default() += 1;
            }
            429 => self.denied += 1,
            503 => self.unavailable += 1,
            other => panic!("{other}: {}", answer.text()),
        }
    }

    fn join(mut self, other: Self) -> Self {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.unavailable += other.unavailable;
        self.degraded += other.degraded;
        for (end, count) in other.windows {
            *self.windows.entry(end).or_default() += count;
        }
        self
    }
}

/// Two callers of each node ask for an org's decision until `until` is true of what one of them was told.
pub fn hammer(nodes: &[&Server], policy: &str, until: impl Fn(&Tally) -> bool + Sync) -> Tally {
    let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.http).collect();
    hammer_at(&addresses, policy, until)
}

/// The same for nodes at these addresses.
pub fn hammer_at(addresses: &[SocketAddr], policy: &str, until: impl Fn(&Tally) -> bool + Sync) -> Tally {
    let enough = AtomicBool::new(false);
    let began = Instant::now();
    let tallies = std::thread::scope(|scope| {
        let both = addresses.iter().chain(addresses);
        let callers: Vec<_> = both
            .map(|address| scope.spawn(|| call(*address, policy, &enough, &until)))
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect::<Vec<_>>()
    });
    let mut tally = tallies.into_iter().fold(Tally::default(), Tally::join);
    tally.took = began.elapsed();
    tally
}

fn call(address: SocketAddr, policy: &str, enough: &AtomicBool, until: &impl Fn(&Tally) -> bool) -> Tally {
    let mut tally = Tally::default();
    let mut stream = connect(address);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let body = format!(r#"{{"orgId":"{ORG}","appId":"web","keyId":"k1"}}"#);
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let began = Instant::now();
    while !enough.load(Ordering::Relaxed) {
        stream.write_all(request.as_bytes()).unwrap();
        tally.add(&Answer::read(&mut reader, "POST"), policy);
        tally.took = began.elapsed();
        assert!(tally.took < 3 * DEADLINE, "it is never enough: {tally:?}");
        if until(&tally) {
            enough.store(true, Ordering::Relaxed);
        }
    }
    tally
}
