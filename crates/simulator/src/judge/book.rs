//! Exact counters that are fed with what was taken, to see whether a denial had a reason.

use std::collections::VecDeque;

use tollgate_core::{Algorithm, Calendar, Cell, Rule, Timestamp};

use crate::history::{Nature, Numbers};

const SECOND: u64 = 1_000_000_000;

/// What was taken from one counter.
#[derive(Debug, Clone)]
pub struct Book {
    nature: Nature,
    /// What was after each of the latest changes, the last one last.
    pages: VecDeque<Page>,
    /// What is on lease: until when, how much.
    lent: Vec<(u64, u64)>,
    /// What a log holds: since when, until when, how much.
    log: VecDeque<(u64, u64, u64)>,
    /// When everything in a log was used up at the latest. Entries stay in order, if need be longer.
    lost: u64,
    /// When something was last taken, in the store's time, which may go back a little.
    latest: u64,
    /// Since when a bucket has owed something without a break.
    busy_since: u64,
    pub touched: bool,
}

/// A counter after a change.
#[derive(Debug, Clone, Default)]
struct Page {
    since: u64,
    cell: Cell,
    /// What a bucket has on lease: until when, how much. It does not drain below that.
    leases: Vec<(u64, u64)>,
    /// What requests have of a bucket that wait for another slot: until when, how much. It may owe so much beyond its burst.
    needed: Vec<(u64, u64)>,
}

impl Page {
    /// The counter at an instant.
    fn at(&self, rule: &Rule, stamp: u64) -> Self {
        let mut page = self.clone();
        while let Some(until) = page.next_end().filter(|until| *until <= stamp) {
            page.cell = page.drained(rule, until);
            page.leases.retain(|(end, _)| *end > until);
            page.needed.retain(|(end, _)| *end > until);
        }
        page.cell = page.drained(rule, stamp);
        page
    }

    fn next_end(&self) -> Option<u64> {
        let all = self.leases.iter().chain(&self.needed);
        all.map(|(until, _)| *until).min()
    }

    fn drained(&self, rule: &Rule, stamp: u64) -> Cell {
        let sum = |lent: &[(u64, u64)]| lent.iter().map(|(_, amount)| amount).sum::<u64>();
        let (leased, needed) = (sum(&self.leases), sum(&self.needed));
        if leased == 0 && needed == 0 {
            return rule.advance(self.cell, Calendar::utc(), Timestamp::from_nanos(stamp), false);
        }
        let at = self.cell.as_of();
        let parts = |tokens: u64| u128::from(tokens) * u128::from(rule.window_ns);
        let most = parts(rule.capacity) + parts(leased) + parts(needed);
        let owed = self.cell.debt().min(most);
        let drained = u128::from(rule.limit) * u128::from(stamp.saturating_sub(at));
        Cell::owing(owed.saturating_sub(drained).max(parts(leased)), at.max(stamp))
    }
}

impl Book {
    pub fn new(nature: &Nature) -> Self {
        Self {
            nature: nature.clone(),
            pages: VecDeque::new(),
            lent: Vec::new(),
            log: VecDeque::new(),
            lost: 0,
            latest: 0,
            busy_since: 0,
            touched: false,
        }
    }

    /// Everything was used up at `stamp`.
    pub fn use_up(&mut self, numbers: Numbers, stamp: u64) {
        self.pages.clear();
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
        if self.nature.is_bucket()
            && let Some(page) = self.pages.back_mut()
        {
            // Half of it may have been on lease.
            let lease = (stamp + SECOND, numbers.capacity / 2);
            page.leases.push(lease);
            self.lent.push(lease);
        }
        self.touched = true;
    }

    /// Something was taken.
    pub fn charge(&mut self, numbers: Numbers, cost: u64, stamp: u64) {
        self.touched = true;
        if self.is_log() {
            return self.enter(stamp, 0, cost);
        }
        let (rule, mut page) = self.at(numbers, stamp);
        if page.cell.debt() == 0 {
            self.busy_since = stamp;
        }
        page.cell = rule.charge(page.cell, cost, Timestamp::from_nanos(stamp));
        self.turn_to(page, stamp);
    }

    /// How long a bucket has owed something without a break, in the times in which it would refill, and as many parts
    /// of one as asked for.
    pub fn busy_for(&self, numbers: Numbers, stamp: u64, parts: u128) -> u128 {
        let refill = self.nature.rule(numbers).horizon_ns().max(1);
        u128::from(stamp.saturating_sub(self.busy_since)) * parts / refill
    }

    /// What was let through elsewhere was taken, even if there was no room for it.
    pub fn settle(&mut self, numbers: Numbers, cost: u64, stamp: u64) {
        if !self.nature.is_bucket() {
            return self.charge(numbers, cost, stamp);
        }
        let (rule, mut page) = self.at(boundless(numbers), stamp);
        page.cell = rule.charge(page.cell, cost, Timestamp::from_nanos(stamp));
        self.turn_to(page, stamp);
    }

