//! A node's side: it decides from what it holds on lease, and asks the store for what it lacks.
//!
//! A counter's leases lie in a [`pool::Pool`]. Counters with the same home share a lock and a [`line::Line`] to the
//! store, on which one call is under way at a time; requests that come meanwhile join the next one. Nothing here
//! waits: [`Node::decide`] answers or says that a request has to wait, [`Node::call`] gives the call to send, and
//! [`Node::heard`] takes the reply and says who can go on.

mod away;
mod claim;
mod decide;
mod draft;
mod drain;
mod line;
mod owing;
mod plant;
mod pool;
mod reply;
mod size;
mod undecided;
mod unused;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::{Cell, CounterKey, Decision, Former, Level, Mode, Outcome, Timestamp};

use super::call::{Call, Micros, Name, Reply};
use crate::memory::Commit;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use line::Line;
use pool::Pool;
use size::nanos;

pub use away::{Fail, Fallback};
pub use claim::Claim;
pub use plant::Bug;
pub use size::BASIS;
pub use unused::{CLASSES, Unused};

/// A node's own time in nanoseconds, on a clock that never goes back and counts the time that the machine sleeps.
pub type Mono = u64;

/// What is asked of a stack only when its counters are new to this node.
pub trait Details {
    /// What a level's counter is called.
    fn name(&self, place: usize) -> Name;
    /// What the counters of a level's home are told from others by in the store's keys.
    fn tag(&self, place: usize) -> Arc<str>;
    /// How many parts of [`BASIS`] may lie unused; 0 if every decision is the store's.
    fn accuracy(&self, place: usize) -> u16;
    /// What a former's counter is called.
    fn former(&self, place: usize) -> Name;
    /// Which lane to the store calls about a level's home take, below [`LANES`].
    fn lane(&self, _place: usize) -> usize {
        0
    }
}

/// Lanes to the store: calls in one don't hold up those in another.
pub const LANES: usize = 8;

/// A request to be decided.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Its stack.
    pub levels: &'a [Level<'a>],
    /// Counters that some levels replace.
    pub formers: &'a [Former<'a>],
    /// Which version of the policies they are of; 0 if nobody counts them.
    pub revision: u64,
    /// Whether it is carried out.
    pub commit: Commit,
    /// A limit that is kept elsewhere has refused it already: nothing is charged, and nobody is asked.
    pub refused: bool,
    /// Where it is noted what was charged where, if somebody may give that back.
    pub charges: Option<&'a RefCell<Charges>>,
    /// The rest.
    pub details: &'a dyn Details,
}

/// Where the charge of a level lies in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// The level's place.
    pub place: usize,
    /// The end of the window that was charged, or the instant of a log's entry.
    pub end: Micros,
    /// The generation that was charged.
    pub began: Micros,
}

/// What a stack was charged, in one home, where something can be given back.
pub type Charges = SmallVec<[Charge; 4]>;

/// Somebody who waits.
pub trait Waiter {
    /// Whether they have stopped waiting.
    fn is_gone(&self) -> bool;
}

/// How far a decision has come.
#[derive(Debug)]
pub enum Step {
    /// It is made, at this instant of the store's time.
    Decided {
        /// When.
        at: Timestamp,
        /// A home whose counters run low: [`Node::call`] should be asked.
        low: Option<u64>,
    },
    /// The store has to be asked first, on the line of this home.
    Waits(u64),
}

/// What somebody who waits hears.
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// The store has decided.
    Decided(Settled),
    /// Something has changed: decide again, with what there is already.
    Again(Claim),
    /// The store could not be asked, or nobody knows what it did.
    Away,
}

/// A stack that the store has decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Settled {
    /// When, in the store's time.
    pub at: Timestamp,
    /// Each level: whether it has room, whether it was charged, and its cell.
    pub levels: Vec<(bool, bool, Cell)>,
    /// Where what was charged lies.
    pub charges: Charges,
}

impl Settled {
    /// Fills in a pending decision on the same stack.
    pub fn fill(&self, levels: &[Level<'_>], decision: &mut Decision) {
        for (level, (fits, charged, cell)) in levels.iter().zip(&self.levels) {
            decision.allowed &= *fits || level.mode != Mode::Enforce;
            decision.outcomes.push(Outcome {
                fits: *fits,
                charged: *charged,
                cell: *cell,
                remaining: 0,
            });
        }
        decision.sum_up(levels, self.at);
    }
}

/// A call to be sent.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Whose line it is.
    pub home: u64,
    /// Which call of that line.
    pub number: u64,
    /// What its counters are told from others by.
    pub tag: Arc<str>,
    /// Which lane it takes.
    pub lane: usize,
    /// The call.
    pub call: Call,
}

/// What a node holds, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holdings {
    /// Counters that something is known of.
    pub counters: usize,
    /// Decisions refused because no counter could be added.
    pub refused: u64,
    /// Leases that were lent.
    pub leases: u64,
    /// Tokens that were lent.
    pub lent: u64,
    /// Tokens of those that were given back, or lost.
    pub unspent: u64,
    /// Times that a slot was found to have lost its memory.
    pub losses: u64,
}

