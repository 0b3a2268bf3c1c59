//! The counters of the orgs that share a lock.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tollgate_core::{Algorithm, Cell, CounterKey, Identity, Log, Rule, Slowing, Timestamp};

use super::dips::Dips;
use super::directory::{Directory, Place};
use super::tick::{start_of, tick};

/// Where a level's count is kept, if it is. Small enough to be handed on in registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// Untouched so far.
    Absent,
    /// A cell of two words.
    Cell(Place),
    /// A cell that needs all three.
    Wide(Place),
    /// A cell beside the lock, by its number.
    Hot(u64),
    /// A log, by its entry.
    Log(Place),
}

/// Groups of two entries of 32 bytes.
type Slim = Directory<2, 2>;
/// Groups of six entries of 40 bytes.
type Wide = Directory<3, 6>;

#[derive(Default)]
pub(super) struct Shard {
    /// Most counters do without their third word.
    slim: Slim,
    /// Those that do not. One that comes to need it moves here, and stays.
    wide: Wide,
    /// The entries of sliding logs; a cell's first word is the log's place in `logs`.
    log_entries: Slim,
    logs: Vec<Log>,
    free_logs: Vec<usize>,
    /// Of buckets that may be given something back.
    pub(super) dips: HashMap<Identity, Dips, RandomState>,
    /// What is held, in counters' worth of memory.
    weight: usize,
    /// What the store believes that to be. A log loses entries whenever it is looked at, also where nothing is charged.
    told: usize,
    /// Why some buckets matter for longer than was foreseen.
    pub(super) slowings: Vec<Slowing>,
}

/// A log entry takes less than half the memory of a counter.
const LOG_ENTRIES_PER_WEIGHT: usize = 2;

impl Shard {
    #[inline]
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The weight as it was last told, and as it is.
    pub(super) fn tell_weight(&mut self) -> (usize, usize) {
        (std::mem::replace(&mut self.told, self.weight), self.weight)
    }

