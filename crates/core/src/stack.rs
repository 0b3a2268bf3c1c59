//! The decision on a stack of limits: all charged, or none.

use smallvec::SmallVec;

use crate::calendar::Calendar;
use crate::cell::Cell;
use crate::key::CounterKey;
use crate::rule::Rule;
use crate::time::Timestamp;

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
}

/// What became of one level.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// It had room.
    pub fits: bool,
    /// It was charged.
    pub charged: bool,
    /// The cell brought to now, before any charge.
    pub before: Cell,
    /// The cell after the decision.
    pub after: Cell,
}

/// The outcomes of a stack's levels, in its order. Stacks are short; a usual one stays off the heap.
pub type Outcomes = SmallVec<[Outcome; 4]>;

/// Decides a stack on copies of its cells: allowed if every enforced level has room, and then each level
/// that has room, or is soft, is charged. The store writes back the cells of charged levels and no others.
pub fn decide(levels: &[Level<'_>], cells: impl Iterator<Item = Cell>, now: Timestamp) -> (bool, Outcomes) {
    let mut allowed = true;
    let mut outcomes: Outcomes = levels
        .iter()
        .zip(cells)
        .map(|(level, cell)| {
            let overdraw = level.mode == Mode::Soft;
            let cell = level.rule.advance(cell, level.calendar, now, overdraw);
            let fits = level.rule.fits(cell, level.cost, now);
            allowed &= fits || level.mode != Mode::Enforce;
            Outcome {
                fits,
                charged: false,
                before: cell,
                after: cell,
            }
        })
        .collect();
    debug_assert_eq!(outcomes.len(), levels.len());
    if allowed {
        for (level, outcome) in levels.iter().zip(&mut outcomes) {
            if level.cost > 0 && (outcome.fits || level.mode == Mode::Soft) {
                outcome.charged = true;
                outcome.after = level.rule.charge(outcome.before, level.cost, now);
            }
        }
    }
    (allowed, outcomes)
}