#[derive(Default)]
struct Shard<W> {
    pools: HashMap<CounterKey, Pool, RandomState>,
    lines: HashMap<u64, Line<W>, RandomState>,
}

#[repr(align(128))]
struct Padded<W>(Mutex<Shard<W>>);

/// All that a node holds on lease.
pub struct Node<W> {
    shards: Box<[Padded<W>]>,
    /// Random at each start, below 2^52.
    incarnation: u64,
    leases: AtomicU64,
    calls: AtomicU64,
    /// Nodes of the fleet that are alive.
    nodes: AtomicU64,
    /// Nodes by which a limit is shared while the store is unavailable, if these are more.
    sharing: AtomicU64,
    /// How long a call takes.
    trip: AtomicU64,
    /// The store's time less this node's, before a line knows better.
    offset: AtomicU64,
    /// How long the store may take to run a call.
    patience: AtomicU64,
    pools: AtomicUsize,
    capacity: usize,
    refused: AtomicU64,
    lent: AtomicU64,
    unspent: AtomicU64,
    losses: AtomicU64,
    next_sweep: AtomicUsize,
    /// What lay unused in each shard when it was last swept, by class.
    unused: Mutex<Vec<[Unused; CLASSES.len()]>>,
    /// Homes to which something goes back that was lent to a request, and only for a moment.
    returning: Mutex<Vec<u64>>,
    bug: Option<Bug>,
}

const SHARD_BITS: u32 = 8;
/// How long the store may take to run a call before it should not run it any more, unless requests wait for longer.
const PATIENCE: Micros = 250_000;
/// How long a pool that nobody asks for is kept.
const IDLE: Mono = nanos(2_000_000);
/// How long a lease may lie idle before it is given back.
const LEASE_IDLE: Mono = nanos(200_000);

struct Locked<'a, W>(SmallVec<[(usize, MutexGuard<'a, Shard<W>>); 2]>);

impl<W> Locked<'_, W> {
    fn shard(&mut self, home: u64) -> &mut Shard<W> {
        let index = shard_index(home);
        let place = self.0.iter().position(|(at, _)| *at == index).unwrap_or(0);
        &mut self.0[place].1
    }

    fn pool(&mut self, level: &Level<'_>) -> Option<&mut Pool> {
        self.shard(level.home).pools.get_mut(&level.key)
    }
}

fn shard_index(home: u64) -> usize {
    (home >> (64 - SHARD_BITS)) as usize
}

impl<W: Waiter> Node<W> {
    /// A node that holds at most so many pools. `incarnation` is random, and below 2^52.
    pub fn new(incarnation: u64, capacity: usize) -> Self {
        let shard = || {
            Padded(Mutex::new(Shard {
                pools: HashMap::default(),
                lines: HashMap::default(),
            }))
        };
        Self {
            shards: (0..1 << SHARD_BITS).map(|_| shard()).collect(),
            incarnation,
            leases: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            nodes: AtomicU64::new(1),
            sharing: AtomicU64::new(1),
            trip: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            patience: AtomicU64::new(PATIENCE),
            pools: AtomicUsize::new(0),
            capacity,
            refused: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            unspent: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            next_sweep: AtomicUsize::new(0),
            unused: Mutex::new(vec![Default::default(); 1 << SHARD_BITS]),
            returning: Mutex::new(Vec::new()),
            bug: None,
        }
    }

    /// Says how many nodes share the limits. Only how much is borrowed depends on it, never whether it is safe.
    pub fn set_nodes(&self, nodes: u64) {
        self.nodes.store(nodes.max(1), Ordering::Relaxed);
    }

    /// Says how many nodes share a limit while the store is unavailable: no fewer than are known to be alive.
    pub fn set_sharing(&self, nodes: u64) {
        self.sharing.store(nodes.max(1), Ordering::Relaxed);
    }

    /// Says what the store's clock shows.
    pub fn set_clock(&self, store: Micros, now: Mono) {
        self.offset
            .store(nanos(store).wrapping_sub(now), Ordering::Relaxed);
    }

    /// Says how long requests wait for the store: it may take as long to run a call.
    pub fn set_patience(&self, patience: Micros) {
        self.patience.store(patience.max(PATIENCE), Ordering::Relaxed);
    }

    /// What is held.
    pub fn holdings(&self) -> Holdings {
        Holdings {
            counters: self.pools.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            leases: self.leases.load(Ordering::Relaxed),
            lent: self.lent.load(Ordering::Relaxed),
            unspent: self.unspent.load(Ordering::Relaxed),
            losses: self.losses.load(Ordering::Relaxed),
        }
    }

    /// What lies unused on this node, of the limits of each of the [`CLASSES`], as the last sweeps saw it.
    pub fn unused(&self) -> [Unused; CLASSES.len()] {
        let mut all = [Unused::default(); CLASSES.len()];
        for shard in self.unused.lock().iter() {
            for (sum, of_shard) in all.iter_mut().zip(shard) {
                *sum = sum.and(*of_shard);
            }
        }
        all
    }

