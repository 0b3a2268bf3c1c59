//! Counters in this process's memory.
//!
//! A stack is decided in one critical section: the shards of its levels are locked in ascending order, the
//! cells are copied out, each level is looked at by [`tollgate_core::Outcome`], and charged cells are
//! written back. An org's levels share a shard, so its stack takes one lock; only limits that span orgs
//! add others. The locks are let go before anything is divided or shown.

mod bound;
mod dips;
mod directory;
mod formers;
mod front;
mod group;
mod held;
mod journal;
mod segment;
mod shard;
mod tick;

use std::sync::OnceLock;

use smallvec::SmallVec;
use tollgate_core::{Cell, CounterKey, Decision, Former, Level, Nanos, Outcome, Slowing, Timestamp};

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use bound::{Bound, Unbounded};
use formers::inherit;
use front::Front;
use held::{Holding, trace};
use shard::Found;
use tick::TICK_NS;

pub use bound::OfLedger;
pub use held::{Held, Holds};
pub use journal::{Ended, Estate, Home, Journal, Note, Telling};

/// Whether a decision is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Charge what it says.
    Charge,
    /// Answer as a real decision would, and change nothing.
    DryRun,
}

/// Levels by their places in a stack.
pub type Places = SmallVec<[usize; 2]>;

/// How far a decision on quotas that a ledger keeps has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// It is made. For some quotas it may be time to take more of the ledger.
    Decided,
    /// Nothing is decided or charged: of some quotas the ledger has to be asked first.
    Short,
}

/// The store holds as many counters as it may, and none of those can be forgotten yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreFull;

impl std::fmt::Display for StoreFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the counter store is full")
    }
}

impl std::error::Error for StoreFull {}

/// What the store has held and done, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Counters held now, in counters' worth of memory.
    pub held: usize,
    /// Counters forgotten since the start because they were as good as untouched.
    pub reclaimed: u64,
    /// Decisions refused because no counter could be added.
    pub refused: u64,
}

/// A shard's lock and its hottest cells on a pair of cache lines of their own.
#[repr(align(128))]
struct Padded(Mutex<Front>);

/// Counters in memory, sharded by their home.
pub struct MemoryStore {
    shards: Box<[Padded]>,
    capacity: usize,
    held: AtomicUsize,
    reclaimed: AtomicU64,
    refused: AtomicU64,
    next_sweep: AtomicUsize,
    /// Some buckets refill more slowly than they did.
    heeds: AtomicBool,
    journal: OnceLock<Journal>,
}

const SHARD_BITS: u32 = 8;
/// Places of cells looked at for each insertion: more than insertions can fill, so that a store
/// under churn cleans up after itself even if nobody calls [`MemoryStore::sweep`].
const SWEEP_AT_INSERT: usize = 6;
/// Places looked at in a shard before a decision is refused for want of room.
const SWEEP_WHEN_FULL: usize = 384;
/// How many other shards are looked at then, if it is the store that is full.
const SHARDS_WHEN_FULL: usize = 8;

/// This part of all room is for shards that hold less than that part.
const RESERVE: usize = 8;
const LITTLE: usize = 64;
/// Stores with less room have no reserve: a shard would be refused its second counter.
const SMALL: usize = 4096;

/// The locked shards of a stack.
trait Locked {
    /// The shard of a home, which is among the locked ones.
    fn shard(&mut self, home: u64) -> &mut Front;
}

/// The usual case: the whole stack lives in one shard.
struct One<'a>(MutexGuard<'a, Front>);

impl Locked for One<'_> {
    #[inline]
    fn shard(&mut self, _: u64) -> &mut Front {
        &mut self.0
    }
}

/// Limits that span orgs live in shards of their own.
struct Many<'a>(SmallVec<[(usize, MutexGuard<'a, Front>); 4]>);

impl Locked for Many<'_> {
    fn shard(&mut self, home: u64) -> &mut Front {
        let index = shard_index(home);
        let position = self.0.iter().position(|(at, _)| *at == index).unwrap_or(0);
        &mut self.0[position].1
    }
}

impl MemoryStore {
    /// A store that holds at most `capacity` counters, and at most half of that in any one shard. The last eighth is for
    /// shards that hold little, so that a few orgs can't use up the memory of all.
    pub fn new(capacity: usize) -> Self {
        let shards = (0..1 << SHARD_BITS).map(|_| Padded(Mutex::new(Front::default())));
        Self {
            shards: shards.collect(),
            capacity,
            held: AtomicUsize::new(0),
            reclaimed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            next_sweep: AtomicUsize::new(0),
            heeds: AtomicBool::new(false),
            journal: OnceLock::new(),
        }
    }

