//! Exact counters that are fed with what was taken, to see whether a denial had a reason.

use std::collections::VecDeque;

use tollgate_core::{Algorithm, Calendar, Cell, Rule, Timestamp};

use crate::history::{Nature, Numbers};

const SECOND: u64 = 1_000_000_000;

/// What was taken from one counter.
#[derive(Debug, Clone)]
pub struct Book {
    nature: Nature,
    /// The cells after each of the latest changes, the last one last.
    cells: VecDeque<(u64, Cell)>,
    /// What a log holds: since when, until when, how much.
    log: VecDeque<(u64, u64, u64)>,
    /// When everything in a log was used up at the latest. Entries stay in order, if need be longer.
    lost: u64,
    /// Until when tokens are out on lease, in the store's time.
    out: u64,
    /// When something was last taken, in the store's time, which may go back a little.
    latest: u64,
    pub touched: bool,
}

impl Book {
    pub fn new(nature: &Nature) -> Self {
        Self {
            nature: nature.clone(),
            cells: VecDeque::new(),
            log: VecDeque::new(),
            lost: 0,
            out: 0,
            latest: 0,
            touched: false,
        }
    }

    /// Everything was used up at `stamp`.
    pub fn use_up(&mut self, numbers: Numbers, stamp: u64) {
        self.cells.clear();
        self.log.clear();
        self.latest = stamp;
        if self.is_log() {
            self.lost = stamp + SECOND;
            let until = self.lost + self.nature.window_ns;
            self.log.push_back((0, until, numbers.limit));
        } else {
            let capacity = self.nature.rule(numbers).capacity;
            self.charge(numbers, capacity, stamp);
        }
        self.touched = true;
    }

    /// Something was taken.
    pub fn charge(&mut self, numbers: Numbers, cost: u64, stamp: u64) {
        self.touched = true;
        if self.is_log() {
            return self.enter(stamp, 0, cost);
        }
        let (rule, cell) = self.at(numbers, stamp);
        let cell = rule.charge(cell, cost, Timestamp::from_nanos(stamp));
        self.change_to(cell, stamp);
    }

    /// Tokens were lent. Their place lies after their last possible spend.
    pub fn lend(&mut self, numbers: Numbers, amount: u64, hold: u64, stamp: u64) {
        self.out = self.out.max(stamp + hold);
        if self.is_log() {
            return self.enter(stamp, hold, amount);
        }
        if self.nature.is_bucket() {
            let (rule, cell) = self.at(numbers, stamp);
            let floor = u128::from(hold) * u128::from(rule.limit);
            let owed = u128::from(cell.0[0]) | u128::from(cell.0[1]) << 64;
            self.change_to(Cell::owing(owed.max(floor), cell.0[2]), stamp);
        }
        self.charge(numbers, amount, stamp);
    }

    /// Tokens were lent to a request that takes them at once. A log has them for as long as they can come back.
    pub fn take(&mut self, numbers: Numbers, amount: u64, hold: u64, stamp: u64) {
        if self.is_log() {
            return self.enter(stamp, hold, amount);
        }
        self.charge(numbers, amount, stamp);
    }

    /// Other numbers hold from now on. A bucket that refills faster, or is smaller, stands still until what is on lease
    /// has run out.
    pub fn change(&mut self, old: Numbers, new: Numbers, stamp: u64) {
        let same = (old.limit, old.capacity) == (new.limit, new.capacity);
        let Some((_, cell)) = self.cells.back() else {
            return;
        };
        if same || !self.nature.is_bucket() {
            return;
        }
        let (rule, at) = (self.nature.rule(old), Timestamp::from_nanos(stamp));
        let Cell([low, high, mut at]) = rule.advance(*cell, Calendar::utc(), at, true);
        if new.limit > old.limit || new.capacity < old.capacity {
            at = at.max(self.out);
        }
        self.change_to(Cell([low, high, at]), stamp);
    }

    /// It begins with no more room than this.
    pub fn narrow(&mut self, numbers: Numbers, room: u64, stamp: u64) {
        let excess = self.room(numbers, stamp).saturating_sub(room);
        if excess == 0 {
            return;
        }
        if !self.nature.is_bucket() {
            return self.charge(numbers, excess, stamp);
        }
        // No part of a token more, either.
        let (rule, cell) = self.at(numbers, stamp);
        let owed = u128::from(rule.capacity - room) * u128::from(rule.window_ns);
        self.change_to(Cell::owing(owed, cell.0[2]), stamp);
    }

    /// Whether `cost` would have fitted for all of the last `patience`, even if entries of a log stay so much longer.
    pub fn had_room(&self, numbers: Numbers, cost: u64, stamp: u64, (patience, longer): (u64, u64)) -> bool {
        let then = stamp - patience;
        let rule = self.nature.rule(numbers);
        if self.latest > stamp {
            // More was used then.
            return false;
        }
        if self.is_log() {
            let changes = self.log.iter().map(|(since, ..)| *since);
            let instants = changes.filter(|since| (then..=stamp).contains(since));
            return instants
                .chain([then])
                .all(|at| self.held(at, longer).saturating_add(cost) <= rule.limit);
        }
        for (since, cell) in self.cells.iter().rev() {
            let at = Timestamp::from_nanos(then.max(*since));
            let cell = rule.advance(*cell, Calendar::utc(), at, false);
            if !rule.fits(cell, cost, at) {
                return false;
            }
            if *since <= then {
                return true;
            }
        }
        true
    }

    /// What is left.
    pub fn room(&self, numbers: Numbers, stamp: u64) -> u64 {
        if self.is_log() {
            return numbers.limit.saturating_sub(self.held(stamp, 0));
        }
        let (rule, cell) = self.at(numbers, stamp);
        rule.remaining(cell, Timestamp::from_nanos(stamp))
    }

    fn is_log(&self) -> bool {
        self.nature.algorithm == Algorithm::SlidingLog
    }

    fn enter(&mut self, stamp: u64, hold: u64, cost: u64) {
        self.touched = true;
        self.latest = self.latest.max(stamp);
        while self
            .log
            .front()
            .is_some_and(|(_, until, _)| until + SECOND < stamp)
        {
            self.log.pop_front();
        }
        // Entries stay in order, if need be a little longer.
        let mut until = self.latest + hold + self.nature.window_ns;
        if stamp < self.lost + self.nature.window_ns {
            until = until.max(self.lost + self.nature.window_ns);
        }
        self.log.push_back((stamp, until, cost));
    }

    fn held(&self, at: u64, longer: u64) -> u64 {
        let counts = |(since, until, _): &&(u64, u64, u64)| *since <= at && at < *until + longer;
        self.log.iter().filter(counts).map(|(_, _, cost)| cost).sum()
    }

    fn at(&self, numbers: Numbers, stamp: u64) -> (Rule, Cell) {
        let rule = self.nature.rule(numbers);
        let last = self.cells.back().map_or(Cell::default(), |(_, cell)| *cell);
        let cell = rule.advance(last, Calendar::utc(), Timestamp::from_nanos(stamp), false);
        (rule, cell)
    }

    fn change_to(&mut self, cell: Cell, stamp: u64) {
        self.touched = true;
        self.latest = self.latest.max(stamp);
        while self.cells.len() > 1 && self.cells[1].0 + SECOND < stamp {
            self.cells.pop_front();
        }
        self.cells.push_back((stamp, cell));
    }
}
