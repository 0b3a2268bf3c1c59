//! One counter in the shared store, and what each algorithm does with it.

use std::collections::VecDeque;

use tollgate_core::Mode;

use super::super::call::{Kind, LONGEST_HOLD, LeaseId, MOST, Micros, Part, Return, State, Terms, Want};
use super::Bug;
use super::idle::{IDLE_KEPT, Idle};
use super::late::{Reported, TakenOver};

/// How long a counter is kept at least after it stopped to matter, and how far its expiry is moved ahead at least.
pub(super) const GRACE: Micros = 300_000_000;
/// The most leases whose return is still awaited, and the most of one node: what is left of some when the next is
/// lent. Of more only the latest can come back.
const MOST_LENT: usize = 32;
const MOST_OF_NODE: usize = 4;
/// The most leases that can't come back any more and of which a bucket knows when each one ends.
pub(super) const MOST_GONE: usize = 8;
/// A lease that may come back, or whose spends a log has not placed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) id: LeaseId,
    pub(super) amount: u64,
    pub(super) until: Micros,
    /// Of a bucket: a request waited for it, and has spent it.
    pub(super) needed: bool,
}

impl Lent {
    /// What a bucket has on lease that can't come back.
    pub(super) const NOBODY: LeaseId = LeaseId { node: 0, number: 0 };

    pub(super) fn is_nobodys(&self) -> bool {
        self.id == Self::NOBODY
    }
}

/// What a limit sees of a counter at an instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) fits: bool,
    pub(super) state: State,
}

/// A counter.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    /// The generation it belongs to.
    began: Micros,
    /// The terms it was last asked about, the newest revision's.
    pub(super) terms: Terms,
    /// The limit and capacity that the present call gave for them.
    asked: (u64, u64),
    /// As [`State`] has them. A log's are made when they are asked for.
    pub(super) numbers: [u64; 3],
    /// What a log holds, oldest first: when, how much.
    pub(super) log: VecDeque<(Micros, u64)>,
    /// The oldest first. Windows: of the present window. Logs: not in the log yet. Buckets: those that live.
    pub(super) lent: Vec<Lent>,
    /// A bucket's time to spare, of which nodes that let something through without the store are yet to be heard.
    pub(super) idle: Option<Idle>,
    /// The same from when it was last written until now.
    pub(super) idle_now: Option<Idle>,
    /// What it was charged of fallbacks, and what it has taken over of those that it replaces.
    pub(super) reported: Option<Reported>,
    pub(super) taken_over: Vec<TakenOver>,
    /// From when on it may be forgotten.
    pub(super) expires: Micros,
    pub(super) changed: bool,
    pub(super) bug: Option<Bug>,
}

impl Counter {
    /// A counter that nothing is known of: everything was used up at `lost`, when the generation began or a counter
    /// was left that it replaces.
    pub(super) fn cold(began: Micros, lost: Micros, terms: &Terms, bug: Option<Bug>) -> Self {
        let mut counter = Self {
            began,
            terms: *terms,
            asked: (terms.limit, terms.capacity),
            numbers: [0; 3],
            log: VecDeque::new(),
            lent: Vec::new(),
            idle: None,
            idle_now: None,
            reported: None,
            taken_over: Vec::new(),
            expires: 0,
            changed: false,
            bug,
        };
        if lost == 0 {
            return counter;
        }
        let boundary = (lost / terms.window + 1) * terms.window;
        match terms.kind {
            Kind::Token | Kind::Leaky => {
                counter.numbers = [lost, terms.capacity, 0];
                if bug != Some(Bug::BucketColdWithoutLeases) {
                    counter.hold_down(Lent {
                        id: Lent::NOBODY,
                        amount: terms.capacity / 2,
                        until: lost + LONGEST_HOLD,
                        needed: false,
                    });
                }
            }
            Kind::Window => counter.numbers = [boundary, terms.limit, 0],
            Kind::First => counter.numbers = [lost + terms.window, terms.limit, 0],
            Kind::Quota => counter.numbers = [terms.period_end(lost), terms.limit, 0],
            Kind::Sliding => counter.numbers = [boundary, 0, terms.limit],
            Kind::Log if bug == Some(Bug::LogColdWithoutHold) => counter.log.push_back((lost, terms.limit)),
            Kind::Log => counter.log.push_back((lost + LONGEST_HOLD, terms.limit)),
        }
        counter
    }

    pub(super) fn began(&self) -> Micros {
        self.began
    }

