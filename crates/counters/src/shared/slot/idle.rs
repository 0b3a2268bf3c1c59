//! Time that a bucket had to spare, and fallbacks may have used.
//!
//! While nobody could ask, the bucket drained what it owed and then stood idle, and nodes let requests through of which
//! each drained a part at its share of the rate (`node/drain.rs`). Both can't have had the same time. So what drained on
//! the nodes counts as drained only as far as the bucket was idle then; the rest is owed. Who settles first writes down
//! how long it was idle, for those who settle after.

use super::super::call::{MOST, Micros, Settlement};
use super::Bug;
use super::counter::Counter;

/// How long it is known that a bucket stood idle: in that time all nodes should have heard that the store is back.
pub(super) const IDLE_KEPT: Micros = 10_000_000;

/// A time in which a bucket drained less than it could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) from: Micros,
    pub(super) until: Micros,
    /// So much more could have drained, and nobody has used that yet.
    pub(super) tokens: u64,
}

impl Counter {
    /// Takes note of what a bucket did not drain from when it was last written, with so many tokens owed, until now.
    pub(super) fn note_idle(&mut self, from: Micros, tokens: u64, now: Micros) {
        if from > now {
            return;
        }
        let terms = &self.terms;
        let (_, owed) = self.debt(terms.limit, terms.capacity, false, now);
        let left = u64::try_from(owed / u128::from(terms.window)).unwrap_or(MOST);
        let could = u128::from(terms.limit) * u128::from(now - from) / u128::from(terms.window);
        let could = u64::try_from(could).unwrap_or(MOST).min(MOST);
        // Of two parts of a token nobody knows how much they make.
        let did = tokens.saturating_sub(left) + 1;
        self.idle_now = Some(Idle {
            from,
            until: now,
            tokens: could.saturating_sub(did),
        });
    }

    /// Charges what a fallback let through. Who knows the slot's time knows also when.
    pub(super) fn settle_fallback(&mut self, settlement: &Settlement, knows_time: bool, now: Micros) {
        let undrained = if knows_time {
            self.undrained(settlement, now)
        } else {
            settlement.drained
        };
        let charged = settlement.owed + undrained;
        self.charge_anyway(charged, now);
        self.report(charged, now);
    }

    /// What drained on a node, and can't have.
    fn undrained(&mut self, settlement: &Settlement, now: Micros) -> u64 {
        let Settlement {
            drained,
            since,
            nodes,
            ..
        } = *settlement;
        let known = self.idle.filter(|idle| idle.until > since);
        let Some(mut idle) = known.or(self.idle_now) else {
            return drained;
        };
        if drained == 0 || !self.goes_by_what_was_asked() {
            return drained;
        }
        // What drained at another time may have been no more than the node's share.
        let outside = now.saturating_sub(idle.until) + idle.from.saturating_sub(since);
        let outside = u128::from(self.terms.limit) * u128::from(outside);
        let outside = outside.div_ceil(u128::from(self.terms.window)).min(MOST.into());
        let outside = outside.div_ceil(u128::from(nodes.max(1)));
        let inside = drained.saturating_sub(u64::try_from(outside).unwrap_or(MOST));
        let used = inside.min(idle.tokens);
        if self.bug != Some(Bug::IdleTwice) {
            idle.tokens -= used;
        }
        self.idle = Some(idle).filter(|idle| idle.tokens > 0);
        drained - used
    }
}
