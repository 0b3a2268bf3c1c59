//! The memory store, swept in between.

use tollgate_core::{Decision, Level, Timestamp};
use tollgate_counters::{Commit, MemoryStore};

use crate::suite::{Store, agrees_with_the_oracle};

impl Store for MemoryStore {
    const RESOLUTION_NS: u64 = 1;

    fn decide(&mut self, levels: &[Level<'_>], now: Timestamp, commit: Commit) -> Decision {
        let mut decision = Decision::pending();
        MemoryStore::decide(self, levels, &[], now, commit, &mut decision).unwrap();
        decision
    }

    fn tidy(&mut self, now: Timestamp) {
        for _ in 0..self.shard_count() {
            self.sweep(usize::MAX / 2, now);
        }
    }
}

#[test]
fn the_memory_store_decides_as_the_oracle_does() {
    agrees_with_the_oracle(|| MemoryStore::new(1_000));
}
