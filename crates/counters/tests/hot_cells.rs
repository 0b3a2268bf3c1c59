//! Cells that become hot and cool down again are never lost or mixed up.
#![allow(missing_docs)]

mod common;

use std::collections::HashMap;

use common::{at, decide, level, rule};
use proptest::prelude::*;
use tollgate_core::{Algorithm, Anchor};
use tollgate_counters::MemoryStore;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Some callers are busy and others not, in phases, so that what is hot changes all the time.
    #[test]
    fn every_count_is_kept(requests in prop::collection::vec((0..6_usize, 0..6_usize, 0..40_usize), 2_000)) {
        let store = MemoryStore::new(100_000);
        let counts = rule(Algorithm::FixedWindow(Anchor::Epoch), 1_000_000);
        let mut model: HashMap<String, u64> = HashMap::new();
        for (turn, (first, second, rare)) in requests.into_iter().enumerate() {
            let busy = turn / 300;
            let names = [format!("busy-{}", (first + busy) % 9), format!("busier-{}", second / 3 + busy), format!("rare-{rare}")];
            let stack: Vec<_> = names.iter().map(|name| level(&counts, "count", "acme", name)).collect();
            let decision = decide(&store, &stack, at(0)).unwrap();
            for (name, outcome) in names.iter().zip(&decision.outcomes) {
                let used = model.entry(name.clone()).or_default();
                *used += 1;
                prop_assert_eq!(outcome.remaining, 1_000_000 - *used, "{} at {}", name, turn);
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