    /// Finds a level's counter and copies what the decision needs of it.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub(super) fn load(&self, identity: Identity) -> (Found, Cell) {
        match self.slim.find(identity) {
            Some((place, cell)) => (Found::Cell(place), cell),
            // Taken apart, so that it is written down only where it comes from a call, and not for every counter.
            None => match self.find_wide(identity) {
                Some((place, Cell([first, second, third]))) => {
                    (Found::Wide(place), Cell([first, second, third]))
                }
                None => (Found::Absent, Cell::default()),
            },
        }
    }

    /// The same for a counter that is hardly ever slim.
    #[inline(never)]
    pub(super) fn load_wide(&self, identity: Identity) -> (Found, Cell) {
        match self.wide.find(identity) {
            Some((place, cell)) => (Found::Wide(place), cell),
            None => self.load(identity),
        }
    }

    /// The same for a log, of which a decision on `cost` needs a summary.
    #[inline(never)]
    pub(super) fn load_log(
        &mut self,
        rule: &Rule,
        key: CounterKey,
        cost: u64,
        now: Timestamp,
    ) -> (Found, Cell) {
        let Some((place, entry)) = self.log_entries.find(key.identity()) else {
            return (Found::Absent, Cell::default());
        };
        let log = &mut self.logs[log_index(entry)];
        let before = log_weight(log);
        let summary = log.summary(rule, cost, now);
        self.weight -= before - log_weight(log);
        (Found::Log(place), summary)
    }

    /// Kept apart from [`Self::load`], which is inlined for the others' sake.
    #[inline(never)]
    fn find_wide(&self, identity: Identity) -> Option<(Place, Cell)> {
        self.wide.find(identity)
    }

    /// Overwrites a cell of two words that was found.
    #[inline]
    pub(super) fn store(&mut self, place: Place, after: Cell, expires: u32) {
        self.slim.set(place, after, expires);
    }

    /// Overwrites one of three, if it is still there.
    pub(super) fn store_wide(&mut self, place: Place, identity: Identity, after: Cell, expires: u32) -> bool {
        let there = self.wide.is_at(place, identity);
        if there {
            self.wide.set(place, after, expires);
        }
        there
    }

    /// Notes in a log that was found what it admits.
    pub(super) fn note(&mut self, place: Place, expires: u32, cost: u64, now: Timestamp) {
        let entry = self.log_entries.get(place);
        self.log_entries.set(place, entry, expires);
        let log = &mut self.logs[log_index(entry)];
        let before = log_weight(log);
        log.push(cost, now);
        log.trim();
        self.weight += log_weight(log) - before;
    }

    /// Finds a cell that belongs to no log.
    pub(super) fn find(&self, identity: Identity) -> Option<(Found, Cell)> {
        match self.load(identity) {
            (Found::Absent, _) => None,
            found => Some(found),
        }
    }

    /// Adds a cell that is not there yet.
    pub(super) fn add(&mut self, identity: Identity, cell: Cell, expires: u32) {
        self.weight += 1;
        if cell.is_slim() {
            self.slim.insert(identity, cell, expires);
        } else {
            self.wide.insert(identity, cell, expires);
        }
    }

    /// Takes back what a log admitted last.
    pub(super) fn take_back(&mut self, place: Place, cost: u64) {
        let log = &mut self.logs[log_index(self.log_entries.get(place))];
        let before = log_weight(log);
        log.take_back(cost);
        log.trim();
        self.weight -= before - log_weight(log);
    }

    /// Takes back what a log admitted at an instant.
    pub(super) fn forgive(&mut self, identity: Identity, at: u64, cost: u64) {
        let Some((_, entry)) = self.log_entries.find(identity) else {
            return;
        };
        let log = &mut self.logs[log_index(entry)];
        let before = log_weight(log);
        log.forgive(at, cost);
        self.weight -= before - log_weight(log);
    }

    /// Overwrites a cell that was found with one that counts less, and needs no word that it had not. It expires when it
    /// did.
    pub(super) fn amend(&mut self, found: Found, cell: Cell) {
        match found {
            Found::Cell(place) => self.slim.amend(place, cell),
            Found::Wide(place) => self.wide.amend(place, cell),
            Found::Absent | Found::Hot(_) | Found::Log(_) => {}
        }
    }

    /// Overwrites a cell that is there, wherever it is by now.
    pub(super) fn keep(&mut self, identity: Identity, cell: Cell, expires: u32) {
        match self.load(identity).0 {
            Found::Cell(place) if cell.is_slim() => self.slim.set(place, cell, expires),
            Found::Cell(place) => {
                self.slim.remove(place);
                self.wide.insert(identity, cell, expires);
            }
            Found::Wide(place) => self.wide.set(place, cell, expires),
            Found::Absent | Found::Hot(_) | Found::Log(_) => {}
        }
    }

    /// What is known of a cell and when it expires, which from now on is kept elsewhere: here it expires when it is said to.
    pub(super) fn lend(&mut self, identity: Identity, until: u32) -> Option<(Cell, u32)> {
        match self.load(identity) {
            (Found::Cell(place), cell) => {
                let expires = self.slim.expires(place);
                self.slim.set(place, cell, until);
                Some((cell, expires))
            }
            (Found::Wide(place), cell) => {
                let expires = self.wide.expires(place);
                self.wide.set(place, cell, until);
                Some((cell, expires))
            }
            _ => None,
        }
    }

    /// Adds a counter that was absent. A log begins with all that its summary says is used.
    pub(super) fn insert(&mut self, rule: &Rule, key: CounterKey, after: Cell, expires: u32, now: Timestamp) {
        if rule.algorithm != Algorithm::SlidingLog {
            self.add(key.identity(), after, expires);
            return;
        }
        self.weight += 1;
        let mut log = Log::default();
        log.push(after.0[0], now);
        let index = if let Some(index) = self.free_logs.pop() {
            self.logs[index] = log;
            index
        } else {
            self.logs.push(log);
            self.logs.len() - 1
        };
        self.log_entries
            .insert(key.identity(), Cell([index as u64, 0, 0]), expires);
    }

    /// Forgets counters that are as good as untouched, looking at a bounded slice. Returns how many went.
    pub(super) fn sweep(&mut self, places: usize, now: Timestamp) -> usize {
        let Self {
            slim,
            wide,
            log_entries,
            logs,
            free_logs,
            weight,
            slowings,
            ..
        } = self;
        let present = tick(now);
        let is_over = |expires| expires <= present && end_of(expires, slowings) <= now;
        let mut gone = 0;
        slim.sweep(places, is_over, |_| gone += 1);
        wide.sweep(places, is_over, |_| gone += 1);
        *weight -= gone;
        log_entries.sweep(places, is_over, |cell| {
            let index = log_index(cell);
            let log = std::mem::take(&mut logs[index]);
            *weight -= 1 + log_weight(&log);
            free_logs.push(index);
            gone += 1;
        });
        gone
    }
}

/// The end of what was to expire at a tick, as things have come since.
fn end_of(expires: u32, slowings: &[Slowing]) -> Timestamp {
    slowings
        .iter()
        .fold(start_of(expires), |end, slowing| slowing.end(end))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "it was a usize when it was stored"
)]
fn log_index(cell: Cell) -> usize {
    cell.0[0] as usize
}

fn log_weight(log: &Log) -> usize {
    log.len() / LOG_ENTRIES_PER_WEIGHT
}
