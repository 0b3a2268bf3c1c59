//! How far a durable quota may be counted before the ledger has to be asked for more.
//!
//! A ledger notes in a database what nodes may have let through: its *mark*. A node takes a [`Chunk`] by moving the
//! mark ahead, and counts by itself as far as the *ceiling*, which never lies above the mark. All of that fits into the
//! third word of a quota's cell; without a ledger the word is 0.

use crate::cell::Cell;

/// How far a cell may be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// The count may come up to this.
    pub ceiling: u64,
    /// With less left than two to the power of this it is time to take more.
    pub low: u8,
}

/// The maximum count of a quota that a ledger keeps. Limits are far below. Soft quotas stop counting there.
pub const MAX_COUNT: u64 = (1 << 56) - 1;

/// What an exchange with the ledger came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// When the period ends, in nanoseconds since the epoch.
    pub end: u64,
    /// The mark, with all that follows.
    pub mark: u64,
    /// What was added to it for this node to spend.
    pub granted: u64,
    /// What was added to it since this node had spent it already.
    pub owed: u64,
    /// See [`Allowance::low`].
    pub low: u8,
}

impl Allowance {
    /// How far a cell may be counted; `None` if the ledger has not been asked in its period.
    #[inline]
    pub fn of(cell: Cell) -> Option<Self> {
        let word = cell.0[2];
        #[expect(clippy::cast_possible_truncation, reason = "seven bits are meant")]
        let low = (word as u8) >> 1;
        (word != 0).then_some(Self {
            ceiling: word >> 8,
            low,
        })
    }

    /// Whether a count may be raised by `cost`.
    #[inline]
    pub fn covers(self, count: u64, cost: u64) -> bool {
        count.saturating_add(cost) <= self.ceiling
    }

    /// Whether a charge of `cost` that led to `count` was the one after which it is time to take more.
    #[inline]
    pub fn ran_low(self, count: u64, cost: u64) -> bool {
        let left = self.ceiling.saturating_sub(count);
        let low = 1 << self.low;
        left < low && left.saturating_add(cost) >= low
    }

    /// How far a count is from the ceiling; below 0 if it is beyond that.
    #[inline]
    pub fn headroom(self, count: u64) -> i64 {
        self.ceiling.wrapping_sub(count).cast_signed()
    }

    fn word(self) -> u64 {
        self.ceiling.min(MAX_COUNT) << 8 | u64::from(self.low & 63) << 1 | 1
    }
}

impl Cell {
    /// A quota's count.
    pub fn count(self) -> u64 {
        self.0[1]
    }

    /// What of its allowance a quota's cell has left to spend.
    pub fn unspent(self) -> u64 {
        let ceiling = Allowance::of(self).map_or(0, |allowance| allowance.ceiling);
        ceiling.saturating_sub(self.count())
    }

    /// What a quota's cell was charged beyond its allowance.
    pub fn overspent(self) -> u64 {
        let ceiling = Allowance::of(self).map_or(0, |allowance| allowance.ceiling);
        self.count().saturating_sub(ceiling)
    }

    /// How far a quota's cell is from its ceiling, below 0 if it was charged beyond that; `None` if the ledger has not
    /// been asked in its period.
    #[inline]
    pub fn headroom(self) -> Option<i64> {
        Allowance::of(self).map(|allowance| allowance.headroom(self.count()))
    }

    /// The cell with so much less left to spend, to be given back.
    #[must_use]
    pub fn without(self, unspent: u64) -> Self {
        let Some(allowance) = Allowance::of(self) else {
            return self;
        };
        let ceiling = allowance.ceiling.saturating_sub(unspent);
        let [end, count, _] = self.0;
        Self([end, count, Allowance { ceiling, ..allowance }.word()])
    }

    /// The cell with so much more to spend, that was taken from it before or is owed no longer.
    #[must_use]
    pub fn with(self, more: u64) -> Self {
        let Some(allowance) = Allowance::of(self) else {
            return self;
        };
        let ceiling = allowance.ceiling.saturating_add(more);
        let [end, count, _] = self.0;
        Self([end, count, Allowance { ceiling, ..allowance }.word()])
    }

