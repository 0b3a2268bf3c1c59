//! Sliding window log: every admission is remembered until its age reaches the window.

use std::collections::VecDeque;

use crate::cell::Cell;
use crate::rule::{MAX_LOG_LIMIT, Rule};
use crate::time::{Nanos, Timestamp};

/// The most an enforced log holds: its limit in entries of 1 that counted at the last charge, and the next
/// charge, which is added before they are dropped.
#[expect(clippy::cast_possible_truncation, reason = "100,000 fits everywhere")]
const MAX_ENTRIES: usize = MAX_LOG_LIMIT as usize + 1;

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    /// Everything ever admitted up to and with this entry: differences of two are exact sums, so finding
    /// the moment at which enough room comes back is a binary search. It may wrap, differences do not.
    total: u64,
}

/// The admissions of one sliding-log counter, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The total up to the newest entry that was dropped.
    dropped: u64,
}

impl Log {
    /// Sums up for [`crate::stack::decide`] what has not reached the window's age. An earlier clock than
    /// before counts as the latest time at which something was charged.
    pub fn summary(&mut self, rule: &Rule, cost: u64, now: Timestamp) -> Cell {
        let newest = self.entries.back().map_or(0, |entry| entry.at);
        self.drop_left(rule.window_ns, newest);
        let oldest = self
            .entries
            .partition_point(|entry| has_left(entry, rule.window_ns, now.nanos()));
        let left = oldest
            .checked_sub(1)
            .map_or(0, |last| self.held(&self.entries[last]));
        let used = self.total() - left;
        Cell([used, newest, self.room_at(rule, oldest, left, cost)])
    }

    /// Remembers an admission, which the log was summed up for. An enforced log holds at most its limit; a
    /// soft one that runs on past that merges what is newest, which can only make it forget later.
    pub fn push(&mut self, cost: u64, now: Timestamp) {
        let newest = self.entries.back().map_or(0, |entry| entry.at);
        let entry = Entry {
            at: now.nanos().max(newest),
            total: self.dropped.wrapping_add(self.total().saturating_add(cost)),
        };
        let full = self.entries.len() >= MAX_ENTRIES;
        match self.entries.back_mut() {
            Some(last) if full || last.at == entry.at => *last = entry,
            _ => self.entries.push_back(entry),
        }
    }

    /// Takes back what was admitted last, up to `cost`, no more than is there.
    pub fn take_back(&mut self, cost: u64) {
        let left = self.total().saturating_sub(cost);
        while let Some(entry) = self.entries.pop_back() {
            if self.total() < left {
                let total = self.dropped.wrapping_add(left);
                self.entries.push_back(Entry { at: entry.at, total });
                return;
            }
        }
    }

    /// Takes back up to `cost` of what was admitted at one instant, and nothing of any other.
    pub fn forgive(&mut self, at: u64, cost: u64) {
        let place = self.entries.partition_point(|entry| entry.at < at);
        let Some(entry) = self.entries.get(place).filter(|entry| entry.at == at) else {
            return;
        };
        let before = place
            .checked_sub(1)
            .map_or(self.dropped, |last| self.entries[last].total);
        let own = entry.total.wrapping_sub(before);
        let back = cost.min(own);
        for entry in self.entries.range_mut(place..) {
            entry.total = entry.total.wrapping_sub(back);
        }
        if back == own {
            self.entries.remove(place);
        }
    }

    /// How many entries are held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Gives back memory that a past burst needed and the present does not.
    pub fn trim(&mut self) {
        if self.entries.capacity() > 32 && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// The sum of all entries that are held.
    fn total(&self) -> u64 {
        self.entries.back().map_or(0, |entry| self.held(entry))
    }

    /// The sum of the entries that are held up to and with this one.
    fn held(&self, entry: &Entry) -> u64 {
        entry.total.wrapping_sub(self.dropped)
    }

    /// Drops what had left when something was last charged. Whatever left since may be wanted again: a
    /// clock that was ahead when somebody only looked may be put right.
    fn drop_left(&mut self, window_ns: u64, newest: u64) {
        while let Some(entry) = self.entries.front() {
            if !has_left(entry, window_ns, newest) {
                break;
            }
            self.dropped = entry.total;
            self.entries.pop_front();
        }
    }

    /// When `cost`, or one unit for a cost of 0, fits; if it fits already, when the oldest entry that
    /// counts leaves; 0 with none.
    fn room_at(&self, rule: &Rule, oldest: usize, left: u64, cost: u64) -> u64 {
        let wanted = (self.total() - left).saturating_add(cost.max(1));
        let over = wanted.saturating_sub(rule.limit);
        let leaver = if over == 0 {
            oldest
        } else {
            let enough = left.saturating_add(over);
            self.entries.partition_point(|entry| self.held(entry) < enough)
        };
        self.entries
            .get(leaver)
            .map_or(0, |entry| entry.at.saturating_add(rule.window_ns))
    }
}

fn has_left(entry: &Entry, window_ns: u64, now: u64) -> bool {
    entry.at.saturating_add(window_ns) <= now
}

#[inline]
pub(crate) fn fits(rule: &Rule, cell: Cell, cost: u64) -> bool {
    cell.0[0].saturating_add(cost) <= rule.limit
}

pub(crate) fn charge(rule: &Rule, cell: Cell, cost: u64, now: Timestamp) -> Cell {
    let [used, newest, room_at] = cell.0;
    let at = now.nanos().max(newest);
    let room_at = if room_at == 0 {
        at.saturating_add(rule.window_ns)
    } else {
        room_at
    };
    Cell([used.saturating_add(cost), at, room_at])
}

pub(crate) fn remaining(rule: &Rule, cell: Cell) -> u64 {
    rule.limit.saturating_sub(cell.0[0])
}

/// The time until the newest entry leaves and the log is empty.
pub(crate) fn reset(rule: &Rule, cell: Cell, now: Timestamp) -> Nanos {
    if cell.0[0] == 0 {
        return 0;
    }
    now.until_nanos(cell.0[1].saturating_add(rule.window_ns))
}

/// The time until the room the summary was made for comes.
pub(crate) fn wait(cell: Cell, now: Timestamp) -> Nanos {
    now.until_nanos(cell.0[2])
}
