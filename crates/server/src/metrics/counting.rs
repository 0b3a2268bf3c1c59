//! Decisions counted one after the other on one thread, those of a kind at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::Guard;

use super::labels::Slots;
use super::{Block, Metrics, classify};
use crate::engine::Checked;

/// What was counted stands in the thread's block once this is dropped.
pub struct Counting<'m> {
    slots: Guard<Arc<Slots>>,
    block: &'m Block,
    /// The cell of the last decision, and how many in a row were of it.
    cell: usize,
    run: u64,
}

impl Metrics {
    /// Begins to count.
    #[inline]
    pub fn counting(&self) -> Counting<'_> {
        Counting {
            slots: self.slots.load(),
            block: self.block(),
            cell: 0,
            run: 0,
        }
    }
}

impl Counting<'_> {
    /// Counts a decision.
    #[inline]
    pub fn count(&mut self, checked: &Checked<'_>) {
        let (outcome, scope) = classify(checked);
        let stack = &checked.stack;
        let cell = self.slots.cell(outcome, scope, stack.tier_index, stack.class);
        if cell != self.cell {
            self.note();
            self.cell = cell;
        }
        self.run += 1;
    }

    fn note(&mut self) {
        let run = std::mem::take(&mut self.run);
        self.block.decisions[self.cell].fetch_add(run, Ordering::Relaxed);
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.note();
    }
}
