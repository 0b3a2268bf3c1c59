//! A real server on free loopback ports, and a client that shows every byte it answers.
//!
//! Nothing here knows what a test is about. A server lives as long as its handle; whatever is waited for has
//! a deadline, so that a test that would hang fails instead.
#![allow(
    dead_code,
    unused_imports,
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used
)]

pub mod admin;
pub mod clock;
pub mod http;
pub mod process;
pub mod server;

pub use admin::Admin;
pub use http::{Answer, Ask};
pub use process::{Finished, run, run_with};
pub use server::{Launch, Server};

use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Looks again and again until there is something to see.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    // Nothing is ever sent: the channel only lets time pass between two looks.
    let (_silent, pause) = std::sync::mpsc::channel::<()>();
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < DEADLINE, "waited in vain for {what}");
        let _ = pause.recv_timeout(Duration::from_millis(10));
    }
}

/// A zone in which it is about noon, so that no day, week or month ends while a test runs.
pub fn noon_zone() -> String {
    let hour = i64::try_from(tollgate::clock::now().seconds() % 86_400 / 3_600).unwrap();
    // The names of these zones count westwards.
    match hour - 12 {
        0 => "UTC".to_owned(),
        west => format!("Etc/GMT{west:+}"),
    }
}

/// One policy of a file: a count of `limit` in an hour that begins with the first request.
pub fn hourly(id: &str, scope: &str, limit: u64, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { ", " };
    format!(
        "{{id: {id}, scope: {scope}, algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h{comma}{rest}}}"
    )
}

/// A policy file with nothing but these policies.
pub fn file_of(policies: &[String]) -> String {
    let lines: Vec<String> = policies.iter().map(|policy| format!("  - {policy}\n")).collect();
    format!("policies:\n{}", lines.concat())
}
