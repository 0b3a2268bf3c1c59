//! Sliding window log: every admission is remembered until its age reaches the window.

use std::collections::VecDeque;

use crate::cell::Cell;
use crate::rule::{MAX_LOG_LIMIT, Rule};
use crate::time::{Nanos, Timestamp};

#[expect(clippy::cast_possible_truncation, reason = "100,000 fits everywhere")]
const MAX_ENTRIES: usize = MAX_LOG_LIMIT as usize;

#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    /// Everything ever admitted up to and with this entry: differences of two are exact sums, so finding
    /// the moment at which enough room comes back is a binary search.
    total: u64,
}

/// The admissions of one sliding-log counter, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The total up to the newest entry that has already left.
    left: u64,
}

impl Log {
    /// Forgets what has reached the window's age, and sums up the rest for [`crate::stack::decide`].
    pub fn summary(&mut self, rule: &Rule, cost: u64, now: Timestamp) -> Cell {
        self.expire(rule.window_ns, now);
        let used = self.used();
        let newest = self.entries.back().map_or(0, |entry| entry.at);
        Cell([used, newest, self.room_at(rule, used, cost)])
    }

    /// Remembers an admission. An earlier clock than before counts as the latest time seen. An enforced log
    /// holds at most its limit; a soft one that runs on past that merges what is newest, which can only make
    /// it forget later.
    pub fn push(&mut self, cost: u64, now: Timestamp) {
        let (newest, total) = self
            .entries
            .back()
            .map_or((0, self.left), |entry| (entry.at, entry.total));
        let entry = Entry {
            at: now.nanos().max(newest),
            total: total.saturating_add(cost),
        };
        let full = self.entries.len() >= MAX_ENTRIES;
        match self.entries.back_mut() {
            Some(last) if full || last.at == entry.at => *last = entry,
            _ => self.entries.push_back(entry),
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

    fn used(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.total - self.left)
    }

    fn expire(&mut self, window_ns: u64, now: Timestamp) {
        while let Some(entry) = self.entries.front() {
            if entry.at.saturating_add(window_ns) > now.nanos() {
                break;
            }
            self.left = entry.total;
            self.entries.pop_front();
        }
    }

    /// When `cost` fits, or if it fits already, when the oldest entry leaves; 0 with none.
    fn room_at(&self, rule: &Rule, used: u64, cost: u64) -> u64 {
        let over = used.saturating_add(cost).saturating_sub(rule.limit);
        let leaver = if over == 0 {
            0
        } else {
            self.entries
                .partition_point(|entry| entry.total - self.left < over)
        };
        self.entries
            .get(leaver)
            .map_or(0, |entry| entry.at.saturating_add(rule.window_ns))
    }
}

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
