//! A request's turn: what it is decided by, and how it goes on after it had to wait for the shared store.
//!
//! Routes are plain functions. One that can't decide yet says what it [`Waits`] for; the connection waits, and calls
//! it again with what it has heard. The request is then read once more, which costs far less than the way to the store.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::Guard;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;
use tollgate_counters::shared::Wait;
use tollgate_counters::shared::node::Answer;

use crate::clock;
use crate::engine::{Engine, MOST_WAITS};

/// The snapshot a request is decided by: borrowed, or while it waits held on to.
enum Held {
    Borrowed(Guard<Arc<Snapshot>>),
    Kept(Arc<Snapshot>),
}

/// A request's turn.
pub(super) struct Turn {
    snapshot: Held,
    /// The instant it is decided at.
    pub(super) now: Timestamp,
    /// When it arrived.
    pub(super) started: Instant,
    /// How many of a batch are decided already.
    pub(super) decided: usize,
    /// What the one at hand waited for.
    pub(super) answer: Cell<Option<Answer>>,
    /// How often it has waited.
    waits: u32,
}

/// A turn that has to wait.
pub(super) struct Waits {
    wait: Wait,
    turn: Turn,
}

impl Turn {
    /// A request that has just arrived.
    pub(super) fn begin(engine: &Engine) -> Self {
        let started = Instant::now();
        Self {
            snapshot: Held::Borrowed(engine.snapshot()),
            now: clock::now(),
            started,
            decided: 0,
            answer: Cell::default(),
            waits: 0,
        }
    }

    /// What it is decided by.
    pub(super) fn snapshot(&self) -> &Snapshot {
        match &self.snapshot {
            Held::Borrowed(snapshot) => snapshot,
            Held::Kept(snapshot) => snapshot,
        }
    }

    /// Breaks off until the store has been heard, with so many of a batch decided.
    pub(super) fn wait(self, wait: Wait, decided: usize) -> Waits {
        let snapshot = match self.snapshot {
            Held::Borrowed(snapshot) => Guard::into_inner(snapshot),
            Held::Kept(snapshot) => snapshot,
        };
        Waits {
            wait,
            turn: Self {
                snapshot: Held::Kept(snapshot),
                decided,
                waits: if decided == self.decided { self.waits } else { 0 },
                ..self
            },
        }
    }
}

impl Waits {
    /// Waits for the answer, or until there will be none.
    pub(super) async fn heard(self) -> Turn {
        let waits = self.turn.waits + 1;
        Turn {
            answer: Cell::new(Some(self.wait.answer(waits < MOST_WAITS).await)),
            waits,
            ..self.turn
        }
    }
}
