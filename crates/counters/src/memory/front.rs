//! A shard behind its hottest cells.
//!
//! When two threads work for one org, whatever a decision writes has to travel from one core to the other with
//! each hand-over of the lock, and that takes as long as the decision itself. The cells that every request of a
//! busy org touches therefore stand beside the lock. A hot cell's place in the table is kept for it, out of
//! date and marked as never expiring, until it cools down and is written back.

use tollgate_core::{Algorithm, Cell, CounterKey, Identity, Level, Mode, Rule, Slowing, Timestamp, Whence};

use super::directory::Place;
use super::shard::{Found, Shard};
use super::tick::{TICK_NS, tick, tick_after};

/// Four cache lines. Two are only read for as long as the same cells are hot, two are written with each
/// decision; the lock follows as the very last byte, on the line of the last pair of cells.
#[derive(Default)]
#[repr(C)]
pub(super) struct Front {
    /// The identities of the hot cells.
    words: [u64; HOT],
    halves: [u32; HOT],
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
/// That is taken away for so many at once.
const COOLING: u8 = 8;
/// One of so many cells that are not hot is looked at for becoming it.
const SAMPLE: u8 = 64;
/// The expiry of a place that is kept for a hot cell.
const NEVER: u32 = u32::MAX;

impl Front {
    #[inline]
    pub(super) fn weight(&self) -> usize {
        self.shard.weight()
    }

    /// The weight as it was last told, and as it is.
    pub(super) fn tell_weight(&mut self) -> (usize, usize) {
        self.shard.tell_weight()
    }

    /// Finds a counter and copies what a decision on `cost` needs of it.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub(super) fn load(&mut self, rule: &Rule, key: CounterKey, cost: u64, now: Timestamp) -> (Found, Cell) {
        if rule.algorithm == Algorithm::SlidingLog {
            // Taken apart, so that it is written down only where it comes from a call, and not for every counter.
            let (found, Cell([used, newest, room_at])) = self.shard.load_log(rule, key, cost, now);
            return (found, Cell([used, newest, room_at]));
        }
        let identity = key.identity();
        match self.hot(identity) {
            Some(place) => (Found::Hot(place as u64), self.cells[place]),
            None if rule.algorithm == Algorithm::SlidingCounter => {
                let (found, Cell([end, previous, current])) = self.shard.load_wide(identity);
                (found, Cell([end, previous, current]))
            }
            None => self.shard.load(identity),
        }
    }

    /// The place of a cell that is hot.
    #[inline]
    fn hot(&self, identity: Identity) -> Option<usize> {
        (0..HOT).find(|place| self.is_hot(*place, identity) && self.heat[*place] > 0)
    }

    /// Whether a place beside the lock is of a cell.
    #[inline]
    fn is_hot(&self, place: usize, identity: Identity) -> bool {
        self.words[place] == identity.word && self.halves[place] == identity.half
    }

    /// Finds a cell that belongs to no log.
    pub(super) fn find(&self, key: CounterKey) -> Option<(Found, Cell)> {
        let identity = key.identity();
        match self.hot(identity) {
            Some(place) => Some((Found::Hot(place as u64), self.cells[place])),
            None => self.shard.find(identity),
        }
    }

    /// Overwrites a cell that was found and whose first word is its end.
    pub(super) fn put(&mut self, found: Found, key: CounterKey, cell: Cell) {
        let expires = tick_after(cell.0[0]);
        match found {
            Found::Hot(place) => {
                let place = hot_place(place);
                self.cells[place] = cell;
                self.expires[place] = expires;
            }
            Found::Cell(at) if cell.is_slim() => self.shard.store(at, cell, expires),
            Found::Cell(_) | Found::Wide(_) | Found::Absent | Found::Log(_) => {
                self.shard.keep(key.identity(), cell, expires);
            }
        }
    }

    /// Adds a cell whose first word is its end.
    pub(super) fn add(&mut self, key: CounterKey, cell: Cell) {
        self.shard.add(key.identity(), cell, tick_after(cell.0[0]));
    }

