//! The shared store as a server uses it: a node that decides, and somebody who carries its calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tollgate_core::{Decision, Level, Timestamp};

use super::call::Reply;
use super::crowd::{Crowd, Place};
use super::node::{Answer, Asked, Claim, Fail, Fallback, Holdings, Mono, Node, Outgoing, Step, Waiter};
use crate::memory::{Commit, MemoryStore, StoreFull};
use crate::sync::{AtomicU64, Ordering};

/// Whoever carries calls to the store.
pub trait Carrier: Send + Sync {
    /// Carries a call. `then` hears the reply, once, whenever it comes; or that there is none.
    fn carry(&self, outgoing: Outgoing, then: Box<dyn FnOnce(Option<Reply>) + Send>);

    /// Whether it is known that calls about counters with this tag get no answer now.
    fn is_away(&self, tag: &str) -> bool;
}

/// After so long without an answer it is looked at whether the store is there at all.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A store that is there, but slow, is waited for so long unless it is said otherwise: what is decided without it may be too
/// much (docs/adr/0014-how-long-to-wait-for-redis.md).
pub const PATIENCE: Duration = Duration::from_millis(25);

/// A request that waits for the store.
pub struct Wait {
    receiver: oneshot::Receiver<Answer>,
    store: Arc<SharedStore>,
    tag: Arc<str>,
    /// When the request began to wait.
    since: Instant,
    _place: Place,
}

impl Wait {
    /// The end of the time that a request waits for the store, if this is the first time that it has to.
    pub fn deadline(&self) -> Instant {
        self.since + self.store.patience()
    }

    /// What the store says by the deadline, or that it is unavailable. Whoever stops waiting drops this. Whoever will not
    /// decide again has waited for nothing if that would have to be done, and what was lent meanwhile goes back.
    pub async fn answer(self, again: bool, deadline: Instant) -> Answer {
        let Self {
            mut receiver,
            store,
            tag,
            since: _,
            _place,
        } = self;
        loop {
            let due = deadline.min(Instant::now() + LOOK_EVERY);
            match timeout_at(due.into(), &mut receiver).await {
                Ok(Ok(Answer::Again(claim))) if !again => {
                    store.node.forgo(claim);
                    return Answer::Away;
                }
                Ok(answer) => return answer.unwrap_or(Answer::Away),
                Err(_) if Instant::now() >= deadline || store.carrier.is_away(&tag) => break,
                Err(_) => {}
            }
        }
        // What was said while the last look was taken is not lost.
        receiver.close();
        match receiver.try_recv() {
            Ok(Answer::Again(claim)) => {
                store.node.forgo(claim);
                Answer::Away
            }
            answer => answer.unwrap_or(Answer::Away),
        }
    }
}

impl std::fmt::Debug for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wait")
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

impl Waiter for oneshot::Sender<Answer> {
    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}

/// How far a decision has come.
#[derive(Debug)]
pub enum Taken {
    /// It is made, at this instant of the store's time.
    Decided(Timestamp),
    /// The store has to be heard first.
    Waits(Wait),
    /// The store is away.
    Away,
    /// As many requests of its org wait as may.
    Crowded,
}

/// What was decided without the store, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fallbacks {
    /// Decisions for which some limit's fallback spoke.
    pub decided: u64,
    /// Requests that some limit would not have decided without it.
    pub closed: u64,
}

/// Counters that a fleet shares.
pub struct SharedStore {
    node: Node<oneshot::Sender<Answer>>,
    carrier: Box<dyn Carrier>,
    crowd: Arc<Crowd>,
    patience_us: AtomicU64,
    clock: fn() -> Mono,
    calls: AtomicU64,
    decided_away: AtomicU64,
    closed: AtomicU64,
}

