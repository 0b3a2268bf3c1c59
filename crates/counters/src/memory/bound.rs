//! What bounds a stack besides its limits: how far a ledger allows quotas to be counted.

use tollgate_core::{Allowance, Cell, Level, Mode, Outcome};

use super::Places;
use super::held::Held;
use super::journal::Journal;

/// A bound that is asked about each level while the shards are locked.
pub(super) trait Bound {
    /// What is charged may be given back.
    const HOLDS: bool = false;
    /// Sees a level that was looked at.
    fn look(&mut self, place: usize, level: &Level<'_>, outcome: &Outcome);
    /// Whether the stack can't be decided.
    fn is_short(&mut self, allowed: bool) -> bool;
    /// Sees the cell of a level that is charged.
    fn charged(&mut self, place: usize, level: &Level<'_>, cell: Cell);
    /// Takes what was charged and may be given back.
    fn held(&mut self, _: Held) {}
}

/// None.
pub(super) struct Unbounded;

impl Bound for Unbounded {
    #[inline]
    fn look(&mut self, _: usize, _: &Level<'_>, _: &Outcome) {}

    #[inline]
    fn is_short(&mut self, _: bool) -> bool {
        false
    }

    #[inline]
    fn charged(&mut self, _: usize, _: &Level<'_>, _: Cell) {}
}

/// What a ledger allows of a stack's quotas.
#[derive(Debug)]
pub struct OfLedger<'a> {
    let_off: &'a [usize],
    /// Of some quota nobody knows yet what was used in its period.
    unknown: bool,
    places: Places,
    journal: Option<&'a Journal>,
}

impl<'a> OfLedger<'a> {
    /// For all quotas but those that are let off. What is left of them is noted in the journal.
    #[inline]
    pub fn new(let_off: &'a [usize], journal: Option<&'a Journal>) -> Self {
        Self {
            let_off,
            unknown: false,
            places: Places::new(),
            journal,
        }
    }

    /// Notes a quota that its allowance does not cover, unless it can do without.
    #[inline(never)]
    fn note_short(&mut self, place: usize, level: &Level<'_>, outcome: &Outcome) {
        if self.let_off.contains(&place) {
            return;
        }
        let unknown = Allowance::of(outcome.cell).is_none();
        self.unknown |= unknown;
        // What refuses nothing goes on without, and what the limit itself denies needs none.
        let needs = level.mode == Mode::Enforce && level.cost > 0 && outcome.fits;
        if unknown || needs {
            self.places.push(place);
        }
    }

    /// The places of quotas that are short, or once the stack is decided of those that run low.
    #[inline]
    pub fn places(&self) -> &[usize] {
        &self.places
    }
}

impl Bound for &mut OfLedger<'_> {
    #[expect(
        clippy::inline_always,
        reason = "it is asked of each level, and most are no quotas"
    )]
    #[inline(always)]
    fn look(&mut self, place: usize, level: &Level<'_>, outcome: &Outcome) {
        if !level.rule.is_quota() {
            return;
        }
        let allowance = Allowance::of(outcome.cell);
        if allowance.is_none_or(|allowance| !allowance.covers(outcome.cell.count(), level.cost)) {
            self.note_short(place, level, outcome);
        }
    }

    /// A stack that is denied needs no more allowance, but all that its answer tells has to be known.
    #[inline]
    fn is_short(&mut self, allowed: bool) -> bool {
        if !allowed && !self.unknown {
            self.places.clear();
        }
        !self.places.is_empty()
    }

    #[expect(
        clippy::inline_always,
        reason = "it is asked of each level, and most are no quotas"
    )]
    #[inline(always)]
    fn charged(&mut self, place: usize, level: &Level<'_>, cell: Cell) {
        if level.rule.is_quota()
            && let Some(allowance) = Allowance::of(cell)
        {
            if let Some(journal) = self.journal {
                journal.charged(level.key, allowance.headroom(cell.count()));
            }
            if allowance.ran_low(cell.count(), level.cost) {
                self.places.push(place);
            }
        }
    }
}
