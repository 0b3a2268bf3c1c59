//! Counters that come to need a third word move, and are never lost or mixed up.
#![allow(missing_docs)]

mod common;

use std::collections::HashMap;

use common::{SECOND, at, decide, level};
use proptest::prelude::*;
use tollgate_core::{Algorithm, Rule};
use tollgate_counters::MemoryStore;

const LIMIT: u64 = 999_999_999_999_999;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Of the slowest bucket some 580 tokens are past 64 bits, so that each of a few dozen crosses the line now and then,
    /// up and down, hot or not, beside others of the same stack that do.
    #[test]
    fn every_count_is_kept(
        requests in prop::collection::vec((0..4_usize, 0..12_usize, 0..60_usize, 1..120_u64, 0..4_u8), 1_000),
    ) {
        let store = MemoryStore::new(100_000);
        let bucket = Rule::new(Algorithm::TokenBucket, LIMIT, None, 366 * 86_400 * SECOND);
        let sliding = Rule::new(Algorithm::SlidingCounter, LIMIT, None, 366 * 86_400 * SECOND);
        let mut model: HashMap<String, u64> = HashMap::new();
        for (turn, (busy, some, rare, cost, act)) in requests.into_iter().enumerate() {
            let names = [format!("busy-{busy}"), format!("some-{some}"), format!("slid-{rare}"), format!("rare-{rare}")];
            let rules = [&bucket, &bucket, &sliding, &bucket];
            let stack: Vec<_> = names.iter().zip(rules).map(|(name, rule)| {
                let mut level = level(rule, "count", "acme", name);
                level.cost = cost;
                level
            }).collect();
            let used = |model: &HashMap<String, u64>, name: &String| model.get(name).copied().unwrap_or(0);
            if act == 0 && names.iter().all(|name| used(&model, name) >= cost) {
                store.give_back(&stack, at(0));
                for name in &names {
                    *model.get_mut(name).unwrap() -= cost;
                }
                continue;
            }
            let decision = decide(&store, &stack, at(0)).unwrap();
            for (name, outcome) in names.iter().zip(&decision.outcomes) {
                *model.entry(name.clone()).or_default() += cost;
                prop_assert_eq!(outcome.remaining, LIMIT - used(&model, name), "{} at {}", name, turn);
            }
            if turn % 97 == 0 {
                for _ in 0..store.shard_count() {
                    store.sweep(1_000, at(0));
                }
            }
        }
        prop_assert_eq!(store.usage().held, model.len());
    }
}
