//! What a worker and one of its connections know of each other.
//!
//! How long a connection may take over what it is at is a deadline that the worker looks at now and then, so that a
//! request costs no timer.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::budget::{Budget, Holding};
use super::turns::{Lane, Turns};
use super::{Limits, ticks};

/// How long a connection waits for its client to close.
const LINGER: Duration = Duration::from_secs(2);
/// How long a connection without a request is still read from once no more connections are taken: what its client has
/// sent until it heard of that is answered.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// A connection that has not shown for so long that it is somebody's gives way to others.
const SILENT: Duration = Duration::from_secs(1);
/// A connection without a request for so long gives way to others.
const RESTING: Duration = Duration::from_secs(5);

/// What the worker may know of a connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The tick of the worker at which the connection is ended.
    deadline: Cell<u64>,
    /// The tick at which it began.
    began: Cell<u64>,
    /// The tick since which it waits for a request, or is at one.
    since: Cell<u64>,
    /// It waits for a request and owes no answer.
    idle: Cell<bool>,
    /// A whole request of somebody who may ask has come.
    known: Cell<bool>,
    /// It ends once nothing is left to be read.
    leaves: Cell<bool>,
    /// Wakes it while it is idle.
    waker: RefCell<Option<Waker>>,
}

/// What is to be done with a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Let it be.
    Stays,
    /// It was told to leave, and does so by itself.
    Leaves,
    /// It is out of time.
    Ends,
}

impl State {
    /// One that has just been accepted.
    pub(super) fn begun(tick: u64, limits: &Limits) -> Self {
        let state = Self::default();
        // Its own deadlines begin with its first turn, which a tick may come before.
        state.deadline.set(tick + ticks(limits.idle_timeout));
        state.began.set(tick);
        state.since.set(tick);
        state
    }

    /// Looks at the clock.
    pub(super) fn at(&self, tick: u64) -> Verdict {
        if self.deadline.get() >= tick {
            return Verdict::Stays;
        }
        if !self.idle.get() || self.leaves.get() {
            return Verdict::Ends;
        }
        // A request may have arrived that it has not read yet.
        self.leave(tick);
        Verdict::Leaves
    }

    /// No further connections are taken: who is idle is waited for a moment longer.
    pub(super) fn hurry(&self, tick: u64) {
        if self.idle.get() {
            let end = tick + ticks(LAST_REQUESTS);
            self.deadline.set(self.deadline.get().min(end));
        }
    }

    /// Has it read once more, and leave if there is nothing.
    pub(super) fn leave(&self, tick: u64) {
        self.leaves.set(true);
        self.deadline.set(tick + ticks(LINGER));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// True if nobody who may ask has been heard on it, and it was given time for that.
    pub(super) fn is_silent(&self, tick: u64) -> bool {
        !self.known.get() && !self.leaves.get() && tick >= self.began.get() + ticks(SILENT)
    }

    /// The tick since which it has rested, if that is long enough to give way.
    pub(super) fn rests_since(&self, tick: u64) -> Option<u64> {
        let since = self.since.get();
        let rests = self.idle.get() && !self.leaves.get() && tick >= since + ticks(RESTING);
        rests.then_some(since)
    }
}

/// What all connections of a worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The worker's clock, in ticks.
    pub(super) tick: Cell<u64>,
    /// No further request is taken.
    pub(super) stopping: Cell<bool>,
    /// Where those pass that have much to decide.
    pub(super) lane: Rc<Lane>,
}

/// A connection's side.
#[derive(Debug)]
pub struct Line {
    shared: Rc<Shared>,
    state: Rc<State>,
    budget: Arc<Budget>,
    /// What it may take up.
    pub limits: Limits,
    /// Who is at the other end.
    pub peer: IpAddr,
    /// How much it may decide before others.
    pub turns: Turns,
}

impl Line {
    pub(super) fn new(
        shared: &Rc<Shared>,
        state: &Rc<State>,
        budget: &Arc<Budget>,
        limits: Limits,
        peer: IpAddr,
    ) -> Self {
        Self {
            shared: shared.clone(),
            state: state.clone(),
            budget: budget.clone(),
            limits,
            peer,
            turns: Turns::at(shared.lane.clone()),
        }
    }

    /// From now on waits for a request.
    pub fn idles(&self) {
        let timeout = if self.shared.stopping.get() {
            LAST_REQUESTS
        } else {
            self.limits.idle_timeout
        };
        self.expects(true, ticks(timeout));
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

    /// Of one that keeps its own time: whether any request is under way. Once it is to end, either has its own time.
    pub fn rests(&self, idle: bool) {
        let now = self.tick();
        self.state.idle.set(idle);
        self.state.since.set(now);
        if !idle && self.is_stopping() {
            self.state.deadline.set(now + ticks(self.limits.request_timeout));
        } else if idle && self.shared.stopping.get() && !self.state.leaves.get() {
            self.state.deadline.set(now + ticks(LAST_REQUESTS));
        }
    }

    /// Of one that keeps its own time: its client has to take what it was sent, and has so long for that.
    pub fn stalls(&self) {
        if self.state.deadline.get() == u64::MAX {
            let timeout = ticks(self.limits.request_timeout);
            self.state.deadline.set(self.tick() + timeout);
        }
    }

    /// Of one that keeps its own time: its client has taken what it was sent.
    pub fn flows(&self) {
        if !self.is_stopping() {
            self.state.deadline.set(u64::MAX);
        }
    }

    /// A whole request of somebody who may ask has come: from now on others give way first.
    pub fn mark_known(&self) {
        self.state.known.set(true);
    }

    fn expects(&self, idle: bool, ticks: u64) {
        let now = self.tick();
        self.state.idle.set(idle);
        self.state.since.set(now);
        self.state.deadline.set(now + ticks);
    }

    /// Reads on while idle. Nothing comes if the client has closed, or if this one is to leave.
    pub async fn read_idle(&self, stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> bool {
        let mut read = pin!(stream.read_buf(buffer));
        let read = poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(read) => Poll::Ready(matches!(read, Ok(1..))),
            Poll::Pending => self.poll_leave(context).map(|()| false),
        });
        read.await
    }

    /// Comes back once it is to leave.
    pub fn poll_leave(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.state.leaves.get() {
            return Poll::Ready(());
        }
        let mut waker = self.state.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|known| known.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// A part of what all clients may make the server hold of requests that are not whole, of nothing yet.
    pub fn part(&self) -> Holding {
        self.budget.part_of(self.peer)
    }

    /// The worker's clock.
    pub fn tick(&self) -> u64 {
        self.shared.tick.get()
    }

    /// True if no further request is taken.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.get() || self.state.leaves.get()
    }
}
