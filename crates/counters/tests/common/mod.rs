//! Short ways to say what the tests of this crate count.
#![allow(dead_code, missing_docs)]

use tollgate_core::{Algorithm, Calendar, CounterKey, Decision, KeySeed, Level, Mode, Rule, Timestamp};
use tollgate_counters::{Commit, MemoryStore, StoreFull};

pub const SECOND: u64 = 1_000_000_000;
pub const SEED: KeySeed = KeySeed::new(1, 2);

pub fn rule(algorithm: Algorithm, limit: u64) -> Rule {
    Rule::new(algorithm, limit, None, 60 * SECOND)
}

/// A level of `org`, counted for `who` in it.
pub fn level<'a>(rule: &'a Rule, counter: &str, org: &str, who: &str) -> Level<'a> {
    let home = SEED.id(org.as_bytes());
    Level {
        rule,
        calendar: Calendar::utc(),
        mode: Mode::Enforce,
        cost: 1,
        key: CounterKey::new(SEED.id(counter.as_bytes()))
            .and(home)
            .and(SEED.id(who.as_bytes())),
        home: home.short(),
    }
}

pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000 * SECOND + seconds * SECOND)
}

/// Decides and charges a stack.
pub fn decide(store: &MemoryStore, levels: &[Level<'_>], now: Timestamp) -> Result<Decision, StoreFull> {
    let mut decision = Decision::pending();
    store.decide(levels, &[], now, Commit::Charge, &mut decision)?;
    Ok(decision)
}