    pub(super) fn is_kept(&self, now: Micros) -> bool {
        now < self.expires
    }

    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Has it kept even if nothing is charged.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }

    /// Of two revisions of its limit the newer one holds, whoever asks, and even if whoever told of it was denied.
    /// A bucket has refilled by the old one until now. Says whether it did.
    pub(super) fn agree(&mut self, terms: &Terms, now: Micros) -> bool {
        (self.idle, self.idle_now) = (self.idle.filter(|idle| now < idle.until + IDLE_KEPT), None);
        self.taken_over.retain(|taken| taken.is_kept(now));
        let known = self.terms;
        let stale_wins = self.bug == Some(Bug::StaleRevisionWins);
        self.changed = terms.revision > known.revision && !stale_wins;
        self.asked = (terms.limit, terms.capacity);
        let numbers = |terms: &Terms| (terms.limit, terms.capacity);
        let changes = self.changed && known.kind.is_bucket() && numbers(&known) != numbers(terms);
        if changes {
            self.idle = None;
            self.settle_bucket(now);
            let (at, owed) = self.debt(known.limit, known.capacity, false, now);
            self.numbers = self.bucket(at, owed);
            if self.bug == Some(Bug::ChangeForgetsLeases) {
                self.lent.clear();
            }
        }
        self.terms = *terms;
        if known.revision > terms.revision && terms.revision > 0 && !stale_wins {
            self.terms.limit = known.limit;
            self.terms.capacity = known.capacity;
            if self.bug != Some(Bug::RevisionSlips) {
                self.terms.revision = known.revision;
            }
        }
        changes
    }

    /// Whether the call knows the numbers that hold.
    pub(super) fn goes_by_what_was_asked(&self) -> bool {
        self.asked == (self.terms.limit, self.terms.capacity)
    }

    /// Rolls windows, and lets go of what can no longer be spent: into a log, and by a bucket.
    pub(super) fn settle(&mut self, now: Micros) {
        match self.terms.kind {
            Kind::Token | Kind::Leaky => self.settle_bucket(now),
            Kind::Window | Kind::First | Kind::Quota | Kind::Sliding => self.roll(now),
            Kind::Log => {
                let ended = |lent: &Lent| lent.until <= now;
                while let Some(place) = self.lent.iter().position(ended) {
                    let lent = self.lent.remove(place);
                    self.enter(lent.until, lent.amount);
                }
                let window = self.terms.window;
                while self.log.front().is_some_and(|(at, _)| at + window <= now) {
                    self.log.pop_front();
                }
            }
        }
    }

    fn roll(&mut self, now: Micros) {
        let [end, _, current] = self.numbers;
        if now < end {
            return;
        }
        let Terms { kind, window, .. } = self.terms;
        if kind == Kind::First {
            // It begins with its first request, and not with what is told of its limit.
            self.changed = false;
        }
        self.numbers = match kind {
            Kind::Sliding if end != 0 && now - end < window => [end + window, current, 0],
            Kind::First => [now + window, 0, 0],
            Kind::Quota => [self.terms.period_end(now), 0, 0],
            _ => [(now / window + 1) * window, 0, 0],
        };
        if self.bug != Some(Bug::ReturnAcrossWindows) {
            self.lent.clear();
        }
    }

    /// What a log, or a sliding counter, has used; of a window its count.
    pub(super) fn used(&self, now: Micros) -> u64 {
        let [end, previous, current] = self.numbers;
        match self.terms.kind {
            Kind::Log => {
                let log = self.log.iter().map(|(_, count)| count);
                log.chain(self.lent.iter().map(|lent| &lent.amount)).sum()
            }
            Kind::Sliding => {
                let ahead = end.saturating_sub(now).min(self.terms.window);
                let faded =
                    (u128::from(previous) * u128::from(ahead)).div_ceil(u128::from(self.terms.window));
                current.saturating_add(u64::try_from(faded).unwrap_or(MOST))
            }
            _ => previous,
        }
    }

    /// The limit and capacity of a part: its own, unless a newer revision of them is known.
    fn numbers_of(&self, part: &Part) -> (u64, u64) {
        if (part.limit, part.capacity) == self.asked {
            (self.terms.limit, self.terms.capacity)
        } else {
            (part.limit, part.capacity)
        }
    }

    /// How a level sees the counter.
    pub(super) fn look(&self, part: &Part, now: Micros) -> Look {
        let (limit, capacity) = self.numbers_of(part);
        let cost = part.cost;
        let admits = limit > 0 && cost <= capacity;
        if self.terms.kind.is_bucket() {
            let (at, owed) = self.debt(limit, capacity, part.mode == Mode::Soft, now);
            let window = u128::from(self.terms.window);
            let wanted = owed + u128::from(cost) * window;
            return Look {
                fits: cost == 0 || (admits && wanted <= u128::from(capacity) * window),
                state: State(self.bucket(at, owed)),
            };
        }
        let fits = self.used(now).saturating_add(cost) <= limit;
        Look {
            fits: cost == 0 || (admits && fits),
            state: self.shown(limit, cost, now),
        }
    }

    /// The numbers of a counter that is no bucket.
    fn shown(&self, limit: u64, cost: u64, now: Micros) -> State {
        if self.terms.kind != Kind::Log {
            return State(self.numbers);
        }
        let newest = self.log.back().map_or(0, |(at, _)| *at);
        State([self.used(now), newest, self.room_at(limit, cost, now)])
    }

    /// Charges a part that was looked at, and says how the counter stands then. What another level of the same
    /// request has charged already is not written again.
    pub(super) fn charge(&mut self, part: &Part, look: &Look, now: Micros, written: bool) -> State {
        let [a, b, c] = look.state.0;
        let plus = |count: u64| (count + part.cost).min(MOST);
        let after = match self.terms.kind {
            Kind::Token | Kind::Leaky => [a, plus(b), c],
            Kind::Window | Kind::First | Kind::Quota => [a, plus(b), 0],
            Kind::Sliding => [a, b, plus(c)],
            Kind::Log => {
                let newest = b.max(now);
                // What was told before the charge holds: when the next room comes.
                let room_at = if c == 0 { newest + self.terms.window } else { c };
                [plus(a), newest, room_at]
            }
        };
        if written {
            match self.terms.kind {
                Kind::Log => self.enter(now, part.cost),
                _ => self.numbers = after,
            }
            self.changed = true;
        }
        State(after)
    }

    /// Charges what went through whether or not there was room.
    pub(super) fn charge_anyway(&mut self, cost: u64, now: Micros) {
        if cost == 0 && !self.terms.kind.is_bucket() {
            return;
        }
        let (limit, capacity) = self.asked;
        let part = Part {
            subject: 0,
            limit,
            capacity,
            cost,
            mode: Mode::Soft,
        };
        let look = self.look(&part, now);
        self.charge(&part, &look, now, true);
    }

    /// Lends what is wanted, or as much as there is, and says for how long.
    pub(super) fn lend(&mut self, want: &Want, now: Micros) -> (u64, Micros) {
        let Terms { kind, limit, .. } = self.terms;
        if limit == 0 {
            return (0, 0);
        }
        if kind.is_bucket() {
            return self.lend_of_bucket(want, now);
        }
        let end = if want.is_soft() {
            MOST
        } else {
            limit.min(want.most)
        };
        let amount = want.amount.min(end.saturating_sub(self.used(now)));
        let unopened = kind == Kind::First && self.numbers[1] == 0 && !want.needed;
        if amount == 0 || unopened {
            return (0, 0);
        }
        let mut hold = want.hold.min(LONGEST_HOLD);
        if kind != Kind::Log && self.bug != Some(Bug::HoldPastEnd) {
            hold = hold.min(self.numbers[0] - now);
        }
        let count = match kind {
            Kind::Sliding => Some(&mut self.numbers[2]),
            Kind::Log => None,
            _ => Some(&mut self.numbers[1]),
        };
        if let Some(count) = count {
            *count = (*count + amount).min(MOST);
        }
        self.note_lent(want, amount, now, hold);
        (amount, hold)
    }

    /// Takes note of a lease, so that it can come back.
    pub(super) fn note_lent(&mut self, want: &Want, amount: u64, now: Micros, hold: Micros) {
        self.changed = true;
        let Terms { kind, .. } = self.terms;
        if kind == Kind::Log && self.bug == Some(Bug::LogAtGrant) {
            return self.enter(now, amount);
        }
        if self.bug == Some(Bug::LentOverAgain)
            && let Some(place) = self.find(want.lease)
        {
            self.lent[place].amount = amount;
            return;
        }
        let of_node = |lent: &Lent| lent.id.node == want.lease.node && !lent.is_nobodys();
        let of_anybody = |lent: &Lent| !lent.is_nobodys();
        let mut gone = None;
        if self.lent.iter().filter(|lent| of_node(lent)).count() >= MOST_OF_NODE {
            gone = self.least_worth(of_node);
        } else if self.lent.iter().filter(|lent| of_anybody(lent)).count() >= MOST_LENT {
            gone = self.least_worth(of_anybody);
        }
        if let Some(place) = gone {
            let lent = self.lent.remove(place);
            if kind == Kind::Log {
                self.enter(lent.until, lent.amount);
            } else if kind.is_bucket() {
                self.hold_down(lent);
            }
        }
        self.lent.push(Lent {
            id: want.lease,
            amount,
            until: now + hold,
            needed: want.needed && kind.is_bucket(),
        });
    }

    /// The place of the lease whose return is worth the least: the oldest that a request waited for and has spent, else
    /// the oldest.
    fn least_worth(&self, of: impl Fn(&Lent) -> bool) -> Option<usize> {
        let spent = self.lent.iter().position(|lent| lent.needed && of(lent));
        spent.or_else(|| self.lent.iter().position(of))
    }

    /// The place of a lease that can come back.
    pub(super) fn find(&self, lease: LeaseId) -> Option<usize> {
        let is_it = |lent: &Lent| lent.id == lease && !lent.is_nobodys();
        self.lent.iter().position(is_it)
    }

    /// Takes a lease back, once.
    pub(super) fn take_back(&mut self, given: &Return, now: Micros) {
        let Terms { kind, .. } = self.terms;
        if kind.is_bucket() {
            return self.take_back_into_bucket(given, now);
        }
        let Some(place) = self.find(given.lease) else {
            return;
        };
        let lent = self.lent[place];
        if self.bug != Some(Bug::ReturnTwice) {
            self.lent.remove(place);
        }
        let unspent = given.unspent.min(lent.amount);
        match kind {
            Kind::Log => {
                let spent = lent.amount - unspent;
                let mut at = given.last_spent.min(lent.until);
                if self.bug == Some(Bug::LogSettledAtGrant) {
                    at = at.saturating_sub(LONGEST_HOLD);
                }
                if spent > 0 {
                    self.enter(at, spent);
                }
            }
            Kind::Sliding => self.numbers[2] = self.numbers[2].saturating_sub(unspent),
            _ => self.numbers[1] = self.numbers[1].saturating_sub(unspent),
        }
        self.changed = true;
    }

    /// How the counter stands by its own terms.
    pub(super) fn state(&self, soft: bool, now: Micros) -> State {
        if self.terms.kind.is_bucket() {
            let (at, owed) = self.debt(self.terms.limit, self.terms.capacity, soft, now);
            return State(self.bucket(at, owed));
        }
        self.shown(self.terms.limit, 0, now)
    }

    /// What is left by its own terms, rounded down.
    pub(super) fn remaining(&self, now: Micros) -> u64 {
        if self.terms.limit == 0 {
            return 0;
        }
        if self.terms.kind.is_bucket() {
            let (_, owed) = self.debt(self.terms.limit, self.terms.capacity, false, now);
            let tokens = owed.div_ceil(u128::from(self.terms.window));
            let tokens = u64::try_from(tokens).unwrap_or(MOST);
            return self.terms.capacity.saturating_sub(tokens);
        }
        self.terms.limit.saturating_sub(self.used(now))
    }

    /// Sees to it that it is kept for as long as it matters, and longer, so that most writes leave the expiry as it
    /// is.
    pub(super) fn keep(&mut self, now: Micros) {
        let Terms { limit, window, .. } = self.terms;
        let [first, tokens, _] = self.numbers;
        let matters = match self.terms.kind {
            Kind::Token | Kind::Leaky => {
                let refill = (u128::from(tokens) + 1) * u128::from(window) / u128::from(limit.max(1));
                let drains_from = self.lent.iter().map(|lent| lent.until).max();
                first.max(drains_from.unwrap_or(0)) + u64::try_from(refill).unwrap_or(MOST).min(MOST)
            }
            Kind::Window | Kind::First | Kind::Quota => first,
            Kind::Sliding => first + window,
            Kind::Log => {
                let newest = self.log.back().map_or(now, |(at, _)| *at);
                let lent = self.lent.iter().map(|lent| lent.until).max();
                newest.max(lent.unwrap_or(0)) + window
            }
        };
        if matters + GRACE > self.expires {
            self.expires = matters + 2 * GRACE;
        }
    }
}
