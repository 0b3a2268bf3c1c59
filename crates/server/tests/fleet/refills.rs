//! Buckets refill while Redis is unavailable, too: after an outage they are as full as exact arithmetic says.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::wait_for;
use crate::load::{ORG, nodes};
use crate::servers;

const LIMIT: f64 = 60.0;
const BURST: f64 = 300.0;
/// Nodes round what they owe up, clocks differ, and machines stand still for a moment.
const TOLERANCE: f64 = BURST / 10.0;

/// A bucket by exact arithmetic, from when each request was sent and answered: no less is owed than the first, no more than
/// the second.
#[derive(Default)]
struct Bucket {
    owed: f64,
    at: Option<Instant>,
}

impl Bucket {
    fn owed(&self, now: Instant) -> f64 {
        let elapsed = self
            .at
            .map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        (self.owed - LIMIT * elapsed).max(0.0)
    }

    fn charge(&mut self, now: Instant) {
        (self.owed, self.at) = (self.owed(now) + 1.0, Some(now));
    }
}

#[test]
fn a_bucket_is_as_full_after_an_outage_as_arithmetic_says() {
    let redis = servers::Server::start();
    let policy = format!(
        "{{id: p, scope: org, algorithm: token_bucket, limit: {LIMIT}, burst: {BURST}, window: 1s, accuracy: exact, failMode: local}}"
    );
    let nodes = nodes::<3>(&[policy], &redis.url());
    let ask = |node: usize, cost: u64| -> (Instant, Value, Instant) {
        let sent = Instant::now();
        let decision = nodes[node].check(&json!({"orgId": ORG, "cost": cost})).json();
        (sent, decision, Instant::now())
    };
    for (place, node) in nodes.iter().enumerate() {
        wait_for("all nodes to be known", || {
            (node.counted("tollgate_fleet_nodes{region=\"local\"}") == 3).then_some(())
        });
        assert_eq!(ask(place, 1).1["degraded"], false);
    }
    redis.pause();
    // Each node lets its share of the burst through, and then one after the other.
    let (mut early, mut late) = (Bucket::default(), Bucket::default());
    let (mut admitted, mut refused) = (0, [false; 3]);
    let began = Instant::now();
    wait_for("some of it to drain", || {
        for (node, refused) in refused.iter_mut().enumerate().filter(|(_, refused)| !**refused) {
            let (sent, decision, answered) = ask(node, 1);
            assert_eq!(decision["degraded"], true, "{decision}");
            if decision["allowed"] == true {
                early.charge(sent);
                late.charge(answered);
                admitted += 1;
            } else {
                // What it gets from then on is little, and would make the test depend on how fast it asks.
                *refused = true;
            }
        }
        (began.elapsed() > Duration::from_secs(3)).then_some(())
    });
    assert!(admitted >= 200, "seven tenths of the burst: {admitted}");
    redis.resume();
    // Each tells Redis with its first call.
    for node in 0..3 {
        wait_for("Redis", || (ask(node, 0).1["degraded"] == false).then_some(()));
    }
    let (sent, decision, answered) = ask(0, 0);
    let left = decision["limits"][0]["remaining"].as_f64().unwrap();
    let (most, least) = (BURST - early.owed(answered), BURST - late.owed(sent));
    println!("{admitted} were let through, and {left} are left of {least:.1} to {most:.1}");
    assert!(left >= least - TOLERANCE, "{left} are left, not {least}");
    assert!(left <= most + TOLERANCE, "{left} are left, not {most}");
    assert!(most < BURST, "there is something to see: {most}");
}
