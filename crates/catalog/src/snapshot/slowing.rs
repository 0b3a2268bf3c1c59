//! Buckets that refill more slowly from one snapshot to the next.
//!
//! A new limit keeps the count. A store forgets a bucket when it has refilled, by the limit under which it was last
//! charged, and has to be told when that is too early.

use std::collections::HashMap;

use tollgate_core::{IdHash, Slowing, Timestamp};

use super::limit::Limit;

/// How many are remembered one by one.
const MOST: usize = 8;

/// What slows down between limits that counted and those that do from now on, as one.
pub(super) fn slowing<'l>(
    before: impl Iterator<Item = &'l Limit>,
    after: impl Iterator<Item = &'l Limit>,
    now: Timestamp,
) -> Option<Slowing> {
    let mut slowest: HashMap<IdHash, u64> = HashMap::new();
    for limit in after.filter(|limit| limit.is_bucket()) {
        let slowest = slowest.entry(limit.counter).or_insert(u64::MAX);
        *slowest = limit.rule.limit.max(1).min(*slowest);
    }
    let slower = before.filter_map(|limit| {
        let slowest = *slowest.get(&limit.counter)?;
        let factor = limit.rule.limit.div_ceil(slowest);
        (limit.is_bucket() && factor > 1).then(|| Slowing {
            since: now,
            reach: limit.rule.horizon_ns(),
            factor,
        })
    });
    slower.reduce(|one, other| Slowing {
        since: now,
        reach: one.reach.max(other.reach),
        factor: one.factor.max(other.factor),
    })
}

/// Those that still have to be known, and a new one.
pub(super) fn with(known: &[Slowing], new: Option<Slowing>, now: Timestamp) -> Vec<Slowing> {
    let mut all: Vec<Slowing> = known
        .iter()
        .filter(|known| !known.is_over(now))
        .copied()
        .collect();
    all.extend(new);
    while all.len() > MOST {
        let first = all.remove(0);
        all[0] = first.and(&all[0]);
    }
    all
}
