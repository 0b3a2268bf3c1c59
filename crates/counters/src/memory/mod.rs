//! Counters in this process's memory.
//!
//! A stack is decided in one critical section: the shards of its levels are locked in ascending order, the
//! cells are copied out, [`tollgate_core::stack::decide`] decides on the copies, and charged cells are
//! written back. An org's levels share a shard, so its stack takes one lock; only limits that span orgs
//! add others. The locks are let go before anything is divided or shown.

mod directory;
mod segment;
mod shard;

use smallvec::SmallVec;
use tollgate_core::{Decision, Former, Level, Timestamp, stack};

use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use shard::{Found, Shard};

/// Whether a decision is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// Charge what it says.
    Charge,
    /// Answer as a real decision would, and change nothing.
    DryRun,
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

/// A shard on cache lines of its own, so that neighbours' locks don't slow each other down.
#[repr(align(128))]
struct Padded(Mutex<Shard>);

/// Counters in memory, sharded by their home.
pub struct MemoryStore {
    shards: Box<[Padded]>,
    capacity: usize,
    held: AtomicUsize,
    reclaimed: AtomicU64,
    refused: AtomicU64,
    next_sweep: AtomicUsize,
}

const SHARD_BITS: u32 = 8;
/// Groups of eight cells looked at for each insertion: more than insertions can fill, so that a store
/// under churn cleans up after itself even if nobody calls [`MemoryStore::sweep`].
const SWEEP_AT_INSERT: usize = 1;
/// Groups looked at before a decision is refused for want of room.
const SWEEP_WHEN_FULL: usize = 64;

type Shards<'a> = SmallVec<[(usize, MutexGuard<'a, Shard>); 2]>;

impl MemoryStore {
    /// A store that holds at most `capacity` counters, and at most half of that in any one shard, so that
    /// one org can't use up the memory of all.
    pub fn new(capacity: usize) -> Self {
        let shards = (0..1 << SHARD_BITS).map(|_| Padded(Mutex::new(Shard::default())));
        Self {
            shards: shards.collect(),
            capacity,
            held: AtomicUsize::new(0),
            reclaimed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            next_sweep: AtomicUsize::new(0),
        }
    }

