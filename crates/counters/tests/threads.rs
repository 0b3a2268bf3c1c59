//! Real threads on one store.
#![allow(missing_docs)]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{SEED, at, decide, level, rule};
use tollgate_core::{Algorithm, Anchor, Period};
use tollgate_counters::MemoryStore;

const THREADS: u64 = 4;
const EACH: u64 = 20_000;

#[test]
fn admitted_is_exactly_the_limit_for_every_algorithm() {
    let limit = THREADS * EACH / 3;
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow(Anchor::Epoch),
        Algorithm::FixedWindow(Anchor::First),
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
        Algorithm::Quota(Period::Month),
    ] {
        let store = MemoryStore::new(1_000_000);
        let (org, spread, wide) = (
            rule(algorithm, limit),
            rule(algorithm, limit),
            rule(algorithm, 99_999),
        );
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (store, admitted, org, spread, wide) = (&store, &admitted, &org, &spread, &wide);
                scope.spawn(move || {
                    let who = format!("key-{}", thread % 2);
                    for n in 0..EACH {
                        let address = format!("address-{}", n % 64);
                        let stack = [
                            level(wide, "ip", &address, ""),
                            level(org, "org", "acme", ""),
                            level(spread, "key", "acme", &who),
                        ];
                        let decision = decide(store, &stack, at(0)).unwrap();
                        admitted.fetch_add(u64::from(decision.allowed), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), limit, "{algorithm:?}");
    }
}

#[test]
fn the_cap_on_counters_refuses_and_resets_nothing() {
    let store = MemoryStore::new(100);
    let rule = rule(Algorithm::TokenBucket, 10);
    let mut refused = 0;
    for n in 0..500 {
        let (org, who) = (format!("org-{n}"), format!("key-{n}"));
        let stack = [level(&rule, "key", &org, &who)];
        refused += u64::from(decide(&store, &stack, at(0)).is_err());
    }
    assert_eq!(refused, 400);
    assert_eq!(store.usage().refused, 400);
    assert_eq!(store.usage().held, 100);
    let kept = [level(&rule, "key", "org-7", "key-7")];
    let decision = decide(&store, &kept, at(0)).unwrap();
    assert_eq!(
        decision.remaining,
        Some(8),
        "a counter that matters is still there"
    );
    // A minute later all buckets are full again: their cells go, and there is room for others.
    for n in 0..500 {
        let (org, who) = (format!("late-{n}"), format!("key-{n}"));
        store.sweep(usize::MAX, at(68));
        let stack = [level(&rule, "key", &org, &who)];
        let _ = decide(&store, &stack, at(68));
    }
    assert!(store.usage().reclaimed >= 100, "{:?}", store.usage());
}

#[test]
fn a_store_full_of_what_does_not_matter_any_more_has_room_at_once() {
    let store = MemoryStore::new(10_000);
    let rule = rule(Algorithm::TokenBucket, 10);
    let asks = |name: &str, n: u64, now| {
        let org = format!("{name}-{n}");
        decide(&store, &[level(&rule, "key", &org, "key")], now)
    };
    for n in 0..10_000 {
        assert!(asks("early", n, at(0)).is_ok());
    }
    assert!(asks("too-many", 0, at(0)).is_err());
    // A minute later all buckets are full again. Nobody sweeps but those who ask.
    for n in 0..10_000 {
        assert!(asks("late", n, at(68)).is_ok(), "{n}: {:?}", store.usage());
    }
    assert!(asks("too-many", 1, at(68)).is_err());
}

#[test]
fn a_few_orgs_do_not_use_up_the_room_of_all() {
    let store = MemoryStore::new(10_000);
    let rule = rule(Algorithm::TokenBucket, 10);
    for org in ["greedy", "greedier", "greediest"] {
        for n in 0..10_000 {
            let _ = decide(&store, &[level(&rule, "user", org, &format!("user-{n}"))], at(0));
        }
    }
    for n in 0..1_000 {
        let org = format!("modest-{n}");
        let decided = decide(&store, &[level(&rule, "user", &org, "user")], at(0));
        // Some live where a greedy one does.
        let alike = shard(&org) == shard("greedy")
            || shard(&org) == shard("greedier")
            || shard(&org) == shard("greediest");
        assert!(decided.is_ok() || alike, "{n}: {:?}", store.usage());
    }
}

/// The first bits of an org's home say in which shard it is.
fn shard(org: &str) -> u64 {
    SEED.id(org.as_bytes()).short() >> 56
}

#[test]
fn one_shard_takes_at_most_half() {
    let store = MemoryStore::new(100);
    let rule = rule(Algorithm::TokenBucket, 10);
    let admitted = (0..200)
        .filter(|n| {
            let who = format!("key-{n}");
            let stack = [level(&rule, "key", "greedy", &who)];
            decide(&store, &stack, at(0)).is_ok()
        })
        .count();
    assert_eq!(admitted, 50);
    let other = [level(&rule, "key", "modest", "key")];
    assert!(decide(&store, &other, at(0)).is_ok());
}
