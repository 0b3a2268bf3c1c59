//! A bucket on one node while the store is unavailable: what was let through, draining at the node's share of the rate.
//!
//! All nodes together drain no faster than the bucket would, so what is left on each of them adds up to at least what a
//! bucket that had seen all of it would owe. What drained counts only as far as the store's own bucket had that time to
//! spare (`slot/idle.rs`).

use super::super::call::{MOST, Micros, Terms};
use super::Mono;

/// Clocks are trusted to one part in so many.
const DRIFT: u64 = 1_000;

/// What drains.
#[derive(Debug, Clone)]
pub(super) struct Drain {
    terms: Terms,
    /// Nodes that share the rate.
    pub(super) nodes: u64,
    /// When the first of it was let through: in the store's time, and on the node's clock.
    pub(super) since: Micros,
    began: Mono,
    /// Until when it has drained.
    at: Mono,
    /// What is left, in parts of a token: a window's worth of nanoseconds for each node.
    owed: u128,
}

impl Drain {
    /// Begins with tokens that have not drained.
    pub(super) fn new(terms: &Terms, nodes: u64, owed: u64, since: Micros, now: Mono) -> Self {
        let nodes = nodes.max(1);
        let mut drain = Self {
            terms: *terms,
            nodes,
            since,
            began: now,
            at: now,
            owed: 0,
        };
        drain.owed = u128::from(owed) * drain.token();
        drain
    }

    /// Whether it goes by these numbers.
    pub(super) fn is_of(&self, terms: &Terms, nodes: u64) -> bool {
        self.nodes == nodes.max(1) && self.fits(terms)
    }

    /// Whether it drains no faster than a bucket of these numbers would.
    pub(super) fn fits(&self, terms: &Terms) -> bool {
        let Terms { limit, window, .. } = self.terms;
        (limit, window) == (terms.limit, terms.window)
    }

    /// Adds a charge.
    pub(super) fn add(&mut self, cost: u64, now: Mono) {
        self.owed = self.left(now) + u128::from(cost) * self.token();
        self.at = self.at.max(now);
    }

    /// What has not drained, rounded up.
    pub(super) fn owed(&self, now: Mono) -> u64 {
        u64::try_from(self.left(now).div_ceil(self.token())).unwrap_or(MOST)
    }

    /// How long ago the first of it was let through, no longer than it is. By the store's clock it is less if that was set
    /// back since.
    pub(super) fn age(&self, now: Mono) -> Micros {
        let age = now.saturating_sub(self.began) / 1_000;
        age - age.div_ceil(DRIFT)
    }

    /// Goes on with what began after this one stood still. `None` if the two drain by other numbers.
    pub(super) fn join(mut self, since: &Self) -> Option<Self> {
        if !since.is_of(&self.terms, self.nodes) {
            return None;
        }
        // This one has not drained since it was last charged, as far as anybody knows.
        self.owed = self.owed.saturating_add(since.owed);
        self.at = since.at;
        Some(self)
    }

    fn token(&self) -> u128 {
        u128::from(self.terms.window) * 1_000 * u128::from(self.nodes)
    }

    fn left(&self, now: Mono) -> u128 {
        let elapsed = now.saturating_sub(self.at);
        let elapsed = elapsed - elapsed.div_ceil(DRIFT);
        self.owed
            .saturating_sub(u128::from(self.terms.limit) * u128::from(elapsed))
    }
}
