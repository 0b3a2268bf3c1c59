//! What one level of a decided stack shows to the caller.

use crate::cell::Cell;
use crate::stack::{Level, Outcome};
use crate::time::{Nanos, Timestamp};

/// One level after the decision. Computed after the store has let go of its locks, since it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The level had no room for its cost.
    pub violated: bool,
    /// What is left after the decision, rounded down.
    pub remaining: u64,
    /// The time to the window's end; for buckets until full (leaky: empty).
    pub reset: Nanos,
    /// The time until the same cost would fit; `None` if it never will.
    pub wait: Option<Nanos>,
    /// How long an admitted request should be held back.
    pub delay: Nanos,
    cell: Cell,
}

impl Reading {
    /// Reads a level off its outcome.
    pub fn of(level: &Level<'_>, outcome: &Outcome, now: Timestamp) -> Self {
        let cell = outcome.after;
        let wait = if outcome.fits {
            Some(0)
        } else {
            level.rule.wait(outcome.before, level.cost, now)
        };
        let delay = if outcome.charged {
            level.rule.turn(outcome.before, now)
        } else {
            0
        };
        Self {
            violated: !outcome.fits,
            remaining: level.rule.remaining(cell, now),
            reset: level.rule.reset(cell, now),
            wait,
            delay,
            cell,
        }
    }

    /// The time a client is told in the `t` of `RateLimit`: a violated level's own wait, else until the
    /// window's end, or one more unit where units come back one by one.
    pub fn advice(&self, level: &Level<'_>, now: Timestamp) -> Option<Nanos> {
        if self.violated {
            self.wait
        } else {
            Some(level.rule.next_unit(self.cell, now))
        }
    }
}