impl SharedStore {
    /// A store whose calls somebody carries. The clock never goes back, and counts the time that the machine sleeps.
    pub fn new(
        incarnation: u64,
        capacity: usize,
        carrier: Box<dyn Carrier>,
        clock: fn() -> Mono,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Node::new(incarnation, capacity),
            carrier,
            crowd: Arc::new(Crowd::new()),
            patience_us: AtomicU64::new(micros(PATIENCE)),
            clock,
            calls: AtomicU64::new(0),
            decided_away: AtomicU64::new(0),
            closed: AtomicU64::new(0),
        })
    }

    /// Decides a request, if what is held on lease suffices, and what it was lent while it waited before.
    pub fn decide(
        self: &Arc<Self>,
        asked: &Asked<'_>,
        claim: Claim,
        decision: &mut Decision,
    ) -> Result<Taken, StoreFull> {
        let (mut receiver, mut place) = (None, None);
        let own = asked.levels.last().map_or(0, |level| level.home);
        let mut waiter = || {
            let (sender, waits) = oneshot::channel();
            // Whoever finds no place is passed over, as one who has stopped waiting.
            place = self.crowd.enter(own);
            receiver = place.is_some().then_some(waits);
            sender
        };
        let clock = self.clock;
        let step = self
            .node
            .decide(asked, claim, &mut || clock(), &mut waiter, decision)?;
        match step {
            Step::Decided { at, low } => {
                if let Some(home) = low {
                    self.send(home);
                }
                if !decision.allowed || asked.commit == Commit::DryRun {
                    self.send_back();
                }
                Ok(Taken::Decided(at))
            }
            Step::Waits(home) => {
                let level = asked.levels.iter().position(|level| level.home == home);
                let tag = asked.details.tag(level.unwrap_or(0));
                if self.carrier.is_away(&tag) {
                    return Ok(Taken::Away);
                }
                let (Some(receiver), Some(place)) = (receiver, place) else {
                    return Ok(Taken::Crowded);
                };
                self.send(home);
                Ok(Taken::Waits(Wait {
                    receiver,
                    store: self.clone(),
                    tag,
                    since: Instant::now(),
                    _place: place,
                }))
            }
        }
    }

    /// Decides a request while the store is away: from what is left on lease, and else as each limit says.
    pub fn decide_away(
        &self,
        asked: &Asked<'_>,
        fail: &dyn Fn(usize) -> Fail,
        local: &MemoryStore,
        decision: &mut Decision,
    ) -> Result<Fallback, StoreFull> {
        let clock = self.clock;
        let fallback = self
            .node
            .decide_away(asked, fail, local, &mut || clock(), decision)?;
        match &fallback {
            Fallback::Decided { without, .. } if without.is_empty() => return Ok(fallback),
            Fallback::Decided { .. } => &self.decided_away,
            Fallback::Closed => &self.closed,
        }
        .fetch_add(1, Ordering::Relaxed);
        Ok(fallback)
    }

    /// Gives back what levels cost, as far as this node [can](Node::give_back).
    pub fn give_back(&self, levels: &[Level<'_>]) {
        self.node.give_back(levels, (self.clock)());
    }

    /// Gives back what lies idle, a slice at a time; at the end all of it.
    pub fn sweep(self: &Arc<Self>, all: bool) {
        let slices = if all { self.node.shard_count() } else { 1 };
        for _ in 0..slices {
            for home in self.node.sweep((self.clock)(), all) {
                // What is to be said keeps until the store is back.
                let tag = self.node.tag(home);
                if tag.is_some_and(|tag| !self.carrier.is_away(&tag)) {
                    self.send(home);
                }
            }
        }
    }

    /// How many sweeps visit everything.
    pub fn slices(&self) -> usize {
        self.node.shard_count()
    }

    /// The node's side, to be told about the fleet.
    pub fn node(&self) -> &Node<oneshot::Sender<Answer>> {
        &self.node
    }

    /// Says how long a request waits for the store.
    pub fn set_patience(&self, patience: Duration) {
        self.patience_us.store(micros(patience), Ordering::Relaxed);
        self.node.set_patience(micros(patience));
    }

    fn patience(&self) -> Duration {
        Duration::from_micros(self.patience_us.load(Ordering::Relaxed))
    }

    /// Says how many requests of one org may wait for the store.
    pub fn set_most_waiting(&self, most: usize) {
        self.crowd.set_most(most);
    }

    /// How many requests found no place to wait in.
    pub fn turned_away(&self) -> u64 {
        self.crowd.turned_away()
    }

    /// What is held.
    pub fn holdings(&self) -> Holdings {
        self.node.holdings()
    }

    /// Calls that were sent.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// What was decided without the store.
    pub fn fallbacks(&self) -> Fallbacks {
        Fallbacks {
            decided: self.decided_away.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }

    /// Sends the next call of a line, if there is one to send.
    fn send(self: &Arc<Self>, home: u64) {
        let (outgoing, told) = self.node.call(home, (self.clock)());
        self.tell(told);
        let Some(outgoing) = outgoing else { return };
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (store, number) = (self.clone(), outgoing.number);
        self.carrier.carry(
            outgoing,
            Box::new(move |reply| {
                store.tell(store.node.heard(home, number, reply.as_ref(), (store.clock)()));
                // What has come meanwhile goes with the next one.
                store.send_more(home, reply != Some(Reply::NotRun));
                store.send_back();
            }),
        );
    }

    /// Gives back what was lent to requests that did not need it, before it can't be taken back any more.
    fn send_back(self: &Arc<Self>) {
        for home in self.node.take_returning() {
            self.send(home);
        }
    }

    fn send_more(self: &Arc<Self>, home: u64, did_run: bool) {
        if self.node.has_more(home, did_run) {
            self.send(home);
        }
    }

    fn tell(&self, told: Vec<(oneshot::Sender<Answer>, Answer)>) {
        for (waiter, answer) in told {
            // Whoever has stopped waiting takes nothing.
            if let Err(Answer::Again(claim)) = waiter.send(answer) {
                self.node.forgo(claim);
            }
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
