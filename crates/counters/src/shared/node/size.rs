//! How much is borrowed, and for how long.

use tollgate_core::{Algorithm, Rule};

use super::super::call::{LONGEST_HOLD, Micros};
use super::Mono;

/// Borrowed for so long ahead.
const AHEAD: Micros = 200_000;
/// Fewer tokens than this are not worth a lease.
const LEAST: u64 = 8;
/// Slower callers, in tokens a second, ask each time.
const SLOW: u64 = 40;
/// A part of a limit, of which there are so many.
pub const BASIS: u64 = 10_000;

/// The bounds of one counter's leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sizes {
    /// The most that this node may hold; 0 if every decision is the store's.
    pub(super) cap: u64,
    /// How long a lease is held.
    pub(super) hold: Micros,
    /// Twice the time that a call takes.
    pub(super) trips: Micros,
    /// What of the rest of a window this node may hold: so many parts, of so many.
    part: (u64, u64),
}

impl Sizes {
    /// The sizes for a limit of which `accuracy` parts of [`BASIS`] may lie unused in the leases of so many nodes.
    pub(super) fn of(rule: &Rule, accuracy: u16, nodes: u64, trip: Micros) -> Self {
        let part = |whole: u64| u128::from(whole) * u128::from(accuracy) / u128::from(BASIS);
        let window = rule.window_ns / 1_000;
        let hold = match rule.algorithm {
            // Only turns that lie further ahead are lent.
            Algorithm::LeakyBucket => {
                part(rule.capacity) * u128::from(window) / (2 * u128::from(rule.limit.max(1)))
            }
            Algorithm::SlidingLog => part(window) / 2,
            _ => u128::from(LONGEST_HOLD),
        };
        let hold = u64::try_from(hold).unwrap_or(LONGEST_HOLD).min(LONGEST_HOLD);
        let cap = part(rule.limit.min(rule.capacity)) / u128::from(nodes.max(1));
        let cap = u64::try_from(cap).unwrap_or(u64::MAX);
        let worth_it = cap >= LEAST && hold >= 3 * trip;
        Self {
            cap: if worth_it { cap } else { 0 },
            hold,
            trips: 2 * trip,
            part: (u64::from(accuracy), BASIS * nodes.max(1)),
        }
    }

    /// The most to hold of a window that has so much left.
    pub(super) fn share(&self, left: u64) -> u64 {
        let (part, of) = self.part;
        let share = u128::from(left) * u128::from(part) / u128::from(of);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        if share < LEAST { 0 } else { share }
    }

    /// What to hold at a rate.
    pub(super) fn target(&self, rate: u64) -> u64 {
        if rate < SLOW {
            return 0;
        }
        tokens(rate, AHEAD.min(self.hold * 2 / 5)).min(self.cap)
    }

    /// Below this it is topped up.
    pub(super) fn low(&self, rate: u64) -> u64 {
        let target = self.target(rate);
        (target / 4).max(tokens(rate, self.trips)).min(target)
    }
}

fn tokens(rate: u64, time: Micros) -> u64 {
    let tokens = u128::from(rate) * u128::from(time) / 1_000_000;
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

/// A length of the store's time on the node's clock.
pub(super) const fn nanos(micros: Micros) -> Mono {
    micros * 1_000
}
