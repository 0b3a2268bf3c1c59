//! The decision on a stack of limits: all charged, or none.

use smallvec::SmallVec;

use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::decision::Decision;
use crate::key::CounterKey;
use crate::rule::Rule;
use crate::time::{Nanos, Timestamp};

/// What a limit does when it has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Refuses.
    #[default]
    Enforce,
    /// Counts as if it refused, and only reports it.
    Shadow,
    /// Never refuses; counts on past the limit.
    Soft,
}

/// One limit of a stack, with the counter it means for this request.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    /// The limit's numbers.
    pub rule: &'a Rule,
    /// The calendar of its quota.
    pub calendar: Calendar<'a>,
    /// What it does without room.
    pub mode: Mode,
    /// What this request costs it.
    pub cost: u64,
    /// Whose count it is.
    pub key: CounterKey,
    /// Counters with the same home are decided under one lock: an org's all have its hash.
    pub home: u64,
}

/// A counter that a level's own replaces since a policy was changed. While the new one is untouched it has
/// no more room than the old one had left.
#[derive(Debug, Clone, Copy)]
pub struct Former<'a> {
    /// The level it belongs to, by its place in the stack.
    pub level: usize,
    /// The old limit's numbers.
    pub rule: &'a Rule,
    /// The calendar of its quota.
    pub calendar: Calendar<'a>,
    /// Whose count it was.
    pub key: CounterKey,
    /// Where it lives.
    pub home: u64,
    /// When it was left. Where it is out of reach, it is taken to have been used up then.
    pub left: Timestamp,
    /// Whether it is the same count by another name: what it has used is what is used, by whichever numbers that is judged.
    pub goes_on: bool,
    /// Whether it has all that the level's own counter would have counted. If not, others have the rest, and nobody
    /// knows all of them: then everything is taken to have been used up.
    pub whole: bool,
}

/// What became of one level.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// It had room.
    pub fits: bool,
    /// It was charged.
    pub charged: bool,
    /// The cell after the decision: brought to now, and charged if it was.
    pub cell: Cell,
    /// What is left after the decision, rounded down. Filled in by [`Decision::sum_up`].
    pub remaining: u64,
}

/// The outcomes of a stack's levels, in its order. Stacks are short; a usual one stays off the heap.
pub type Outcomes = SmallVec<[Outcome; 4]>;

impl Outcome {
    /// Brings a level's cell to now and looks whether the level has room.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub fn of(level: &Level<'_>, cell: Cell, now: Timestamp) -> Self {
        let overdraw = level.mode == Mode::Soft;
        let (cell, fits) = level.rule.look(cell, &level.calendar, level.cost, now, overdraw);
        Self {
            fits,
            charged: false,
            cell,
            remaining: 0,
        }
    }

    /// Whether the stack can still be allowed.
    #[inline]
    pub fn passes(&self, level: &Level<'_>) -> bool {
        self.fits || level.mode != Mode::Enforce
    }

    /// Whether a level of an allowed stack is charged: if it has room or is soft.
    #[inline]
    pub fn is_charged(&self, level: &Level<'_>) -> bool {
        level.cost > 0 && (self.fits || level.mode == Mode::Soft)
    }

    /// Charges a level of an allowed stack, if it is to be, and says what its cell is then.
    #[inline]
    pub fn charge(&mut self, level: &Level<'_>, now: Timestamp) -> Option<Cell> {
        if !self.is_charged(level) {
            return None;
        }
        let cell = level.rule.charge(self.cell, level.cost, now);
        self.charged = true;
        self.cell = cell;
        Some(cell)
    }

    /// The time to the window's end; for buckets until full (leaky: empty).
    pub fn reset(&self, level: &Level<'_>, now: Timestamp) -> Nanos {
        level.rule.reset(self.cell, now)
    }

    /// The time until the same cost would fit; `None` if it never will. A soft level that was charged past its
    /// limit has let the request through, so there is nothing to wait for.
    pub fn wait(&self, level: &Level<'_>, now: Timestamp) -> Option<Nanos> {
        if self.fits || self.charged {
            return Some(0);
        }
        level.rule.wait(self.cell, level.cost, now)
    }

    /// How long an admitted request should be held back.
    pub fn delay(&self, level: &Level<'_>, now: Timestamp) -> Nanos {
        if self.charged {
            level.rule.turn(self.cell, level.cost, now)
        } else {
            0
        }
    }

    /// The time a client is told in the `t` of `RateLimit`: a violated level's own wait, else until the
    /// window's end, or one more unit where units come back one by one.
    pub fn advice(&self, level: &Level<'_>, now: Timestamp) -> Option<Nanos> {
        if self.fits {
            Some(level.rule.next_unit(self.cell, now))
        } else {
            self.wait(level, now)
        }
    }
}

/// Decides a stack on copies of its cells: allowed if every enforced level has room, and then each level
/// that has room, or is soft, is charged. A store writes back the cells of charged levels and no others.
pub fn decide(levels: &[Level<'_>], cells: impl Iterator<Item = Cell>, now: Timestamp) -> Decision {
    let mut decision = Decision::pending();
    for (level, cell) in levels.iter().zip(cells) {
        decision.look(level, cell, now);
    }
    debug_assert_eq!(decision.outcomes.len(), levels.len());
    decision.charge(levels, now);
    decision.sum_up(levels, now);
    decision
}
