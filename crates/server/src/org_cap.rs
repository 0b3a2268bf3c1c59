//! How often one org may ask this node, whatever it is told: a limit on the limiter itself.

use tollgate_core::calendar::Calendar;
use tollgate_core::{Algorithm, CounterKey, Decision, KeySeed, Level, Mode, Rule, Timestamp};
use tollgate_counters::{Commit, MemoryStore};

/// Orgs that are counted at a time. Who finds no room is let ask: that costs no more than the limiter is made for.
const MOST_ORGS: usize = 262_144;
const SECOND_NS: u64 = 1_000_000_000;
/// How many places of counters a sweep looks at.
const SWEEP_PLACES: usize = 512;

/// A cap on the decisions that each org may ask for.
pub struct OrgCap {
    rule: Rule,
    seed: KeySeed,
    store: MemoryStore,
}

impl OrgCap {
    /// So many decisions a second.
    pub fn new(rate: u64, seed: KeySeed) -> Self {
        Self {
            rule: Rule::new(Algorithm::TokenBucket, rate, None, SECOND_NS),
            seed,
            store: MemoryStore::new(MOST_ORGS),
        }
    }

    /// Decisions a second.
    pub fn rate(&self) -> u64 {
        self.rule.limit
    }

    /// Whether an org may ask once more.
    pub fn admits(&self, org: &str, now: Timestamp) -> bool {
        let id = self.seed.id(org.as_bytes());
        let level = Level {
            rule: &self.rule,
            calendar: Calendar::utc(),
            mode: Mode::Enforce,
            cost: 1,
            key: CounterKey::new(id),
            home: id.short(),
        };
        let mut decision = Decision::pending();
        let decided = self
            .store
            .decide(&[level], &[], now, Commit::Charge, &mut decision);
        decided.is_err() || decision.allowed
    }

    /// Forgets some idle orgs.
    pub fn sweep(&self, now: Timestamp) {
        self.store.sweep(SWEEP_PLACES, now);
    }
}