    /// Tokens were lent. While they are out, a bucket does not drain below them.
    pub fn lend(&mut self, numbers: Numbers, amount: u64, hold: u64, stamp: u64) {
        self.lent.retain(|(until, _)| *until > stamp);
        self.lent.push((stamp + hold, amount));
        if self.is_log() {
            return self.enter(stamp, hold, amount);
        }
        self.charge(numbers, amount, stamp);
        if self.nature.is_bucket()
            && let Some(page) = self.pages.back_mut()
        {
            page.leases.push((stamp + hold, amount));
        }
    }

    /// Tokens were lent to a request that takes them at once. A log has them for as long as they can come back.
    pub fn take(&mut self, numbers: Numbers, amount: u64, hold: u64, stamp: u64) {
        if self.is_log() {
            return self.enter(stamp, hold, amount);
        }
        self.charge(numbers, amount, stamp);
        if self.nature.is_bucket()
            && let Some(page) = self.pages.back_mut()
        {
            page.needed.push((stamp + hold, amount));
        }
    }

    /// When something was last taken, in the store's time.
    pub fn latest(&self) -> u64 {
        self.latest
    }

    /// What is on lease: until when, how much.
    pub fn on_lease(&self, stamp: u64) -> impl Iterator<Item = (u64, u64)> {
        self.lent.iter().copied().filter(move |(until, _)| *until > stamp)
    }

    /// Other numbers hold from now on: until now a bucket has refilled by the old ones.
    pub fn change(&mut self, old: Numbers, new: Numbers, stamp: u64) {
        let same = (old.limit, old.capacity) == (new.limit, new.capacity);
        if same || !self.nature.is_bucket() || self.pages.is_empty() {
            return;
        }
        let (_, page) = self.at(boundless(old), stamp);
        self.turn_to(page, stamp);
    }

    /// It begins with no more room than this, and is held down by what those have on lease that it replaces.
    pub fn narrow(&mut self, numbers: Numbers, room: u64, leases: &[(u64, u64)], stamp: u64) {
        if !self.nature.is_bucket() {
            let mut excess = self.room(numbers, stamp).saturating_sub(room);
            if excess > 0 && self.nature.algorithm == Algorithm::SlidingCounter {
                // A part of it may be what faded of a past that the store was never told of. All of it counts in the
                // window that runs then.
                self.pages.clear();
                excess = numbers.capacity.saturating_sub(room);
            }
            if excess > 0 {
                self.charge(numbers, excess, stamp);
            }
            return;
        }
        let (rule, mut page) = self.at(numbers, stamp);
        // No part of a token more, either.
        let least = u128::from(rule.capacity.saturating_sub(room)) * u128::from(rule.window_ns);
        if page.cell.debt() < least {
            page.cell = Cell::owing(least, page.cell.as_of());
        }
        if !leases.is_empty() {
            // All of it until the last of it ends, with what may have been out when its own past was lost.
            page.leases.extend(leases);
            let until = page.leases.iter().map(|(until, _)| *until).max();
            let amount = page.leases.iter().map(|(_, amount)| amount).sum();
            page.leases = vec![(until.unwrap_or(stamp), amount)];
            self.lent.clone_from(&page.leases);
        }
        self.turn_to(page, stamp);
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
        for page in self.pages.iter().rev() {
            let at = then.max(page.since);
            if !rule.fits(page.at(&rule, at).cell, cost, Timestamp::from_nanos(at)) {
                return false;
            }
            if page.since <= then {
                return true;
            }
        }
        true
    }

    /// What is left.
    pub fn room(&self, numbers: Numbers, stamp: u64) -> u64 {
        if self.is_log() {
            // The clock may have gone back a little since something was taken.
            let held = self.held_since(stamp, stamp.max(self.latest), 0);
            return numbers.limit.saturating_sub(held);
        }
        let (rule, page) = self.at(numbers, stamp);
        rule.remaining(page.cell, Timestamp::from_nanos(stamp))
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
        self.held_since(at, at, longer)
    }

    /// What a log holds at an instant of all that came until another.
    fn held_since(&self, at: u64, came: u64, longer: u64) -> u64 {
        let counts = |(since, until, _): &&(u64, u64, u64)| *since <= came && at < *until + longer;
        self.log.iter().filter(counts).map(|(_, _, cost)| cost).sum()
    }

    fn at(&self, numbers: Numbers, stamp: u64) -> (Rule, Page) {
        let rule = self.nature.rule(numbers);
        let page = self.pages.back().cloned().unwrap_or_default();
        let page = page.at(&rule, stamp);
        (rule, page)
    }

    fn turn_to(&mut self, page: Page, stamp: u64) {
        self.touched = true;
        self.latest = self.latest.max(stamp);
        while self.pages.len() > 1 && self.pages[1].since + SECOND < stamp {
            self.pages.pop_front();
        }
        self.pages.push_back(Page { since: stamp, ..page });
    }
}

/// Numbers by which a bucket may owe anything: what it owes beyond its burst is forgotten only when it is looked at.
fn boundless(numbers: Numbers) -> Numbers {
    Numbers {
        capacity: u64::MAX / 2,
        ..numbers
    }
}
