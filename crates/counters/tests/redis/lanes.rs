//! Lanes: calls in one don't take the places of another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;
use tollgate_counters::redis::{Link, Parts, Redis, Why};

use crate::node::{COUNT, Outcome, count, not_run, outcome, settings, until};
use crate::proxy::Proxy;
use crate::servers::Server;

/// Counts a key in a lane.
fn send(redis: &Redis, lane: usize) -> oneshot::Receiver<Outcome> {
    let (sender, receiver) = oneshot::channel();
    let build = |_: &Link| {
        let mut parts = Parts::new();
        parts.key("a");
        parts
    };
    redis.call_in_lane(0, lane, &COUNT, build, |outcome| {
        let _ = sender.send(outcome);
    });
    receiver
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_lane_leaves_the_others_alone() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let mut settings = settings(&proxy.url());
    settings.in_lane = 3;
    let redis = Redis::connect(settings).await.unwrap();
    assert!(count(&redis, "before").await.is_ok());
    proxy.hold();
    let calls: Vec<_> = (0..8).map(|_| send(&redis, 1)).collect();
    until("the lane to be full", async || server.run(&["GET", "a"]) == "3").await;
    // Another one is free, and so is the way of calls without one.
    let other = send(&redis, 2);
    let none = crate::node::send(&redis, &COUNT, &["a"]);
    until("both to be executed", async || server.run(&["GET", "a"]) == "5").await;
    assert_eq!(redis.health()[0].in_flight, 5);
    // Who waits for a turn in vain is not run.
    let full = Arc::new(AtomicUsize::new(0));
    let ended = calls.into_iter().map(|call| {
        let full = full.clone();
        tokio::spawn(async move {
            match outcome(call).await {
                Ok(_) => true,
                refused => {
                    assert_eq!(refused, not_run(Why::Full));
                    full.fetch_add(1, Ordering::Relaxed);
                    false
                }
            }
        })
    });
    let ended: Vec<_> = ended.collect();
    until("the others to have waited in vain", async || {
        full.load(Ordering::Relaxed) == 5
    })
    .await;
    proxy.pass();
    let mut ran = 0;
    for one in ended {
        ran += usize::from(one.await.unwrap());
    }
    assert_eq!(ran, 3);
    for call in [other, none] {
        assert!(outcome(call).await.is_ok());
    }
    // Turns are given back.
    for _ in 0..8 {
        assert!(outcome(send(&redis, 1)).await.is_ok());
    }
}
