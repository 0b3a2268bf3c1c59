//! The counters of the orgs that share a lock.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tollgate_core::{Algorithm, Cell, CounterKey, Identity, Log, Rule, Timestamp};

use super::dips::Dips;
use super::directory::{Directory, Place};

/// Where a level's count is kept, if it is. Small enough to be handed on in registers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// Untouched so far.
    Absent,
    /// A cell.
    Cell(Place),
    /// A cell beside the lock, by its number.
    Hot(u64),
    /// A log, by its entry.
    Log(Place),
}

#[derive(Default)]
pub(super) struct Shard {
    cells: Directory,
    /// The entries of sliding logs; a cell's first word is the log's place in `logs`.
    log_entries: Directory,
    logs: Vec<Log>,
    free_logs: Vec<usize>,
    /// Of buckets that may be given something back.
    pub(super) dips: HashMap<Identity, Dips, RandomState>,
    /// What is held, in counters' worth of memory.
    weight: usize,
}

/// A log entry takes less than half the memory of a counter.
const LOG_ENTRIES_PER_WEIGHT: usize = 2;

impl Shard {
    #[inline]
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Finds a level's counter and copies what the decision needs of it.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub(super) fn load(&self, identity: Identity) -> (Found, Cell) {
        match self.cells.find(identity) {
            Some((place, cell)) => (Found::Cell(place), cell),
            None => (Found::Absent, Cell::default()),
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

    /// Overwrites a cell that was found.
    #[inline]
    pub(super) fn store(&mut self, place: Place, after: Cell, expires: u32) {
        self.cells.set(place, after, expires);
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
        let (place, cell) = self.cells.find(identity)?;
        Some((Found::Cell(place), cell))
    }

    /// Adds a cell that is not there yet.
    pub(super) fn add(&mut self, identity: Identity, cell: Cell, expires: u32) {
        self.weight += 1;
        self.cells.insert(identity, cell, expires);
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

    /// Overwrites a cell that was found, which expires when it did.
    pub(super) fn amend(&mut self, found: Found, cell: Cell) {
        if let Found::Cell(place) = found {
            self.cells.amend(place, cell);
        }
    }

    /// Overwrites a cell that is there, wherever it is by now.
    pub(super) fn keep(&mut self, identity: Identity, cell: Cell, expires: u32) {
        if let Some((place, _)) = self.cells.find(identity) {
            self.cells.set(place, cell, expires);
        }
    }

    /// What is known of a cell and when it expires, which from now on is kept elsewhere: here it expires when it is said to.
    pub(super) fn lend(&mut self, identity: Identity, until: u32) -> Option<(Cell, u32)> {
        let (place, cell) = self.cells.find(identity)?;
        let expires = self.cells.expires(place);
        self.cells.set(place, cell, until);
        Some((cell, expires))
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
    pub(super) fn sweep(&mut self, groups: usize, now_tick: u32) -> usize {
        let mut gone = 0;
        self.cells.sweep(groups, now_tick, |_| gone += 1);
        self.weight -= gone;
        let Self {
            log_entries,
            logs,
            free_logs,
            weight,
            ..
        } = self;
        log_entries.sweep(groups, now_tick, |cell| {
            let index = log_index(cell);
            let log = std::mem::take(&mut logs[index]);
            *weight -= 1 + log_weight(&log);
            free_logs.push(index);
            gone += 1;
        });
        gone
    }
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
