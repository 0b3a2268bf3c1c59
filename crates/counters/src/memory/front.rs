//! A shard behind its hottest cells.
//!
//! When two threads work for one org, whatever a decision writes has to travel from one core to the other with
//! each hand-over of the lock, and that takes as long as the decision itself. The cells that every request of a
//! busy org touches therefore stand beside the lock. A hot cell's place in the table is kept for it, out of
//! date and marked as never expiring, until it cools down and is written back.

use tollgate_core::{Algorithm, Cell, CounterKey, Level, Mode, Rule, Timestamp, Whence};

use super::segment::Identity;
use super::shard::{Found, Shard};
use super::tick::{tick, tick_after};

/// Four cache lines. Two are only read for as long as the same cells are hot, two are written with each
/// decision; the lock follows as the very last byte, on the line of the last pair of cells.
#[derive(Default)]
#[repr(C)]
pub(super) struct Front {
    identities: [Identity; HOT],
    expires: [u32; HOT],
    shard: Box<Shard>,
    _line: [u64; 7],
    cells: [Cell; HOT],
    _aside: [u64; 2],
    /// How hot each is; 0 for one that may make way.
    heat: [u8; HOT],
    /// Counts cells that were not hot, so that only now and then one becomes it.
    others: u8,
    /// Some bucket may be given something back.
    may_return: bool,
}

