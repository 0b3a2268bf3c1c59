//! Explores thread schedules with shuttle: however threads interleave, admitted is exactly the limit, no
//! level is charged by a refused request, and stacks that share some of their shards don't deadlock.
#![allow(missing_docs)]

mod common;

use common::{at, decide, level, rule};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use tollgate_core::Algorithm;
use tollgate_counters::MemoryStore;

const SCHEDULES: usize = 2_000;

#[test]
fn admits_exactly_the_limit() {
    shuttle::check_random(
        || {
            let store = Arc::new(MemoryStore::new(1000));
            let admitted = Arc::new(AtomicU64::new(0));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (store, admitted) = (store.clone(), admitted.clone());
                    thread::spawn(move || {
                        let (org, key) = (rule(Algorithm::TokenBucket, 5), rule(Algorithm::SlidingLog, 9));
                        for _ in 0..3 {
                            let stack = [level(&org, "org", "acme", ""), level(&key, "key", "acme", "k")];
                            let decision = decide(&store, &stack, at(0)).unwrap();
                            admitted.fetch_add(u64::from(decision.allowed), Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(admitted.load(Ordering::SeqCst), 5);
            let key = rule(Algorithm::SlidingLog, 9);
            let look = tollgate_core::Level {
                cost: 0,
                ..level(&key, "key", "acme", "k")
            };
            let decision = decide(&store, &[look], at(0)).unwrap();
            assert_eq!(decision.remaining, Some(4), "refused requests charged nothing");
        },
        SCHEDULES,
    );
}

#[test]
fn crossing_stacks_do_not_deadlock() {
    shuttle::check_random(
        || {
            let store = Arc::new(MemoryStore::new(1000));
            let threads: Vec<_> = [["a", "b"], ["b", "a"], ["b", "c"]]
                .into_iter()
                .map(|[first, second]| {
                    let store = store.clone();
                    thread::spawn(move || {
                        let rule = rule(Algorithm::FixedWindow(tollgate_core::Anchor::Epoch), 2);
                        let stack = [level(&rule, "x", first, ""), level(&rule, "x", second, "")];
                        decide(&store, &stack, at(0)).unwrap().allowed
                    })
                })
                .collect();
            let admitted = threads.into_iter().map(|t| t.join().unwrap());
            assert_eq!(
                admitted.filter(|allowed| *allowed).count(),
                2,
                "b admits two of the three"
            );
        },
        SCHEDULES,
    );
}