    /// The next call of a line, if there is something to ask and none is under way.
    pub fn call(&self, home: u64, now: Mono) -> (Option<Outgoing>, Vec<(W, Answer)>) {
        let mut shard = self.shards[shard_index(home)].0.lock();
        let (mut told, mut rest) = (Vec::new(), Vec::new());
        let outgoing = self.next_call(&mut shard, home, now, &mut told, &mut rest);
        drop(shard);
        self.release(rest);
        (outgoing, told)
    }

    /// Takes the reply to a call, or `None` if it was not run or nobody knows. Says who can go on.
    pub fn heard(&self, home: u64, number: u64, reply: Option<&Reply>, now: Mono) -> Vec<(W, Answer)> {
        let mut shard = self.shards[shard_index(home)].0.lock();
        let mut rest = Vec::new();
        let told = self.take_reply(&mut shard, home, number, reply, now, &mut rest);
        drop(shard);
        self.release(rest);
        told
    }

    /// Gives each level's cost back, no more than this node has spent of leases that it still holds, and a counter that
    /// several watch once.
    pub fn give_back(&self, levels: &[Level<'_>], now: Mono) {
        let mut locked = self.lock(levels.iter().map(|level| level.home));
        for (place, level) in levels.iter().enumerate() {
            let first = levels[..place].iter().all(|before| before.key != level.key);
            if first && let Some(pool) = locked.pool(level) {
                pool.give_back(level.cost, now);
            }
        }
    }

    /// What a line's counters are told from others by.
    pub fn tag(&self, home: u64) -> Option<Arc<str>> {
        let shard = self.shards[shard_index(home)].0.lock();
        shard.lines.get(&home).map(|line| line.tag.clone())
    }

    /// Lines that have something to send which would soon be too late.
    pub fn take_returning(&self) -> Vec<u64> {
        std::mem::take(&mut *self.returning.lock())
    }

    /// Whether a line has something to send. After a call that did not run, what is owed alone waits for the next one or for
    /// a sweep: a store that runs no calls would otherwise be sent one after the other.
    pub fn has_more(&self, home: u64, did_run: bool) -> bool {
        let shard = self.shards[shard_index(home)].0.lock();
        let has_more = if did_run {
            Line::has_something
        } else {
            Line::has_something_new
        };
        shard.lines.get(&home).is_some_and(has_more)
    }

    /// Looks after the next shard: leases that ended or lie idle are to be given back, pools that nobody asks for are
    /// dropped. Says which lines have something to send. At the end of its life a node gives everything back.
    pub fn sweep(&self, now: Mono, all: bool) -> Vec<u64> {
        let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        let mut shard = self.shards[next].0.lock();
        let Shard { pools, lines } = &mut *shard;
        let before = pools.len();
        for line in lines.values_mut() {
            line.give_back(pools, now, all, &self.unspent);
            let offset = line.offset.unwrap_or_else(|| self.offset.load(Ordering::Relaxed));
            line.forget_owing(pools, Timestamp::from_nanos(now.wrapping_add(offset)));
        }
        let mut unused = [Unused::default(); CLASSES.len()];
        pools.retain(|_, pool| {
            let class = &mut unused[unused::class_of(pool.accuracy)];
            *class = class.and(Unused::of(pool, now));
            let idle = now.saturating_sub(pool.used) > IDLE;
            let refused = pool.refusal.is_some_and(|refusal| now < refusal.until);
            !idle || refused || !pool.leases.is_empty() || pool.owing.is_some()
        });
        self.pools.fetch_sub(before - pools.len(), Ordering::Relaxed);
        lines.retain(|_, line| !line.is_idle(pools));
        self.unused.lock()[next] = unused;
        let due = lines.iter().filter(|(_, line)| line.has_something());
        due.map(|(home, _)| *home).collect()
    }

    /// How many sweeps visit every shard.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    fn lock(&self, homes: impl Iterator<Item = u64>) -> Locked<'_, W> {
        let mut wanted: SmallVec<[usize; 4]> = SmallVec::new();
        for home in homes {
            let index = shard_index(home);
            if !wanted.contains(&index) {
                wanted.push(index);
            }
        }
        wanted.sort_unstable();
        let lock = |index: usize| (index, self.shards[index].0.lock());
        Locked(wanted.into_iter().map(lock).collect())
    }

    fn store_time(&self, locked: &mut Locked<'_, W>, home: u64, now: Mono) -> Timestamp {
        let line = locked.shard(home).lines.get(&home);
        let offset = line.and_then(|line| line.offset);
        let offset = offset.unwrap_or_else(|| self.offset.load(Ordering::Relaxed));
        Timestamp::from_nanos(now.wrapping_add(offset))
    }
}

/// What the store's clock shows, in its own units.
fn store_micros(offset: u64, now: Mono) -> Micros {
    now.wrapping_add(offset) / 1_000
}