    /// Overwrites a cell that was found, and says whether it was where it had been found.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub(super) fn store(&mut self, found: Found, level: &Level<'_>, after: Cell, now: Timestamp) -> bool {
        let identity = level.key.identity();
        match found {
            Found::Hot(place) if self.is_hot(hot_place(place), identity) => {
                let place = hot_place(place);
                self.cells[place] = after;
                self.heat[place] = (self.heat[place] + HIT).min(MOST_HEAT);
                // Most of the time the tick is the same, and the line that is only read stays so.
                let expires = tick_after(level.rule.outlived_at(after, now, u64::MAX).nanos());
                if self.expires[place] != expires {
                    self.expires[place] = expires;
                }
                true
            }
            Found::Cell(at) if after.is_slim() => {
                let expires = tick_after(level.rule.outlived_at(after, now, TICK_NS).nanos());
                self.shard.store(at, after, expires);
                self.note_other(identity);
                true
            }
            Found::Wide(at) => self.store_wide(at, level, after, now),
            Found::Hot(_) | Found::Cell(_) | Found::Log(_) | Found::Absent => false,
        }
    }

    /// Overwrites a cell of three words. Another level of the same stack may just have moved it.
    #[inline(never)]
    fn store_wide(&mut self, at: Place, level: &Level<'_>, after: Cell, now: Timestamp) -> bool {
        let identity = level.key.identity();
        let expires = tick_after(level.rule.forgettable_at(after, now).nanos());
        let stored = self.shard.store_wide(at, identity, after, expires);
        if stored {
            self.note_other(identity);
        }
        stored
    }

    /// Overwrites a counter that is a log, that needs a third word from now on, or whose place another level of the same
    /// stack has just taken.
    #[inline(never)]
    pub(super) fn store_aside(&mut self, found: Found, level: &Level<'_>, after: &Cell, now: Timestamp) {
        let identity = level.key.identity();
        let expires = tick_after(level.rule.forgettable_at(*after, now).nanos());
        match found {
            Found::Log(at) => self.shard.note(at, expires, level.cost, now),
            Found::Hot(_) | Found::Cell(_) | Found::Wide(_) => self.shard.keep(identity, *after, expires),
            Found::Absent => {}
        }
    }

    /// Counts a cell that was written and is not hot.
    #[inline]
    fn note_other(&mut self, identity: Identity) {
        self.others = self.others.wrapping_add(1);
        if self.others.is_multiple_of(COOLING) {
            self.cool(identity);
        }
    }

    /// Gives a level's cost back, no more than was used. Of an untouched counter there is nothing.
    pub(super) fn give_back(&mut self, level: &Level<'_>, now: Timestamp) {
        let (found, cell) = self.load(level.rule, level.key, 0, now);
        match found {
            Found::Absent => {}
            // The ledger may have yet to be told of a period that is over.
            Found::Cell(_) | Found::Wide(_) | Found::Hot(_)
                if level.rule.is_quota() && cell.0[0] <= now.nanos() => {}
            Found::Log(at) => self.shard.take_back(at, level.cost.min(cell.0[0])),
            Found::Cell(_) | Found::Wide(_) | Found::Hot(_) => {
                let overdraw = level.mode == Mode::Soft;
                let cell = level.rule.advance(cell, level.calendar, now, overdraw);
                let less = level.rule.uncharge(cell, level.cost);
                if !self.store(found, level, less, now) {
                    self.store_aside(found, level, &less, now);
                }
                if matches!(level.rule.whence(less), Whence::Debt { .. }) {
                    self.dip(level.key, less.debt());
                }
            }
        }
    }

    /// Overwrites a cell that was found, which can be forgotten when it could before.
    pub(super) fn amend(&mut self, found: Found, cell: Cell) {
        match found {
            Found::Hot(place) => self.cells[hot_place(place)] = cell,
            Found::Cell(_) | Found::Wide(_) | Found::Absent | Found::Log(_) => self.shard.amend(found, cell),
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

    /// From now on forgets counters only when they no longer matter in spite of these.
    pub(super) fn heed(&mut self, slowings: &[Slowing]) {
        self.shard.slowings = slowings.to_vec();
    }

    /// Forgets counters that are as good as untouched, looking at a bounded slice. Returns how many went.
    pub(super) fn sweep(&mut self, places: usize, now: Timestamp) -> usize {
        for place in 0..HOT {
            if self.heat[place] > 0 && self.expires[place] <= tick(now) {
                self.write_back(place);
            }
        }
        self.shard.sweep(places, now)
    }

    /// So many cells that are not hot were written: those that are cool down, and the last may take the place of one that
    /// has gone cold.
    #[inline(never)]
    fn cool(&mut self, identity: Identity) {
        for heat in self.heat.iter_mut().filter(|heat| **heat > 0) {
            *heat = heat.saturating_sub(COOLING).max(1);
        }
        if self.others.is_multiple_of(SAMPLE)
            && let Some(place) = (0..HOT).find(|place| self.heat[*place] <= 1)
        {
            self.make_way(place, identity);
        }
    }

    fn make_way(&mut self, place: usize, identity: Identity) {
        if self.heat[place] > 0 {
            self.write_back(place);
        }
        if let Some((cell, expires)) = self.shard.lend(identity, NEVER) {
            self.words[place] = identity.word;
            self.halves[place] = identity.half;
            self.expires[place] = expires;
            self.cells[place] = cell;
            self.heat[place] = FIRST_HEAT;
        }
    }

    fn write_back(&mut self, place: usize) {
        let identity = Identity {
            word: self.words[place],
            half: self.halves[place],
        };
        self.shard.keep(identity, self.cells[place], self.expires[place]);
        self.heat[place] = 0;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "there are four")]
#[inline]
fn hot_place(number: u64) -> usize {
    number as usize % HOT
}
