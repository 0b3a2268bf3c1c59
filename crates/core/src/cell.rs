//! What is stored of one counter.

use std::ops::Range;

use crate::time::Timestamp;

/// Three words whose meaning belongs to the counter's algorithm. A counter that was never touched is all
/// zeros, so an absent one and a new one are the same thing.
///
/// | algorithm | words |
/// |---|---|
/// | token and leaky bucket | debt, in units of 1 / window token; the time it was true; what of the debt is past 64 bits |
/// | fixed window | the window's end; count |
/// | quota | the period's end; count; on a ledger, how far it may be counted ([`crate::Allowance`]) |
/// | throttle | when it is full again |
/// | sliding counter | the current window's end; previous count; current count |
/// | sliding log | a summary made by [`crate::Log::summary`]: used; newest entry; when the next room comes |
///
/// The words do not depend on limit or burst, so a change of those keeps the count. The third is the one that most
/// counters do without: a store need not keep it where it is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell(pub [u64; 3]);

impl Cell {
    /// A bucket's cell that owes so many units of 1 / window token at an instant, in nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "a u128 is split into its halves")]
    #[inline]
    pub fn owing(debt: u128, at: u64) -> Self {
        Self([debt as u64, at, (debt >> 64) as u64])
    }

    /// Whether a bucket's cell owes one of these debts, and its own time is not ahead of the clock.
    #[inline]
    pub fn owes_within(self, debts: &Range<u128>, now: Timestamp) -> bool {
        self.as_of() <= now.nanos() && debts.contains(&self.debt())
    }

    /// What a bucket's cell owes.
    #[inline]
    pub fn debt(self) -> u128 {
        u128::from(self.0[0]) | u128::from(self.0[2]) << 64
    }

    /// When a bucket's cell owed that, in nanoseconds.
    #[inline]
    pub fn as_of(self) -> u64 {
        self.0[1]
    }

    /// Whether the first two words are all there is to it.
    #[inline]
    pub fn is_slim(self) -> bool {
        self.0[2] == 0
    }
}
