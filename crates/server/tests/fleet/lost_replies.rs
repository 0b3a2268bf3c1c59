//! Replies of Redis are lost after it has run the call: nothing is repeated, nothing is credited twice, and service goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::common::wait_for;
use crate::load::{ORG, hammer_at, node};
use crate::proxy::Proxy;
use crate::servers;

const LIMIT: u64 = 20_000;

#[test]
fn connections_that_are_cut_after_a_call_was_run() {
    let rounds = lose_replies("fixed_window, window: 366d", Proxy::lose, 10);
    assert!(rounds.allowed <= LIMIT, "{rounds:?}");
}

#[test]
fn replies_that_never_come() {
    let rounds = lose_replies("fixed_window, window: 366d", Proxy::swallow, 1);
    assert!(rounds.allowed <= LIMIT, "{rounds:?}");
}

#[test]
fn cut_connections_of_a_sliding_log() {
    let rounds = lose_replies("sliding_window_log, window: 1h", Proxy::lose, 5);
    assert!(rounds.allowed <= LIMIT, "{rounds:?}");
}

#[test]
fn cut_connections_of_a_bucket() {
    // It refills by a token every three seconds.
    let rounds = lose_replies("token_bucket, window: 60000s", Proxy::lose, 5);
    let refilled = rounds.took.as_secs() / 3 + 1;
    assert!(rounds.allowed <= LIMIT + refilled, "{rounds:?}");
}

/// Loses the replies of the calls under way, again and again, while one node is asked as fast as it goes. Another one,
/// which has lost none, sees what was counted.
fn lose_replies(algorithm: &str, lose: fn(&Proxy), rounds: usize) -> crate::load::Tally {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let policies = format!(
        "policies:\n  - {{id: p, scope: org, limit: {LIMIT}, failMode: closed, algorithm: {algorithm}}}\n"
    );
    let (first, second) = (node(&policies, &proxy.url()), node(&policies, &redis.url()));
    let over = AtomicBool::new(false);
    let tally = std::thread::scope(|scope| {
        let enough = |tally: &crate::load::Tally| over.load(Ordering::Relaxed) && tally.denied > 50;
        let load = scope.spawn(move || hammer_at(&[first.http], "p", enough));
        for _ in 0..rounds {
            let (already, accepted) = (proxy.lost(), proxy.accepted());
            lose(&proxy);
            wait_for("a reply to be lost", || (proxy.lost() > already).then_some(()));
            proxy.pass();
            wait_for("another connection", || {
                (proxy.accepted() > accepted).then_some(())
            });
        }
        over.store(true, Ordering::Relaxed);
        load.join().unwrap()
    });
    let left = second.left("p", &json!({"orgId": ORG}));
    println!(
        "{algorithm}: {} of {LIMIT} let through with {} replies lost, {} refused meanwhile; {left} left",
        tally.allowed,
        proxy.lost(),
        tally.unavailable,
    );
    assert!(tally.allowed > 0 && tally.unavailable > 0, "{tally:?}");
    // Whatever was let through has been counted; what a lost reply lent is counted and was not spent.
    assert!(
        left <= LIMIT - tally.allowed.min(LIMIT) + tally.took.as_secs() / 3 + 1,
        "{tally:?}"
    );
    tally
}
