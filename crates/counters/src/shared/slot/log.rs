//! A log: every admission, and what is on lease at its deadline.

use super::super::call::{MOST, Micros};
use super::counter::Counter;

/// The most entries of a log. Only soft limits reach it.
const MOST_ENTRIES: usize = 100_001;

impl Counter {
    /// Adds to a log what was used at an instant. Entries stay in order, so that it may be a little later; one that
    /// is full makes its newest later.
    pub(super) fn enter(&mut self, at: Micros, count: u64) {
        let count = count.min(MOST.saturating_sub(self.used(at)));
        let newest = self.log.back().map_or(0, |(at, _)| *at);
        let full = self.log.len() == MOST_ENTRIES;
        match self.log.back_mut() {
            Some(last) if full || at <= newest => *last = (at.max(newest), last.1 + count),
            _ => self.log.push_back((at, count)),
        }
    }

    /// When `cost`, or one unit, fits a log; if it does already, when its oldest entry leaves; 0 with none.
    pub(super) fn room_at(&self, limit: u64, cost: u64, now: Micros) -> Micros {
        let mut over = (self.used(now) + cost.max(1)).saturating_sub(limit);
        let mut entries: Vec<_> = self.log.iter().copied().collect();
        entries.extend(self.lent.iter().map(|lent| (lent.until, lent.amount)));
        entries.sort_unstable();
        for (at, count) in &entries {
            if over <= *count {
                return at + self.terms.window;
            }
            over -= count;
        }
        entries.last().map_or(0, |(at, _)| at + self.terms.window)
    }
}