const HOT: usize = 4;
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
    #[inline]
    pub(super) fn weight(&self) -> usize {
        self.shard.weight()
    }

    /// Finds a counter and copies what a decision on `cost` needs of it.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub(super) fn load(&mut self, rule: &Rule, key: CounterKey, cost: u64, now: Timestamp) -> (Found, Cell) {
        if rule.algorithm != Algorithm::SlidingLog
            && let Some(hot) = self.hot(key.identity())
        {
            return hot;
        }
        self.shard.load(rule, key, cost, now)
    }

    #[inline]
    fn hot(&self, identity: Identity) -> Option<(Found, Cell)> {
        for place in (0..HOT).rev() {
            if self.identities[place] == identity && self.heat[place] > 0 {
                return Some((Found::Hot(place), self.cells[place]));
            }
        }
        None
    }

    /// Finds a cell that belongs to no log.
    pub(super) fn find(&self, key: CounterKey) -> Option<(Found, Cell)> {
        let identity = key.identity();
        self.hot(identity).or_else(|| self.shard.find(identity))
    }

    /// Overwrites a cell that was found and whose first word is its end.
    pub(super) fn put(&mut self, found: Found, key: CounterKey, cell: Cell) {
        let expires = tick_after(cell.0[0]);
        match found {
            Found::Hot(place) => {
                self.cells[place] = cell;
                self.expires[place] = expires;
            }
            Found::Cell(at) => self.shard.store(at, cell, expires),
            Found::Absent | Found::Log(..) => self.shard.keep(key.identity(), cell, expires),
        }
    }

    /// Adds a cell whose first word is its end.
    pub(super) fn add(&mut self, key: CounterKey, cell: Cell) {
        self.shard.add(key.identity(), cell, tick_after(cell.0[0]));
    }

    /// Overwrites a counter that was found.
    #[inline]
    pub(super) fn store(&mut self, found: Found, level: &Level<'_>, after: Cell, now: Timestamp) {
        let identity = level.key.identity();
        if let Found::Hot(place) = found
            && self.identities[place] == identity
        {
            self.cells[place] = after;
            self.heat[place] = (self.heat[place] + HIT).min(MOST_HEAT);
            // Most of the time the tick is the same, and the line that is only read stays so.
            let expires = tick_after(level.rule.outlived_at(after, now).nanos());
            if self.expires[place] != expires {
                self.expires[place] = expires;
            }
            return;
        }
        let expires = tick_after(level.rule.forgettable_at(after, now).nanos());
        match found {
            Found::Cell(at) => {
                self.shard.store(at, after, expires);
                self.cool(identity, after, expires);
            }
            // Another level of the same stack has just taken its place.
            Found::Hot(_) => self.shard.keep(identity, after, expires),
            Found::Log(at, index) => self.shard.note(at, index, expires, level.cost, now),
            Found::Absent => {}
        }
    }

    /// Gives a level's cost back, no more than was used. Of an untouched counter there is nothing.
    pub(super) fn give_back(&mut self, level: &Level<'_>, now: Timestamp) {
        let (found, cell) = self.load(level.rule, level.key, 0, now);
        match found {
            Found::Absent => {}
            Found::Log(_, index) => self.shard.take_back(index, level.cost.min(cell.0[0])),
            Found::Cell(_) | Found::Hot(_) => {
                let overdraw = level.mode == Mode::Soft;
                let cell = level.rule.advance(cell, level.calendar, now, overdraw);
                let less = level.rule.uncharge(cell, level.cost);
                self.store(found, level, less, now);
                if matches!(level.rule.whence(less), Whence::Debt { .. }) {
                    self.dip(level.key, less.debt());
                }
            }
        }
    }

    /// Overwrites a cell that was found, which can be forgotten when it could before.
    pub(super) fn amend(&mut self, found: Found, cell: Cell) {
        match found {
            Found::Hot(place) => self.cells[place] = cell,
            Found::Cell(_) | Found::Absent | Found::Log(..) => self.shard.amend(found, cell),
        }
    }

    /// Whether a bucket of this shard may be given something back.
    #[inline]
    pub(super) fn may_return(&self) -> bool {
        self.may_return
    }

    /// Notes how little a bucket owes.
    pub(super) fn dip(&mut self, key: CounterKey, owed: u128) {
        if let Some(dips) = self.shard.dips.get_mut(&key.identity()) {
            dips.dip(owed);
        }
    }

    /// Begins to remember how little a bucket owes after a charge.
    pub(super) fn open(&mut self, key: CounterKey, owed: u128) -> u64 {
        self.may_return = true;
        self.shard.dips.entry(key.identity()).or_default().open(owed)
    }

    /// Ends that with a charge of which so much was not used, and says how much of that is given back.
    pub(super) fn close(&mut self, key: CounterKey, ticket: u64, unused: u128) -> u128 {
        let dips = &mut self.shard.dips;
        let Some(known) = dips.get_mut(&key.identity()) else {
            return 0;
        };
        let back = known.close(ticket, unused);
        if known.is_empty() {
            dips.remove(&key.identity());
        }
        self.may_return = !dips.is_empty();
        back
    }

    /// Takes back what a log admitted at an instant.
    pub(super) fn forgive(&mut self, key: CounterKey, at: u64, cost: u64) {
        self.shard.forgive(key.identity(), at, cost);
    }

    /// Adds a counter that was absent.
    pub(super) fn insert(&mut self, level: &Level<'_>, after: Cell, now: Timestamp) {
        let expires = tick_after(level.rule.forgettable_at(after, now).nanos());
        self.shard.insert(level.rule, level.key, after, expires, now);
    }

    /// Forgets counters that are as good as untouched, looking at a bounded slice. Returns how many went.
    pub(super) fn sweep(&mut self, groups: usize, now: Timestamp) -> usize {
        for place in 0..HOT {
            if self.heat[place] > 0 && self.expires[place] <= tick(now) {
                self.write_back(place);
            }
        }
        self.shard.sweep(groups, tick(now))
    }

    /// A cell that is not hot was written: those that are cool down a little, and it may take the place of one
    /// that has gone cold.
    #[inline]
    fn cool(&mut self, identity: Identity, cell: Cell, expires: u32) {
        self.others = self.others.wrapping_add(1);
        if self.others.is_multiple_of(SAMPLE) {
            return self.make_way(identity, cell, expires);
        }
        for heat in &mut self.heat {
            *heat -= u8::from(*heat > 1);
        }
    }

    #[inline(never)]
    fn make_way(&mut self, identity: Identity, cell: Cell, expires: u32) {
        for place in (0..HOT).rev() {
            if self.heat[place] > 1 {
                self.heat[place] -= 1;
            } else {
                if self.heat[place] > 0 {
                    self.write_back(place);
                }
                self.identities[place] = identity;
                self.expires[place] = expires;
                self.cells[place] = cell;
                self.heat[place] = FIRST_HEAT;
                self.shard.keep(identity, cell, NEVER);
                return;
            }
        }
    }

    fn write_back(&mut self, place: usize) {
        self.shard
            .keep(self.identities[place], self.cells[place], self.expires[place]);
        self.heat[place] = 0;
    }
}
