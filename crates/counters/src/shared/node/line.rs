//! A home's line to the store: what waits, and the one call that is under way.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tollgate_core::{Cell, CounterKey, Mode, Timestamp};

use super::super::call::{LeaseId, Micros, Name, Terms, most_of};
use super::claim::{Claim, Kept};
use super::owing::{Owing, Predecessors};
use super::pool::{Pool, Standing};
use super::{Answer, LEASE_IDLE, Mono, Waiter};
use crate::memory::Commit;
use crate::sync::{AtomicU64, Ordering};

/// A level that waits, with all that is needed when its request is out of reach.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) place: usize,
    pub(super) key: CounterKey,
    pub(super) name: Name,
    pub(super) cost: u64,
    pub(super) mode: Mode,
    pub(super) terms: Terms,
}

impl Item {
    /// How much may be counted by its limit.
    pub(super) fn most(&self) -> u64 {
        most_of(self.terms.capacity, self.mode)
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting<W> {
    pub(super) waiter: W,
    pub(super) home: u64,
    /// It only wants tokens here, to be decided with them elsewhere.
    pub(super) borrows: bool,
    pub(super) commit: Commit,
    /// Its levels of this home.
    pub(super) items: Vec<Item>,
    pub(super) kept: SmallVec<[Kept; 1]>,
    /// All its levels, those of other homes filled in.
    pub(super) levels: Vec<(bool, bool, Cell)>,
    /// The counters that its levels replace.
    pub(super) predecessors: Vec<(usize, Predecessors)>,
}

impl<W> Waiting<W> {
    /// The version of the policies that it is decided by.
    pub(super) fn revision(&self) -> Option<u64> {
        self.items.first().map(|item| item.terms.revision)
    }

    /// Its levels, those that watch one count only once.
    pub(super) fn items_taken(&self) -> impl Iterator<Item = &Item> {
        let items = &self.items;
        let first = |place: usize| items[..place].iter().all(|before| before.key != items[place].key);
        items
            .iter()
            .enumerate()
            .filter(move |(place, _)| first(*place))
            .map(|(_, item)| item)
    }

    /// The least that may be counted by any of its limits on a count.
    pub(super) fn most(&self, key: CounterKey) -> u64 {
        let sharing = self.items.iter().filter(|item| item.key == key);
        sharing.map(Item::most).min().unwrap_or(0)
    }
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Flight<W> {
    pub(super) number: u64,
    pub(super) sent: Mono,
    pub(super) needs: Vec<Waiting<W>>,
    pub(super) borrows: Vec<Waiting<W>>,
    pub(super) lends: Vec<Lend>,
    /// What it charges of that which was let through without the store.
    pub(super) settles: Vec<(CounterKey, Box<Owing>)>,
}

/// A lease that was asked for.
#[derive(Debug)]
pub(super) struct Lend {
    pub(super) key: CounterKey,
    pub(super) lease: LeaseId,
    pub(super) terms: Terms,
    pub(super) wanted: u64,
    pub(super) most: u64,
    /// Requests that borrow wait for it.
    pub(super) needed: bool,
}

/// A lease that is to be given back.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) name: Name,
    pub(super) terms: Terms,
    pub(super) lease: LeaseId,
    pub(super) unspent: u64,
    /// In the store's time.
    pub(super) last_spent: Micros,
}

/// A counter that runs low, and what it replaces.
#[derive(Debug)]
pub(super) struct Low {
    pub(super) key: CounterKey,
    pub(super) predecessors: Predecessors,
}

/// A home's line to the store.
#[derive(Debug)]
pub(super) struct Line<W> {
    pub(super) tag: Arc<str>,
    pub(super) lane: usize,
    pub(super) queue: VecDeque<Waiting<W>>,
    pub(super) flight: Option<Flight<W>>,
    pub(super) low: SmallVec<[Low; 4]>,
    pub(super) given: Vec<Given>,
    /// Counters for which something was let through while the store was unavailable.
    pub(super) owing: SmallVec<[CounterKey; 4]>,
    /// The terms that counters of this home were last asked about with.
    pub(super) terms: HashMap<CounterKey, Terms, RandomState>,
    /// The store's time less this node's, no greater than it is.
    pub(super) offset: Option<u64>,
    /// The generation that was last heard of.
    pub(super) began: Option<Micros>,
}

impl<W: Waiter> Line<W> {
    pub(super) fn new(tag: Arc<str>) -> Self {
        Self {
            tag,
            lane: 0,
            queue: VecDeque::new(),
            flight: None,
            low: SmallVec::new(),
            given: Vec::new(),
            owing: SmallVec::new(),
            terms: HashMap::default(),
            offset: None,
            began: None,
        }
    }

    pub(super) fn push(&mut self, waiting: Waiting<W>) {
        self.queue.push_back(waiting);
    }

    /// Notes that a counter runs low.
    pub(super) fn runs_low(&mut self, key: CounterKey, replaced: impl FnOnce() -> Predecessors) {
        if !self.low.iter().any(|low| low.key == key) {
            self.low.push(Low {
                key,
                predecessors: replaced(),
            });
        }
    }

    /// Notes that a counter has to be charged for what was let through without it.
    pub(super) fn owes(&mut self, key: CounterKey) {
        if !self.owing.contains(&key) {
            self.owing.push(key);
        }
    }

    /// Takes back what a call would have charged that did nothing.
    pub(super) fn owe_again(
        &mut self,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        settles: Vec<(CounterKey, Box<Owing>)>,
    ) {
        for (key, mut old) in settles {
            if let Some(pool) = pools.get_mut(&key) {
                if let Some(since) = pool.owing.take() {
                    old.join(&since);
                }
                pool.owing = Some(old);
                self.owes(key);
            }
        }
    }

    /// Forgets what makes no difference any more.
    pub(super) fn forget_owing(&mut self, pools: &mut HashMap<CounterKey, Pool, RandomState>, at: Timestamp) {
        self.owing.retain(|key| {
            let Some(pool) = pools.get_mut(key) else {
                return false;
            };
            pool.owing.take_if(|owing| !owing.matters(at));
            pool.owing.is_some()
        });
    }

    /// Whether a call could be sent.
    pub(super) fn has_something(&self) -> bool {
        self.has_something_new() || (self.flight.is_none() && !self.owing.is_empty())
    }

    /// Whether a call could be sent for more than what is owed, which an earlier call may have carried in vain.
    pub(super) fn has_something_new(&self) -> bool {
        let waits = !self.queue.is_empty() || !self.low.is_empty() || !self.given.is_empty();
        self.flight.is_none() && waits
    }

    /// Whether nothing is known or wanted of its home any more.
    pub(super) fn is_idle(&self, pools: &HashMap<CounterKey, Pool, RandomState>) -> bool {
        self.flight.is_none()
            && self.queue.is_empty()
            && self.given.is_empty()
            && self.owing.is_empty()
            && !self.terms.keys().any(|key| pools.contains_key(key))
    }

    /// Takes leases that have ended, or lie idle, out of the home's pools.
    pub(super) fn give_back(
        &mut self,
        pools: &mut HashMap<CounterKey, Pool, RandomState>,
        now: Mono,
        all: bool,
        unspent: &AtomicU64,
    ) {
        let keys: Vec<(CounterKey, Terms)> = self.terms.iter().map(|(key, terms)| (*key, *terms)).collect();
        for (key, terms) in keys {
            if let Some(pool) = pools.get_mut(&key) {
                let idle = now.saturating_sub(pool.used) > LEASE_IDLE;
                self.give_up(pool, &terms, now, all || idle, unspent);
            }
        }
        self.terms.retain(|key, _| pools.contains_key(key));
    }

    /// Takes leases that have ended, or all of them, out of a pool.
    pub(super) fn give_up(
        &mut self,
        pool: &mut Pool,
        terms: &Terms,
        now: Mono,
        all: bool,
        unspent: &AtomicU64,
    ) {
        for lease in pool.take_ended(now, all) {
            unspent.fetch_add(lease.left, Ordering::Relaxed);
            self.give(pool, terms, lease.id, lease.left, lease.last_spent());
        }
    }

    /// Notes what is to be given back of a lease. There is room then, whatever the counter said before.
    pub(super) fn give(
        &mut self,
        pool: &mut Pool,
        terms: &Terms,
        lease: LeaseId,
        unspent: u64,
        last_spent: Micros,
    ) {
        if unspent > 0 {
            pool.refusal = None;
        }
        if let Some(given) = self.given.iter_mut().find(|given| given.lease == lease) {
            given.unspent += unspent;
            return;
        }
        self.given.push(Given {
            name: pool.name,
            terms: *terms,
            lease,
            unspent,
            last_spent,
        });
    }

    /// Tells those who wait what can be told without another call.
    pub(super) fn decide_waiting(
        &mut self,
        pools: &HashMap<CounterKey, Pool, RandomState>,
        now: Mono,
        told: &mut Vec<(W, Answer)>,
        rest: &mut Vec<Kept>,
    ) {
        let mut standings = Standings::new(pools, now);
        let mut waits = |waiting: &Waiting<W>| !waiting.waiter.is_gone() && !standings.decide(&waiting.items);
        // Mostly all go on waiting, and there may be a thousand: they are left where they are.
        if self.queue.iter().all(&mut waits) {
            return;
        }
        for waiting in std::mem::take(&mut self.queue) {
            if waits(&waiting) {
                self.queue.push_back(waiting);
            } else if waiting.waiter.is_gone() {
                rest.extend(waiting.kept);
            } else {
                // It decides for itself, with what is held now.
                let claim = Claim::of(waiting.kept, rest);
                told.push((waiting.waiter, Answer::Again(claim)));
            }
        }
    }
}

/// A counter, a cost, and how much may be counted.
type Question = (CounterKey, u64, u64);

/// How counters stand at an instant. Those who wait mostly wait for the same few.
struct Standings<'a> {
    pools: &'a HashMap<CounterKey, Pool, RandomState>,
    now: Mono,
    seen: SmallVec<[(Question, Standing); 4]>,
}

impl<'a> Standings<'a> {
    /// Of these counters, now.
    fn new(pools: &'a HashMap<CounterKey, Pool, RandomState>, now: Mono) -> Self {
        Self {
            pools,
            now,
            seen: SmallVec::new(),
        }
    }

    /// Whether levels can be decided: one of them refuses, or of all it is known what there is.
    fn decide(&mut self, items: &[Item]) -> bool {
        let mut known = true;
        for item in items {
            match self.of(item) {
                Standing::Refused if item.mode == Mode::Enforce => return true,
                Standing::Unknown => known = false,
                _ => {}
            }
        }
        known
    }

    fn of(&mut self, item: &Item) -> Standing {
        let question = (item.key, item.cost, item.most());
        if let Some((_, standing)) = self.seen.iter().find(|(asked, _)| *asked == question) {
            return *standing;
        }
        let pool = self.pools.get(&item.key);
        let standing = pool.map_or(Standing::Unknown, |pool| {
            pool.standing(item.cost, item.most(), self.now)
        });
        if self.seen.len() < self.seen.inline_size() {
            self.seen.push((question, standing));
        }
        standing
    }
}