    /// Notes in a journal what is left of the quotas that are in it. The first one stays.
    pub fn keep_journal(&self, journal: Journal) {
        let _ = self.journal.set(journal);
    }

    /// The journal, if one is kept.
    #[inline]
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.get()
    }

    /// Decides a stack, all or none, and fills in a pending decision.
    #[inline]
    pub fn decide(
        &self,
        levels: &[Level<'_>],
        formers: &[Former<'_>],
        now: Timestamp,
        commit: Commit,
        decision: &mut Decision,
    ) -> Result<(), StoreFull> {
        let stack = (levels, formers);
        self.decide_with(stack, now, commit, decision, Unbounded)?;
        Ok(())
    }

    /// The same where a ledger keeps the quotas: none is counted further than it allows.
    #[inline]
    pub fn decide_within(
        &self,
        levels: &[Level<'_>],
        formers: &[Former<'_>],
        now: Timestamp,
        commit: Commit,
        decision: &mut Decision,
        quotas: &mut OfLedger<'_>,
    ) -> Result<Within, StoreFull> {
        self.decide_with((levels, formers), now, commit, decision, quotas)
    }

    /// Decides and charges a stack, within what a ledger allows if it keeps the quotas, and has what is charged held.
    pub fn decide_held(
        &self,
        stack: (&[Level<'_>], &[Former<'_>]),
        now: Timestamp,
        decision: &mut Decision,
        quotas: Option<&mut OfLedger<'_>>,
        holds: &mut Holds,
    ) -> Result<Within, StoreFull> {
        let commit = Commit::Charge;
        match quotas {
            None => {
                let bound = Unbounded;
                self.decide_with(stack, now, commit, decision, Holding { bound, holds })
            }
            Some(bound) => self.decide_with(stack, now, commit, decision, Holding { bound, holds }),
        }
    }

    #[inline]
    fn decide_with<B: Bound>(
        &self,
        (levels, formers): (&[Level<'_>], &[Former<'_>]),
        now: Timestamp,
        commit: Commit,
        decision: &mut Decision,
        mut bound: B,
    ) -> Result<Within, StoreFull> {
        let first = levels.first().map_or(0, |level| shard_index(level.home));
        let alone = formers.is_empty() && levels.iter().all(|level| shard_index(level.home) == first);
        let decided = if alone {
            let shard = One(self.shards[first].0.lock());
            self.decide_locked(shard, levels, formers, now, commit, decision, &mut bound)?
        } else {
            let shards = self.lock_many(levels, formers);
            self.decide_locked(shards, levels, formers, now, commit, decision, &mut bound)?
        };
        if !decided {
            *decision = Decision::pending();
            return Ok(Within::Short);
        }
        decision.sum_up(levels, now);
        Ok(Within::Decided)
    }

    /// Looks at a cell whose first word is its end, a quota's or a throttle's, under its lock, and perhaps puts another
    /// in its place. A new one needs room.
    #[inline]
    pub fn amend(
        &self,
        key: CounterKey,
        home: u64,
        now: Timestamp,
        change: impl FnOnce(Option<Cell>) -> Option<Cell>,
    ) -> Result<(), StoreFull> {
        let mut shard = self.shards[shard_index(home)].0.lock();
        let found = shard.find(key);
        let Some(cell) = change(found.map(|(_, cell)| cell)) else {
            return Ok(());
        };
        match found {
            Some((found, _)) => shard.put(found, key, cell),
            None => {
                if !self.has_room(&shard) {
                    self.sweep_one(&mut shard, SWEEP_WHEN_FULL, now);
                    self.sweep_others(now);
                    if !self.has_room(&shard) {
                        self.refused.fetch_add(1, Ordering::Relaxed);
                        return Err(StoreFull);
                    }
                }
                shard.add(key, cell);
                self.sweep_one(&mut shard, SWEEP_AT_INSERT, now);
            }
        }
        Ok(())
    }

    /// The critical section. What it is given to hold is let go on return. Says whether the stack is decided.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "it is one function in two versions")]
    fn decide_locked<B: Bound>(
        &self,
        mut shards: impl Locked,
        levels: &[Level<'_>],
        formers: &[Former<'_>],
        now: Timestamp,
        commit: Commit,
        decision: &mut Decision,
        bound: &mut B,
    ) -> Result<bool, StoreFull> {
        let mut found: SmallVec<[Found; 4]> = SmallVec::new();
        let (mut grows, mut allowed) = (false, true);
        for (place, level) in levels.iter().enumerate() {
            let (at, mut cell) = shards
                .shard(level.home)
                .load(level.rule, level.key, level.cost, now);
            grows |= matches!(at, Found::Absent | Found::Log(_));
            if !formers.is_empty() {
                let formers = formers.iter().filter(|former| former.level == place);
                let touched = (!matches!(at, Found::Absent)).then_some(cell);
                // Taken apart, so that it is written down only where it comes from a call, and not for every counter.
                let Cell([first, second, third]) = inherit(&mut shards, level, touched, formers, now);
                cell = Cell([first, second, third]);
            }
            found.push(at);
            let outcome = Outcome::of(level, cell, now);
            allowed &= outcome.passes(level);
            bound.look(place, level, &outcome);
            decision.outcomes.push(outcome);
        }
        decision.allowed = allowed;
        if bound.is_short(allowed) {
            // What the ledger grants needs a counter to be noted in: without room for one, nothing is asked for.
            if grows {
                self.make_room_for_quotas(&mut shards, levels, &mut found, now)?;
            }
            return Ok(false);
        }
        if !allowed {
            return Ok(true);
        }
        if commit == Commit::DryRun {
            decision.charge(levels, now);
            return Ok(true);
        }
        let outcomes = decision.outcomes.as_mut_slice();
        if grows {
            self.make_room(&mut shards, levels, &mut found, outcomes, now)?;
        }
        let mut absent = false;
        for (place, (level, found)) in levels.iter().zip(&found).enumerate() {
            let Some(cell) = outcomes[place].charge(level, now) else {
                continue;
            };
            if place > 0 && is_repeated(levels, outcomes, place) {
                continue;
            }
            bound.charged(place, level, cell);
            let shard = shards.shard(level.home);
            if B::HOLDS || shard.may_return() {
                trace(shard, place, level, cell, bound);
            }
            if matches!(found, Found::Absent) {
                absent = true;
            } else if !shard.store(*found, level, cell, now) {
                shard.store_aside(*found, level, &outcomes[place].cell, now);
                self.account(shard);
            }
        }
        if absent {
            self.insert_absent(&mut shards, levels, &found, outcomes, now);
        }
        Ok(true)
    }

    /// Adds the counters of an allowed stack that are new. Last, since it moves what was found.
    #[inline(never)]
    fn insert_absent(
        &self,
        shards: &mut impl Locked,
        levels: &[Level<'_>],
        found: &[Found],
        outcomes: &[Outcome],
        now: Timestamp,
    ) {
        for (place, level) in levels.iter().enumerate() {
            let charged = outcomes[place].charged && !is_repeated(levels, outcomes, place);
            if charged && matches!(found[place], Found::Absent) {
                let shard = shards.shard(level.home);
                shard.insert(level, outcomes[place].cell, now);
                self.sweep_one(shard, SWEEP_AT_INSERT, now);
            }
        }
    }

    /// Gives each level's cost back, no more than was used, and a counter that several watch once.
    pub fn give_back(&self, levels: &[Level<'_>], now: Timestamp) {
        let mut shards = self.lock_many(levels, &[]);
        for (place, level) in levels.iter().enumerate() {
            if levels[..place].iter().any(|before| before.key == level.key) {
                continue;
            }
            let shard = shards.shard(level.home);
            shard.give_back(level, now);
            self.note(shard, level.key);
            self.account(shard);
        }
    }

    /// Notes what is left of a counter to which something was given back.
    fn note(&self, shard: &Front, key: CounterKey) {
        if let Some(journal) = self.journal()
            && let Some((_, cell)) = shard.find(key)
            && let Some(left) = cell.headroom()
        {
            journal.charged(key, left);
        }
    }

    /// Forgets counters that are as good as untouched in the next shard, looking at no more than `places`
    /// places of each kind of cell. Called in the background, again and again.
    pub fn sweep(&self, places: usize, now: Timestamp) {
        let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        self.sweep_one(&mut self.shards[next].0.lock(), places, now);
    }

    /// Is told which buckets refill more slowly than when they were charged, the earlier ones first: all that still have to
    /// be known. To be called before they do.
    pub fn heed(&self, slowings: &[Slowing]) {
        // What is charged meanwhile is charged as it was before, and noted down by whole ticks.
        let slack = Nanos::from(2 * TICK_NS);
        let slowings: Vec<Slowing> = slowings
            .iter()
            .map(|slowing| Slowing {
                reach: slowing.reach + slack,
                ..*slowing
            })
            .collect();
        let knew = self.heeds.swap(!slowings.is_empty(), Ordering::Relaxed);
        if knew || !slowings.is_empty() {
            for shard in &self.shards {
                shard.0.lock().heed(&slowings);
            }
        }
    }

    fn sweep_one(&self, shard: &mut Front, places: usize, now: Timestamp) {
        let gone = shard.sweep(places, now);
        if gone > 0 {
            self.reclaimed.fetch_add(gone as u64, Ordering::Relaxed);
        }
        self.account(shard);
    }

    /// What the store holds and has done.
    pub fn usage(&self) -> Usage {
        Usage {
            held: self.held.load(Ordering::Relaxed),
            reclaimed: self.reclaimed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// How many shards a whole round of sweeps visits.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Locks every shard of the stack in ascending order, the order that makes a deadlock impossible.
    fn lock_many(&self, levels: &[Level<'_>], formers: &[Former<'_>]) -> Many<'_> {
        let homes = levels.iter().map(|level| level.home);
        self.lock_homes(homes.chain(formers.iter().map(|former| former.home)))
    }

    fn lock_homes(&self, homes: impl Iterator<Item = u64>) -> Many<'_> {
        let mut wanted: SmallVec<[usize; 8]> = homes.map(shard_index).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Many(
            wanted
                .into_iter()
                .map(|index| (index, self.shards[index].0.lock()))
                .collect(),
        )
    }

    /// Refuses, before anything is charged, what would take the store past its cap.
    #[cold]
    fn make_room(
        &self,
        shards: &mut impl Locked,
        levels: &[Level<'_>],
        found: &mut [Found],
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> Result<(), StoreFull> {
        let is_charged = |place: usize| outcomes[place].is_charged(&levels[place]);
        self.make_room_where(shards, levels, found, is_charged, now)
    }

    /// Refuses a stack with a quota that is new here and has no room, before a ledger is asked about it.
    #[cold]
    fn make_room_for_quotas(
        &self,
        shards: &mut impl Locked,
        levels: &[Level<'_>],
        found: &mut [Found],
        now: Timestamp,
    ) -> Result<(), StoreFull> {
        let is_quota = |place: usize| levels[place].rule.is_quota();
        self.make_room_where(shards, levels, found, is_quota, now)
    }

    fn make_room_where(
        &self,
        shards: &mut impl Locked,
        levels: &[Level<'_>],
        found: &mut [Found],
        wants_room: impl Fn(usize) -> bool,
        now: Timestamp,
    ) -> Result<(), StoreFull> {
        for (place, level) in levels.iter().enumerate() {
            // A log grows with each charge, a cell only when it is new.
            let grows = matches!(found[place], Found::Absent | Found::Log(_));
            let shard = shards.shard(level.home);
            if !grows || !wants_room(place) || self.has_room(shard) {
                continue;
            }
            self.sweep_one(shard, SWEEP_WHEN_FULL, now);
            self.sweep_others(now);
            if !self.has_room(shard) {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(StoreFull);
            }
            // The sweep may have moved, or forgotten, what was found.
            for (level, at) in levels.iter().zip(found.iter_mut()) {
                let shard = shards.shard(level.home);
                *at = shard.load(level.rule, level.key, level.cost, now).0;
            }
        }
        Ok(())
    }

    /// Forgets counters of other shards, as long as the store is full. Some shard is locked already, so that one which is
    /// not to be had at once is passed over.
    fn sweep_others(&self, now: Timestamp) {
        for _ in 0..SHARDS_WHEN_FULL {
            if self.held.load(Ordering::Relaxed) < self.capacity {
                return;
            }
            let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.shards.len();
            if let Some(mut shard) = self.shards[next].0.try_lock() {
                self.sweep_one(&mut shard, SWEEP_WHEN_FULL, now);
            }
        }
    }

    fn has_room(&self, shard: &Front) -> bool {
        let (held, weight) = (self.held.load(Ordering::Relaxed), shard.weight());
        let is_short = held >= self.capacity - self.capacity / RESERVE;
        let most = if is_short && self.capacity >= SMALL {
            self.capacity / LITTLE
        } else {
            self.capacity.div_ceil(2)
        };
        held < self.capacity && weight < most
    }

    /// Counts what a shard has come to hold, or no longer holds, since this was last done.
    fn account(&self, shard: &mut Front) {
        let (before, after) = shard.tell_weight();
        if after >= before {
            self.held.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

#[inline]
fn shard_index(home: u64) -> usize {
    (home >> (64 - SHARD_BITS)) as usize
}

/// Whether a level's charge is written with an earlier one's: two limits may watch one count, and it is charged once.
#[inline]
fn is_repeated(levels: &[Level<'_>], outcomes: &[Outcome], place: usize) -> bool {
    let mut earlier = levels[..place].iter().zip(outcomes);
    earlier.any(|(level, outcome)| level.key == levels[place].key && outcome.charged)
}
