//! What does not matter any more is forgotten, and what does is not.
#![allow(missing_docs)]

mod common;

use common::{at, decide, level, rule};
use tollgate_core::Algorithm;
use tollgate_counters::MemoryStore;

fn sweep(store: &MemoryStore, seconds: u64) {
    for _ in 0..store.shard_count() {
        store.sweep(usize::MAX, at(seconds));
    }
}

/// A log's entries go when it is looked at, one window after another, and it is counted by what it still has.
#[test]
fn a_log_weighs_what_it_holds_and_nothing_once_it_is_gone() {
    let store = MemoryStore::new(1_000);
    let logs = rule(Algorithm::SlidingLog, 500);
    for window in 0..50 {
        for n in 0..500 {
            let decided = decide(&store, &[level(&logs, "log", "acme", "")], at(61 * window));
            assert!(decided.is_ok_and(|decision| decision.allowed), "{n} of {window}");
        }
        assert!(store.usage().held <= 251, "{window}: {:?}", store.usage());
    }
    // A look at it lets the rest go; the next sweep knows.
    let refused = level(&logs, "log", "acme", "");
    let refused = tollgate_core::Level { cost: 501, ..refused };
    assert!(decide(&store, &[refused], at(61 * 50)).is_ok_and(|decision| !decision.allowed));
    sweep(&store, 61 * 49);
    assert_eq!(store.usage().held, 1, "{:?}", store.usage());
    sweep(&store, 61 * 52);
    assert_eq!(store.usage().held, 0, "{:?}", store.usage());
}
