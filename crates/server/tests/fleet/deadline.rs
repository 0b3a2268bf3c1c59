//! `--redis-deadline`: how long a request waits for Redis, however far that is and however many slots are asked.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Launch, Server, wait_for};
use crate::load::ORG;
use crate::proxy::Proxy;
use crate::servers;

/// A node whose requests wait so many milliseconds for the Redis behind a proxy.
fn node(policies: &str, proxy: &Proxy, deadline: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(policies),
        flags: &[
            "--redis",
            &proxy.url(),
            "--threads",
            "1",
            "--redis-deadline",
            deadline,
        ],
        ..Launch::default()
    })
}

fn policy(id: &str, scope: &str) -> String {
    format!(
        "  - {{id: {id}, scope: {scope}, algorithm: fixed_window, limit: 1000000, window: 366d, accuracy: exact, failMode: open}}\n"
    )
}

/// Asks until Redis has decided once: then the node has joined.
fn joined(node: &Server, body: &Value) {
    wait_for("Redis to decide", || {
        (node.allowed(body)["degraded"] == false).then_some(())
    });
}

/// How long a decision took, and whether a fallback made it.
fn timed(node: &Server, body: &Value) -> (Duration, bool) {
    let asked = Instant::now();
    let decision = node.allowed(body);
    (asked.elapsed(), decision["degraded"] == true)
}

#[test]
fn a_distant_redis_decides_within_the_deadline() {
    for (delay, deadline) in [(30, "250"), (100, "800")] {
        let redis = servers::Server::start();
        let proxy = Proxy::before(redis.port);
        proxy.delay(Duration::from_millis(delay));
        let file = format!("policies:\n{}", policy("p", "org"));
        let nodes = [node(&file, &proxy, deadline), node(&file, &proxy, deadline)];
        let body = json!({"orgId": ORG});
        for node in &nodes {
            joined(node, &body);
            wait_for("both nodes to be known", || {
                (node.counted("tollgate_fleet_nodes{region=\"local\"}") == 2).then_some(())
            });
        }
        let fallbacks = (0..20).filter(|_| timed(&nodes[0], &body).1).count();
        println!("{delay} ms away: {fallbacks} of 20 by fallback");
        assert!(fallbacks <= 4, "{fallbacks} of 20 were decided without Redis");
    }
}

#[test]
fn every_slot_of_a_stack_shares_one_deadline() {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let scopes = [("g", "global"), ("e", "endpoint"), ("i", "ip"), ("o", "org")];
    let file: String = scopes.iter().map(|(id, scope)| policy(id, scope)).collect();
    // One trip is within it, and two are not.
    let node = node(&format!("policies:\n{file}"), &proxy, "25");
    let body = json!({"orgId": ORG, "ip": "192.0.2.1", "endpoint": "GET /a"});
    joined(&node, &body);
    proxy.delay(Duration::from_millis(15));
    let asked: Vec<(Duration, bool)> = (0..10).map(|_| timed(&node, &body)).collect();
    println!("{asked:?}");
    assert!(
        asked.iter().all(|(_, degraded)| *degraded),
        "waited for four trips, each with a deadline of its own: {asked:?}"
    );
    let quickest = asked.iter().map(|(took, _)| *took).min().unwrap();
    assert!(
        quickest < Duration::from_millis(60),
        "{quickest:?}: as long as four trips"
    );
}

#[test]
fn the_time_that_has_passed_counts() {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let node = node(&format!("policies:\n{}", policy("p", "org")), &proxy, "13");
    let body = json!({"orgId": ORG});
    joined(&node, &body);
    // Later than the deadline, though not by half.
    proxy.delay(Duration::from_millis(18));
    let fallbacks = (0..40).filter(|_| timed(&node, &body).1).count();
    println!("{fallbacks} of 40 by fallback");
    assert!(
        fallbacks > 20,
        "only {fallbacks} of 40 did not wait for longer than the deadline"
    );
}
