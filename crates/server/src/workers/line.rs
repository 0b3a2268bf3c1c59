//! What a worker and one of its connections know of each other.
//!
//! How long a connection may take over what it is at is a deadline that the worker looks at now and then, so that a
//! request costs no timer.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use std::time::Duration;

use super::{Limits, ticks};

/// How long a connection waits for its client to close.
const LINGER: Duration = Duration::from_secs(2);

/// What the worker may know of a connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The tick of the worker at which the connection is ended.
    pub(super) deadline: Cell<u64>,
    /// It waits for a request and owes no answer.
    pub(super) idle: Cell<bool>,
}

/// What all connections of a worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The worker's clock, in ticks.
    pub(super) tick: Cell<u64>,
    /// No further request is taken.
    pub(super) stopping: Cell<bool>,
}

/// A connection's side.
#[derive(Debug)]
pub struct Line {
    pub(super) shared: Rc<Shared>,
    pub(super) state: Rc<State>,
    /// What it may take up.
    pub limits: Limits,
    /// Who is at the other end.
    pub peer: IpAddr,
}

impl Line {
    /// From now on waits for a request.
    pub fn idles(&self) {
        self.expects(true, ticks(self.limits.idle_timeout));
    }

    /// From now on has so long to take a request and answer it.
    pub fn works(&self) {
        self.expects(false, ticks(self.limits.request_timeout));
    }

    /// From now on waits for the client to close, which has been told all there is to tell.
    pub fn lingers(&self) {
        self.expects(false, ticks(LINGER));
    }

    /// From now on keeps its own time, and ends by itself when no further request is taken.
    pub fn lasts(&self) {
        self.state.idle.set(false);
        self.state.deadline.set(u64::MAX);
    }

    fn expects(&self, idle: bool, ticks: u64) {
        self.state.idle.set(idle);
        self.state.deadline.set(self.tick() + ticks);
    }

    /// The worker's clock.
    pub fn tick(&self) -> u64 {
        self.shared.tick.get()
    }

    /// Whether no further request is taken.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.get()
    }
}
