//! A fleet on Redis with one PostgreSQL: quotas rest on the ledger, and everything else in Redis.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::common::server::{limit, remaining};
use crate::common::{Launch, Server, file_of, hourly, wait_for};
use crate::load::Load;
use crate::postgres::Postgres;
use crate::servers;
use crate::world::{left, org, quota, spend};

/// A node of the fleet.
fn node(database: &str, redis: &str, policies: &[String]) -> Server {
    Server::launch(&Launch {
        policies: Some(&file_of(policies)),
        flags: &["--threads", "1", "--database", database, "--redis", redis],
        ..Launch::default()
    })
}

/// A rate that is used up when Redis forgets it, and full again soon.
fn fast(rest: &str) -> String {
    format!("{{id: rate, scope: org, algorithm: token_bucket, limit: 1000000, window: 1s, {rest}}}")
}

#[test]
fn a_redis_that_forgets_everything_forgets_no_quota() {
    const LIMIT: u64 = 4_000;
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    let url = postgres.create();
    let policies = [quota("org-day", LIMIT, ""), fast("accuracy: 5%")];
    let nodes: Vec<_> = (0..3).map(|_| node(&url, &redis.url(), &policies)).collect();
    let (admitted, flushes) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for node in &nodes {
            let (admitted, flushes, redis, address) = (&admitted, &flushes, &redis, node.http);
            scope.spawn(move || {
                let mut load = Load::on(address, "acme");
                let mut denied = 0;
                while denied < 50 {
                    match load.check() {
                        Some(200) => {
                            if admitted.fetch_add(1, Ordering::Relaxed) % 500 == 300 {
                                redis.ok(&["FLUSHALL"]);
                                flushes.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        // It may be the rate.
                        Some(429) if admitted.load(Ordering::Relaxed) < LIMIT * 9 / 10 => {}
                        Some(429) => denied += 1,
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let (admitted, flushes) = (admitted.into_inner(), flushes.into_inner());
    println!("{admitted} of {LIMIT} through {flushes} flushes");
    assert!(flushes >= 7 && admitted <= LIMIT, "{admitted}, {flushes}");
    for node in nodes {
        node.terminate();
        assert!(node.wait().success());
    }
    // The rest is there, to the last call.
    let last = node(&url, &redis.url(), &policies[..1]);
    assert_eq!(left(&last, "acme", "org-day"), LIMIT - admitted);
    assert_eq!(spend(&last, "acme", LIMIT - admitted + 1), LIMIT - admitted);
}

#[test]
fn a_stack_is_charged_in_both_places_or_in_none() {
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    let url = postgres.create();
    let policies = [
        quota("org-day", 30, "accuracy: exact"),
        hourly("key-rate", "key", 10, "accuracy: exact"),
        hourly("org-rate", "org", 1_000, "accuracy: exact"),
    ];
    let nodes = [(); 2].map(|()| node(&url, &redis.url(), &policies));
    let check = |key: &str| json!({"orgId": "acme", "keyId": key});
    let ask = |turn: usize, key: &str| nodes[turn % 2].check(&check(key));
    for turn in 0..10 {
        let decision = ask(turn, "first").expect(200);
        assert_eq!(limit(&decision, "org-day")["remaining"], 29 - turn);
        assert_eq!(limit(&decision, "key-rate")["remaining"], 9 - turn);
        assert_eq!(decision["remaining"], 9 - turn);
    }
    // The key's rate refuses, and the quota is as it was; for a moment the other node may hold one for nothing.
    for turn in 0..20 {
        let refused = ask(turn, "first").expect(429);
        assert_eq!(refused["policyId"], "key-rate");
        assert!((19..=20).contains(&remaining(&refused, "org-day")), "{refused}");
        assert_eq!(limit(&refused, "org-rate")["remaining"], 990);
    }
    for turn in 0..20 {
        ask(turn, if turn < 10 { "second" } else { "third" }).expect(200);
    }
    // The quota refuses, and no rate is charged.
    for turn in 0..20 {
        let refused = ask(turn, "fourth").expect(429);
        assert_eq!(refused["policyId"], "org-day");
        assert_eq!(refused["error"], "quota_exceeded");
    }
    let seen = nodes[0].allowed(&json!({"orgId": "acme", "keyId": "fourth", "cost": 0}));
    assert_eq!(limit(&seen, "key-rate")["remaining"], 10);
    assert_eq!(limit(&seen, "org-rate")["remaining"], 970);
    // What a dry run says is charged nowhere.
    let dry = nodes[1].check(&json!({"orgId": "other", "keyId": "k", "dryRun": true}));
    assert_eq!(limit(&dry.expect(200), "org-day")["remaining"], 29);
    assert_eq!(left(&nodes[1], "other", "org-day"), 30);
}

#[test]
fn a_sentence_names_the_instant_of_the_reset() {
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    let policies = [quota("org-day", 3, ""), hourly("org-rate", "org", 100_000, "")];
    let server = node(&postgres.create(), &redis.url(), &policies);
    assert_eq!(spend(&server, "acme", 3), 3);
    for _ in 0..100 {
        let denial = server.check(&org("acme")).expect(429);
        let reset = limit(&denial, "org-day");
        let at: jiff::Timestamp = reset["resetAt"].as_str().unwrap().parse().unwrap();
        let told = denial["detail"].as_str().unwrap();
        // Days end on the hour there.
        assert_eq!(at.as_second() % 3_600, 0, "{at}");
        assert_eq!(at.subsec_nanosecond(), 0, "{at}");
        let local = at.strftime("%H:00:00 UTC").to_string();
        assert!(told.contains(&local), "{told} and not {local}");
    }
}

#[test]
fn what_redis_can_not_decide_costs_no_quota() {
    let (postgres, mut redis) = (Postgres::start(), servers::Server::start());
    let url = postgres.create();
    let policies = [
        quota("org-day", 1_000, ""),
        fast("failMode: closed, accuracy: exact"),
    ];
    let server = node(&url, &redis.url(), &policies);
    assert_eq!(spend(&server, "acme", 20), 20);
    redis.kill();
    let mut closed = 0;
    while closed < 100 {
        match server.check(&org("acme")).status {
            503 => closed += 1,
            other => panic!("{other}"),
        }
    }
    redis.start_empty();
    wait_for("Redis to be back", || {
        (server.check(&json!({"orgId": "other"})).status == 200).then_some(())
    });
    assert_eq!(left(&server, "acme", "org-day"), 980);
}
