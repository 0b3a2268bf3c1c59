//! A request's turn: what it is decided by, and how it goes on after it had to wait for the shared store or the ledger.
//!
//! Routes are plain functions. One that can't decide yet says what it [`Waits`] for; the connection waits, and calls
//! it again with what it has heard. The request is then read once more, which costs far less than the way to the store.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use arc_swap::Guard;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::Timestamp;

use crate::clock;
use crate::engine::{Done, Engine, Heard, Patience, Wait};
use crate::reservations::{Claim, FleetClaim, Said, Settling, Undo};

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
    /// Which of several attempts to decide it was waiting.
    pub(super) attempt: Cell<usize>,
    /// What it waited for.
    pub(super) answer: Cell<Option<Heard>>,
    /// What is to be done once, and is undone if it is not answered.
    pub(super) underway: Cell<Option<Box<Underway>>>,
    /// Whether its org may ask for a decision was asked already, before the fleet was.
    pub(super) has_leave: Cell<bool>,
    /// How often and until when it waits.
    patience: Patience,
}

/// What a turn has claimed for itself.
#[derive(Default)]
pub(super) struct Underway {
    /// The key of a request.
    pub(super) claim: Option<Claim>,
    /// The same in all of a fleet.
    pub(super) in_fleet: Option<FleetClaim>,
    /// A reservation.
    pub(super) settling: Option<Settling>,
    /// What is said once the fleet has on record what was charged; until when that is repeated, and what can be taken
    /// back of it.
    pub(super) said: Option<(Said, Option<Timestamp>, Undo)>,
}

/// A turn that has to wait.
pub(super) struct Waits {
    /// What for.
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
            attempt: Cell::new(0),
            answer: Cell::default(),
            underway: Cell::default(),
            has_leave: Cell::new(false),
            patience: Patience::default(),
        }
    }

    /// What it is decided by.
    pub(super) fn snapshot(&self) -> &Snapshot {
        match &self.snapshot {
            Held::Borrowed(snapshot) => snapshot,
            Held::Kept(snapshot) => snapshot,
        }
    }

    /// The same, for whoever goes on without it.
    pub(super) fn snapshot_kept(&self) -> Arc<Snapshot> {
        match &self.snapshot {
            Held::Borrowed(snapshot) => Arc::clone(snapshot),
            Held::Kept(snapshot) => snapshot.clone(),
        }
    }

    /// What was done with what the fleet has on record, if that was waited for.
    pub(super) fn done(&self) -> Option<Done> {
        match self.answer.take() {
            Some(Heard::Desk(done)) => Some(done),
            other => {
                self.answer.set(other);
                None
            }
        }
    }

    /// Breaks off until the store has been heard.
    pub(super) fn wait(self, wait: Wait) -> Waits {
        Waits {
            wait,
            turn: self.held(),
        }
    }

    fn held(self) -> Self {
        let snapshot = match self.snapshot {
            Held::Borrowed(snapshot) => Guard::into_inner(snapshot),
            Held::Kept(snapshot) => snapshot,
        };
        Self {
            snapshot: Held::Kept(snapshot),
            ..self
        }
    }
}

impl Waits {
    /// Waits for the answer, or until there will be none.
    pub(super) async fn heard(self) -> Turn {
        let mut turn = self.turn;
        let answer = self.wait.answer(&mut turn.patience).await;
        turn.answer.set(Some(answer));
        turn
    }
}

/// What all of some futures come to.
pub(super) async fn all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut left: Vec<Pin<Box<_>>> = futures.map(Box::pin).collect();
    let mut ready = Vec::with_capacity(left.len());
    poll_fn(|context| {
        left.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(output) => {
                ready.push(output);
                false
            }
            Poll::Pending => true,
        });
        if left.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    ready
}
