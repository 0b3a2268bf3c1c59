//! What was resolved and decided of a request.

use std::cell::RefCell;

use tollgate_catalog::snapshot::{Snapshot, Stack};
use tollgate_core::{Decision, Timestamp};
use tollgate_counters::Holds;
use tollgate_counters::shared::node::Charges;

use super::Said;

/// A decided request.
pub struct Checked<'s> {
    /// What applied.
    pub stack: Stack<'s>,
    /// What was decided.
    pub decision: Decision,
    /// When.
    pub now: Timestamp,
    /// A fallback decided, because the shared store is away.
    pub degraded: bool,
    /// What was charged here, if that may be given back.
    pub held: Option<Box<Holds>>,
    /// The same where a fleet counts, by the places of the stack.
    pub charges: Option<Box<RefCell<Charges>>>,
}

impl<'s> Checked<'s> {
    /// Nothing that was resolved or decided yet.
    #[inline]
    pub fn blank(snapshot: &'s Snapshot, now: Timestamp) -> Self {
        Self {
            stack: snapshot.blank(),
            decision: Decision::pending(),
            now,
            degraded: false,
            held: None,
            charges: None,
        }
    }
}

impl Checked<'_> {
    /// Nothing that was decided yet. The stack may be another request's.
    #[inline]
    pub(super) fn renew(&mut self, now: Timestamp) {
        self.decision.renew();
        self.now = now;
        self.degraded = false;
        self.held = None;
        self.charges = None;
    }

    pub(super) fn was_said(&mut self, said: Said) {
        self.now = said.at;
        self.degraded = said.degraded;
    }

    /// The policy that refuses.
    pub fn binding_id(&self) -> Option<&str> {
        self.decision.binding.map(|place| &*self.stack.limits[place].id)
    }
}
