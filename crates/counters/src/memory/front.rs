//! A shard behind its two hottest cells.
//!
//! When two threads work for one org, whatever a decision writes has to travel from one core to the other with
//! each hand-over of the lock. The cells that every request of a busy org touches therefore stand beside the
//! lock itself, in the 128 bytes that travel at once. A hot cell's place in the table is kept for it, out of
//! date and marked as never expiring, until it cools down and is written back.

use tollgate_core::{Algorithm, Cell, CounterKey, Rule, Timestamp};

use super::segment::Identity;
use super::shard::{Found, Shard};

#[derive(Clone, Copy, Default)]
struct Hot {
    identity: Identity,
    expires: u32,
    cell: Cell,
}

#[derive(Default)]
pub(super) struct Front {
    hot: [Hot; 2],
    /// How hot each is; 0 for one that may make way.
    heat: [u8; 2],
    /// Counts cells that were not hot, so that only now and then one becomes it.
    others: u8,
    shard: Box<Shard>,
}

/// What a hit adds, against one that is taken away for each cell that is not hot: a cell stays that more than a
/// third of all touches are for.
const HIT: u8 = 2;
const MOST_HEAT: u8 = 64;
const FIRST_HEAT: u8 = 8;
/// One of so many cells that are not hot is looked at for becoming it.
const SAMPLE: u8 = 64;
/// The expiry of a place that is kept for a hot cell.
const NEVER: u32 = u32::MAX;

impl Front {
    pub(super) fn weight(&self) -> usize {
        self.shard.weight()
    }

    /// Finds a level's counter and copies what the decision needs of it.
    #[inline]
    pub(super) fn load(&mut self, rule: &Rule, key: CounterKey, cost: u64, now: Timestamp) -> (Found, Cell) {
        if rule.algorithm != Algorithm::SlidingLog {
            let identity = key.identity();
            for (place, hot) in self.hot.iter().enumerate() {
                if hot.identity == identity && self.heat[place] > 0 {
                    return (Found::Hot(place), hot.cell);
                }
            }
        }
        self.shard.load(rule, key, cost, now)
    }

    /// Overwrites a counter that was found.
    #[inline]
    pub(super) fn store(
        &mut self,
        found: Found,
        key: CounterKey,
        after: Cell,
        expires: u32,
        cost: u64,
        now: Timestamp,
    ) {
        match found {
            Found::Hot(place) if self.hot[place].identity == key.identity() => {
                let hot = &mut self.hot[place];
                hot.cell = after;
                hot.expires = expires;
                self.heat[place] = (self.heat[place] + HIT).min(MOST_HEAT);
            }
            // Another level of the same stack has just taken its place.
            Found::Hot(_) => self.shard.keep(key.identity(), after, expires),
            Found::Cell(_) => {
                self.shard.store(found, after, expires, cost, now);
                self.cool(key.identity(), after, expires);
            }
            Found::Absent | Found::Log(..) => self.shard.store(found, after, expires, cost, now),
        }
    }

    /// Adds a counter that was absent.
    pub(super) fn insert(&mut self, rule: &Rule, key: CounterKey, after: Cell, expires: u32, now: Timestamp) {
        self.shard.insert(rule, key, after, expires, now);
    }

    /// Forgets counters that are as good as untouched, looking at a bounded slice. Returns how many went.
    pub(super) fn sweep(&mut self, groups: usize, now_tick: u32) -> usize {
        for place in 0..self.hot.len() {
            if self.heat[place] > 0 && self.hot[place].expires <= now_tick {
                self.write_back(place);
            }
        }
        self.shard.sweep(groups, now_tick)
    }

    /// A cell that is not hot was written: those that are cool down a little, and it may take the place of one
    /// that has gone cold.
    fn cool(&mut self, identity: Identity, cell: Cell, expires: u32) {
        self.others = self.others.wrapping_add(1);
        let sampled = self.others.is_multiple_of(SAMPLE);
        for place in 0..self.hot.len() {
            if self.heat[place] > 1 {
                self.heat[place] -= 1;
            } else if sampled {
                if self.heat[place] > 0 {
                    self.write_back(place);
                }
                self.hot[place] = Hot {
                    identity,
                    expires,
                    cell,
                };
                self.heat[place] = FIRST_HEAT;
                self.shard.keep(identity, cell, NEVER);
                return;
            }
        }
    }

    fn write_back(&mut self, place: usize) {
        let hot = self.hot[place];
        self.shard.keep(hot.identity, hot.cell, hot.expires);
        self.heat[place] = 0;
    }
}
