//! One limit for three nodes, each algorithm, asked as fast as the machine can. Without a fallback: what Redis is too slow
//! to decide on a busy machine is refused.

use std::time::Duration;

use crate::common::noon_zone;
use crate::load::{hammer, nodes};
use crate::servers;

const LIMIT: u64 = 5_000;

/// A window that does not end while the test runs: exactly the limit may pass.
fn one_window(algorithm: &str, window: &str, rest: &str) {
    let redis = servers::Server::start();
    let policy = format!(
        "{{id: p, scope: org, algorithm: {algorithm}, limit: {LIMIT}, window: {window}, failMode: closed{rest}}}"
    );
    let nodes = nodes::<3>(&[policy], &redis.url());
    let tally = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 300);
    println!(
        "{algorithm}{rest}: {} of {LIMIT}, shortfall {}",
        tally.allowed,
        LIMIT - tally.allowed.min(LIMIT)
    );
    assert!(tally.allowed <= LIMIT, "{tally:?}");
    assert!(tally.allowed * 100 >= LIMIT * 95, "{tally:?}");
}

#[test]
fn fixed_window_from_the_first_request() {
    one_window("fixed_window", "1h", ", anchor: first");
}

#[test]
fn sliding_log() {
    one_window("sliding_window_log", "1h", "");
}

#[test]
fn sliding_counter() {
    // Windows of a day: none ends while the test runs, unless it runs at midnight.
    one_window("sliding_window_counter", "366d", "");
}

#[test]
fn quota() {
    one_window("quota", "day", &format!(", timezone: {}", noon_zone()));
}

#[test]
fn exact_window() {
    one_window("fixed_window", "1h", ", anchor: first, accuracy: exact");
}

#[test]
fn windows_of_a_second() {
    let redis = servers::Server::start();
    let policy =
        "{id: p, scope: org, algorithm: fixed_window, limit: 400, window: 1s, failMode: closed}".to_owned();
    let nodes = nodes::<3>(&[policy], &redis.url());
    let tally = hammer(&nodes.each_ref(), "p", |tally| {
        tally.took > Duration::from_secs(4)
    });
    println!("{:?}", tally.windows);
    assert!(tally.windows.len() > 2, "{tally:?}");
    assert!(tally.windows.values().all(|count| *count <= 400), "{tally:?}");
}

/// A bucket admits its burst and what refills.
fn bucket(algorithm: &str, rest: &str) {
    let redis = servers::Server::start();
    let policy = format!(
        "{{id: p, scope: org, algorithm: {algorithm}, limit: 500, window: 1s, burst: 1000, failMode: closed{rest}}}"
    );
    let nodes = nodes::<3>(&[policy], &redis.url());
    let tally = hammer(&nodes.each_ref(), "p", |tally| {
        tally.took > Duration::from_secs(3)
    });
    let most = 1_000.0 + 500.0 * tally.took.as_secs_f64();
    println!("{algorithm}{rest}: {} of at most {most:.0}", tally.allowed);
    assert!(tally.denied > 0, "{tally:?}");
    assert!(tally.allowed as f64 <= most, "{tally:?}");
    assert!(tally.allowed as f64 >= most * 0.9, "{tally:?}");
}

#[test]
fn token_bucket() {
    bucket("token_bucket", "");
}

#[test]
fn leaky_bucket() {
    bucket("leaky_bucket", "");
}

#[test]
fn exact_bucket() {
    bucket("token_bucket", ", accuracy: exact");
}

#[test]
fn a_stack_with_levels_that_span_orgs() {
    let redis = servers::Server::start();
    let policies = [
        "{id: all, scope: global, algorithm: fixed_window, anchor: first, limit: 3000, window: 1h, failMode: closed}",
        "{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: 4000, window: 1h, failMode: closed}",
        "{id: key, scope: key, algorithm: fixed_window, anchor: first, limit: 5000, window: 1h, failMode: closed}",
    ];
    let nodes = nodes::<3>(&policies.map(str::to_owned), &redis.url());
    let tally = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 300);
    println!("all: {} of 3000", tally.allowed);
    assert!(tally.allowed <= 3_000 && tally.allowed >= 2_700, "{tally:?}");
}