    /// Decides a stack, all or none.
    pub fn decide(
        &self,
        levels: &[Level<'_>],
        formers: &[Former<'_>],
        now: Timestamp,
        commit: Commit,
    ) -> Result<Decision, StoreFull> {
        let (allowed, outcomes) = {
            let mut shards = self.lock(levels, formers);
            let mut found: SmallVec<[Found; 4]> = SmallVec::new();
            let mut cells: SmallVec<[tollgate_core::Cell; 4]> = SmallVec::new();
            for (place, level) in levels.iter().enumerate() {
                let shard = shard_of(&mut shards, level.home);
                let (at, cell) = shard.load(level.rule, level.key, level.cost, now);
                found.push(at);
                cells.push(if formers.is_empty() || !matches!(at, Found::Absent) {
                    cell
                } else {
                    inherit(
                        &mut shards,
                        level,
                        formers.iter().filter(|f| f.level == place),
                        now,
                    )
                });
            }
            let (allowed, outcomes) = stack::decide(levels, cells.into_iter(), now);
            if allowed && commit == Commit::Charge {
                self.write(&mut shards, levels, &found, &outcomes, now)?;
            }
            (allowed, outcomes)
        };
        Ok(Decision::of(levels, allowed, &outcomes, now))
    }

    /// Forgets counters that are as good as untouched in the next shard, looking at no more than `groups`
    /// groups of eight. Called in the background, again and again.
    pub fn sweep(&self, groups: usize, now: Timestamp) {
        let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        let mut shard = self.shards[next].0.lock();
        let before = shard.weight();
        let (gone, _) = shard.sweep(groups, tick(now));
        self.account(before, shard.weight(), gone);
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
    fn lock(&self, levels: &[Level<'_>], formers: &[Former<'_>]) -> Shards<'_> {
        let mut wanted: SmallVec<[usize; 4]> = SmallVec::new();
        let homes = levels.iter().map(|level| level.home);
        for home in homes.chain(formers.iter().map(|former| former.home)) {
            let index = shard_index(home);
            if !wanted.contains(&index) {
                wanted.push(index);
            }
        }
        wanted.sort_unstable();
        wanted
            .into_iter()
            .map(|index| (index, self.shards[index].0.lock()))
            .collect()
    }

    fn write(
        &self,
        shards: &mut Shards<'_>,
        levels: &[Level<'_>],
        found: &[Found],
        outcomes: &stack::Outcomes,
        now: Timestamp,
    ) -> Result<(), StoreFull> {
        let charged = |place: usize| outcomes[place].charged;
        // Two limits may watch one count; it is charged once.
        let repeated = |place: usize| {
            (0..place).any(|earlier| charged(earlier) && levels[earlier].key == levels[place].key)
        };
        let absent = |place: usize| matches!(found[place], Found::Absent);
        let places = || (0..levels.len()).filter(|place| charged(*place) && !repeated(*place));
        if places().any(absent) {
            self.make_room(shards, levels, places().filter(|place| absent(*place)), now)?;
        }
        // Found places stay good only until the first insertion, so insertions come last.
        for place in places().filter(|place| !absent(*place)) {
            let (level, after) = (&levels[place], outcomes[place].after);
            let expires = tick_after(level.rule.forgettable_at(after, now).nanos());
            let shard = shard_of(shards, level.home);
            let before = shard.weight();
            shard.store(found[place], after, expires, level.cost, now);
            if shard.weight() != before {
                self.account(before, shard.weight(), 0);
            }
        }
        for place in places().filter(|place| absent(*place)) {
            let (level, after) = (&levels[place], outcomes[place].after);
            let expires = tick_after(level.rule.forgettable_at(after, now).nanos());
            let shard = shard_of(shards, level.home);
            let before = shard.weight();
            shard.insert(level.rule, level.key, after, expires, now);
            let (gone, _) = shard.sweep(SWEEP_AT_INSERT, tick(now));
            self.account(before, shard.weight(), gone);
        }
        Ok(())
    }

    /// Refuses, before anything is charged, what would take the store past its cap.
    fn make_room(
        &self,
        shards: &mut Shards<'_>,
        levels: &[Level<'_>],
        absent: impl Iterator<Item = usize>,
        now: Timestamp,
    ) -> Result<(), StoreFull> {
        for place in absent {
            let shard = shard_of(shards, levels[place].home);
            if self.has_room(shard) {
                continue;
            }
            let before = shard.weight();
            let (gone, _) = shard.sweep(SWEEP_WHEN_FULL, tick(now));
            self.account(before, shard.weight(), gone);
            if !self.has_room(shard) {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(StoreFull);
            }
        }
        Ok(())
    }

    fn has_room(&self, shard: &Shard) -> bool {
        self.held.load(Ordering::Relaxed) < self.capacity && shard.weight() < self.capacity.div_ceil(2)
    }

    fn account(&self, before: usize, after: usize, gone: usize) {
        if after >= before {
            self.held.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(before - after, Ordering::Relaxed);
        }
        if gone > 0 {
            self.reclaimed.fetch_add(gone as u64, Ordering::Relaxed);
        }
    }
}

/// The cell of an untouched counter that replaces others: no more room than the tightest of them had left.
fn inherit<'a>(
    shards: &mut Shards<'_>,
    level: &Level<'_>,
    formers: impl Iterator<Item = &'a Former<'a>>,
    now: Timestamp,
) -> tollgate_core::Cell {
    let mut room = level.rule.capacity;
    for former in formers {
        let shard = shard_of(shards, former.home);
        let (found, cell) = shard.load(former.rule, former.key, 0, now);
        if !matches!(found, Found::Absent) {
            let cell = former.rule.advance(cell, former.calendar, now, false);
            room = room.min(former.rule.remaining(cell, now));
        }
    }
    if room == level.rule.capacity {
        return tollgate_core::Cell::default();
    }
    level.rule.opened_with(room, level.calendar, now)
}

fn shard_index(home: u64) -> usize {
    (home >> (64 - SHARD_BITS)) as usize
}

fn shard_of<'s>(shards: &'s mut Shards<'_>, home: u64) -> &'s mut Shard {
    let index = shard_index(home);
    let position = shards.iter().position(|(at, _)| *at == index).unwrap_or(0);
    &mut shards[position].1
}

/// Expiry is kept in ticks of eight seconds, so that 32 bits reach past the end of representable time.
const TICK_NS: u64 = 8_000_000_000;

/// The tick from which on something that ends at `nanos` may be forgotten: rounded up, never early.
fn tick_after(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(TICK_NS)).unwrap_or(u32::MAX)
}

/// The tick of the present, rounded down.
fn tick(now: Timestamp) -> u32 {
    u32::try_from(now.nanos() / TICK_NS).unwrap_or(u32::MAX)
}