    /// The cell after an exchange: its ceiling is the mark, and what is below that and not this node's to spend counts
    /// as used. A cell that is in a later period already stays as it is.
    #[must_use]
    pub fn topped_up(self, chunk: &Chunk) -> Self {
        let known = Allowance::of(self).is_some();
        let [end, ..] = self.0;
        if known && end > chunk.end {
            return self;
        }
        let same = !known || end == chunk.end;
        let (unspent, overspent) = if same {
            (self.unspent(), self.overspent())
        } else {
            (0, 0)
        };
        // What was spent without being asked for, beyond what the exchange knew of; or what of that was given back since.
        let more = overspent.saturating_sub(chunk.owed);
        let back = chunk.owed.saturating_sub(overspent);
        let back = if end == chunk.end { back } else { 0 };
        let held = chunk.granted.saturating_add(unspent).saturating_add(back);
        let count = chunk
            .mark
            .saturating_sub(held)
            .saturating_add(more)
            .min(MAX_COUNT);
        let allowance = Allowance {
            ceiling: chunk.mark,
            low: chunk.low,
        };
        Self([chunk.end, count, allowance.word()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: u64 = 1_000;

    fn chunk(mark: u64, granted: u64) -> Chunk {
        Chunk {
            end: END,
            mark,
            granted,
            owed: 0,
            low: 3,
        }
    }

    fn charged(cell: Cell, cost: u64) -> Cell {
        Cell([cell.0[0], cell.0[1] + cost, cell.0[2]])
    }

    #[test]
    fn what_others_hold_counts_as_used() {
        let first = Cell::default().topped_up(&chunk(30, 10));
        assert_eq!((first.count(), first.unspent()), (20, 10));
        // Four are spent, others take 6, and this node takes 5 more.
        let second = charged(first, 4).topped_up(&chunk(41, 5));
        assert_eq!((second.count(), second.unspent()), (30, 11));
    }

    #[test]
    fn what_is_spent_while_the_ledger_is_asked_stays_spent() {
        let cell = Cell::default().topped_up(&chunk(10, 10));
        let cell = charged(cell, 7).topped_up(&chunk(18, 8));
        assert_eq!((cell.count(), cell.unspent()), (7, 11));
    }

    #[test]
    fn what_was_overspent_is_owed_once() {
        let cell = charged(Cell::default().topped_up(&chunk(10, 10)), 13);
        assert_eq!((cell.unspent(), cell.overspent()), (0, 3));
        // Two more are spent while three are being told.
        let told = Chunk {
            owed: 3,
            ..chunk(13, 0)
        };
        let cell = charged(cell, 2).topped_up(&told);
        assert_eq!((cell.count(), cell.unspent(), cell.overspent()), (15, 0, 2));
        // It may not have been known to the ledger at all.
        let told = Chunk {
            owed: 5,
            ..chunk(25, 10)
        };
        let cell = Cell([END, 5, 0]).topped_up(&told);
        assert_eq!((cell.count(), cell.unspent(), cell.overspent()), (15, 10, 0));
    }

    #[test]
    fn what_is_given_back_while_it_is_told_can_be_spent() {
        let cell = charged(Cell::default().topped_up(&chunk(10, 10)), 13);
        let told = Chunk {
            owed: 3,
            ..chunk(13, 0)
        };
        let cell = Cell([cell.0[0], cell.count() - 5, cell.0[2]]).topped_up(&told);
        assert_eq!((cell.count(), cell.unspent(), cell.overspent()), (8, 5, 0));
    }

    #[test]
    fn a_new_period_takes_nothing_over_and_a_late_answer_changes_nothing() {
        let cell = charged(Cell::default().topped_up(&chunk(10, 10)), 4);
        let next = Chunk {
            end: 2 * END,
            ..chunk(5, 5)
        };
        let cell = cell.topped_up(&next);
        assert_eq!((cell.count(), cell.unspent()), (0, 5));
        assert_eq!(cell.topped_up(&chunk(20, 10)), cell);
    }

    #[test]
    fn what_is_given_back_can_not_be_spent() {
        let cell = charged(Cell::default().topped_up(&chunk(10, 10)), 4).without(5);
        assert_eq!((cell.count(), cell.unspent()), (4, 1));
        assert!(Allowance::of(cell).unwrap().covers(4, 1));
        assert!(!Allowance::of(cell).unwrap().covers(4, 2));
    }

    #[test]
    fn a_count_stops_at_its_maximum() {
        let mark = MAX_COUNT - 10;
        let mut cell = charged(Cell::default().topped_up(&chunk(mark, 0)), 1_000);
        for _ in 0..5 {
            let told = Chunk {
                owed: 1_000,
                ..chunk(MAX_COUNT, 0)
            };
            cell = cell.topped_up(&told);
            assert_eq!(
                (cell.count(), cell.unspent(), cell.overspent()),
                (MAX_COUNT, 0, 0)
            );
            cell = charged(cell, 1_000);
        }
    }

    #[test]
    fn runs_low_once() {
        let mut cell = Cell::default().topped_up(&chunk(20, 20));
        let mut low = Vec::new();
        for n in 1..=20 {
            cell = charged(cell, 1);
            if Allowance::of(cell).unwrap().ran_low(cell.count(), 1) {
                low.push(n);
            }
        }
        assert_eq!(low, [13]);
    }
}
