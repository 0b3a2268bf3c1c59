//! One counter in the shared store, and what each algorithm does with it.

use std::collections::VecDeque;

use tollgate_core::Mode;

use super::super::call::{Kind, LONGEST_HOLD, LeaseId, Micros, Part, Return, State, Terms, Want};
use super::Bug;

/// How long a counter is kept at least after it stopped to matter, and how far its expiry is moved ahead at least.
const GRACE: Micros = 300_000_000;
/// The most leases whose return is still awaited, and the most of one node: what is left of one when the next is
/// lent. Of more only the latest can come back.
const MOST_LENT: usize = 32;
const MOST_OF_NODE: usize = 2;
/// Soft limits count no further.
const MOST: u64 = 1 << 52;
/// The most entries of a log. Only soft limits reach it.
const MOST_ENTRIES: usize = 100_001;

/// A lease that may come back, or whose spends a log has not placed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lent {
    id: LeaseId,
    amount: u64,
    until: Micros,
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
    terms: Terms,
    /// The limit and capacity that the present call gave for them.
    asked: (u64, u64),
    /// As [`State`] has them. A log's are made when they are asked for.
    numbers: [u64; 3],
    /// What a log holds, oldest first: when, how much.
    log: VecDeque<(Micros, u64)>,
    /// The oldest first. Windows: of the present window. Logs: not in the log yet.
    lent: Vec<Lent>,
    /// The lease that was a bucket's last charge.
    tail: Option<LeaseId>,
    /// Until when what a bucket has lent may be spent.
    lent_until: Micros,
    /// From when on it may be forgotten.
    expires: Micros,
    changed: bool,
    bug: Option<Bug>,
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
            tail: None,
            lent_until: 0,
            expires: 0,
            changed: false,
            bug,
        };
        if lost == 0 {
            return counter;
        }
        let boundary = (lost / terms.window + 1) * terms.window;
        match terms.kind {
            Kind::Token | Kind::Leaky => counter.numbers = [lost, terms.capacity, 0],
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
    pub(super) fn agree(&mut self, terms: &Terms, now: Micros) {
        let known = self.terms;
        let heeds = self.bug != Some(Bug::StaleRevisionWins);
        let news = terms.revision > known.revision;
        self.changed = news && heeds;
        self.asked = (terms.limit, terms.capacity);
        self.terms = *terms;
        if known.revision > terms.revision && terms.revision > 0 && heeds {
            self.terms = Terms {
                limit: known.limit,
                capacity: known.capacity,
                revision: known.revision,
                ..*terms
            };
        } else if terms.kind.is_bucket() {
            self.begin_anew(&known, news, now);
        }
    }

    /// Other numbers hold for a bucket from now on: until now it has refilled by the old ones. What is on lease has its
    /// place by those, so that it may fall short of it if the bucket refills faster, or forgets what it can't hold any
    /// more. Until that has run out nothing comes back.
    fn begin_anew(&mut self, known: &Terms, news: bool, now: Micros) {
        let Terms { limit, capacity, .. } = self.terms;
        let changes = news && (limit, capacity) != (known.limit, known.capacity);
        let waits = limit > known.limit || (news && capacity < known.capacity);
        if changes || (waits && self.lent_until > now) {
            let (mut at, owed) = self.debt(known.limit, known.capacity, true, now);
            if waits && self.bug != Some(Bug::ChangeForgetsLeases) {
                at = at.max(self.lent_until);
            }
            self.numbers = self.bucket(at, owed);
        }
    }

    /// Rolls windows, and puts into a log what can no longer be spent.
    pub(super) fn settle(&mut self, now: Micros) {
        match self.terms.kind {
            Kind::Token | Kind::Leaky => {}
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

    /// A bucket's debt at an instant, in parts of a token. One that is not soft never owes more than it holds.
    fn debt(&self, limit: u64, capacity: u64, soft: bool, now: Micros) -> (Micros, u128) {
        let [at, tokens, parts] = self.numbers;
        let window = u128::from(self.terms.window);
        let then = now.max(at);
        let mut owed = u128::from(tokens) * window + u128::from(parts);
        if !soft {
            owed = owed.min(u128::from(capacity) * window);
        }
        let drained = u128::from(limit) * u128::from(then - at);
        (then, owed.saturating_sub(drained))
    }

    fn bucket(&self, at: Micros, owed: u128) -> [u64; 3] {
        let window = u128::from(self.terms.window);
        let tokens = u64::try_from(owed / window).unwrap_or(MOST).min(MOST);
        let parts = u64::try_from(owed % window).unwrap_or(0);
        [at, tokens, parts]
    }

    /// What a log, or a sliding counter, has used; of a window its count.
    fn used(&self, now: Micros) -> u64 {
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

    /// When `cost`, or one unit, fits a log; if it does already, when its oldest entry leaves; 0 with none.
    fn room_at(&self, limit: u64, cost: u64, now: Micros) -> Micros {
        let mut over = (self.used(now) + cost.max(1)).saturating_sub(limit);
        let mut entries: Vec<_> = self.log.iter().copied().collect();
        entries.extend(self.lent.iter().map(|lent| (lent.until, lent.amount)));
        entries.sort_unstable();
        for (at, count) in &entries {
            if over <= *count {
                return at + self.terms.window;
            }
            over -= count;
        }
        entries.last().map_or(0, |(at, _)| at + self.terms.window)
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
            self.tail = None;
            self.changed = true;
        }
        State(after)
    }

    /// Adds to a log what was used at an instant. Entries stay in order, so that it may be a little later; one that
    /// is full makes its newest later.
    fn enter(&mut self, at: Micros, count: u64) {
        let count = count.min(MOST.saturating_sub(self.used(at)));
        let newest = self.log.back().map_or(0, |(at, _)| *at);
        let full = self.log.len() == MOST_ENTRIES;
        match self.log.back_mut() {
            Some(last) if full || at <= newest => *last = (at.max(newest), last.1 + count),
            _ => self.log.push_back((at, count)),
        }
    }

    /// Lends what is wanted, or as much as there is, and says for how long.
    pub(super) fn lend(&mut self, want: &Want, now: Micros) -> (u64, Micros) {
        let Terms {
            kind,
            limit,
            capacity,
            window,
            ..
        } = self.terms;
        let mut hold = want.hold.min(LONGEST_HOLD);
        if limit == 0 {
            return (0, 0);
        }
        if kind.is_bucket() {
            let (at, owed) = self.debt(limit, capacity, want.soft, now);
            let mut floor = u128::from(hold) * u128::from(limit);
            if want.needed || self.bug == Some(Bug::NoHoldInWant) {
                floor = 0;
            }
            if kind == Kind::Leaky && owed < floor {
                // A turn that may have passed when it is spent is nobody's.
                return (0, 0);
            }
            let start = owed.max(floor);
            let window = u128::from(window);
            let room = (u128::from(capacity) * window).saturating_sub(start) / window;
            let amount = match u64::try_from(room) {
                Ok(room) if !want.soft => want.amount.min(room),
                _ => want.amount,
            };
            if amount > 0 {
                self.numbers = self.bucket(at, start + u128::from(amount) * window);
                self.tail = Some(want.lease);
                if !want.needed {
                    self.lent_until = self.lent_until.max(now + hold);
                }
                self.changed = true;
            }
            return (amount, hold);
        }
        let end = if want.soft { MOST } else { limit };
        let amount = want.amount.min(end.saturating_sub(self.used(now)));
        let unopened = kind == Kind::First && self.numbers[1] == 0 && !want.needed;
        if amount == 0 || unopened {
            return (0, 0);
        }
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
        self.lent_to(want.lease, amount, now, now + hold);
        self.changed = true;
        (amount, hold)
    }

    fn lent_to(&mut self, id: LeaseId, amount: u64, now: Micros, until: Micros) {
        let log = self.terms.kind == Kind::Log;
        if log && self.bug == Some(Bug::LogAtGrant) {
            return self.enter(now, amount);
        }
        let of_node = |lent: &Lent| lent.id.node == id.node;
        let mut gone = None;
        if self.lent.iter().filter(|lent| of_node(lent)).count() >= MOST_OF_NODE {
            gone = self.lent.iter().position(of_node);
        } else if self.lent.len() >= MOST_LENT {
            gone = Some(0);
        }
        if let Some(place) = gone {
            let lent = self.lent.remove(place);
            if log {
                self.enter(lent.until, lent.amount);
            }
        }
        self.lent.push(Lent { id, amount, until });
    }

    /// Takes a lease back, once.
    pub(super) fn take_back(&mut self, given: &Return) {
        let kind = self.terms.kind;
        if kind.is_bucket() {
            let whose = match self.bug {
                Some(Bug::BucketCredit) => true,
                Some(Bug::TailWithoutOwner) => self.tail.is_some(),
                _ => self.tail == Some(given.lease),
            };
            if whose {
                // As if it had not been charged then: what has come back since stays.
                let [at, tokens, parts] = self.numbers;
                let left = tokens.checked_sub(given.unspent);
                self.numbers = left.map_or([at, 0, 0], |left| [at, left, parts]);
                self.tail = None;
                self.changed = true;
            }
            return;
        }
        let Some(place) = self.lent.iter().position(|lent| lent.id == given.lease) else {
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

    /// Leaves no more than `room`. It is written with the first charge.
    pub(super) fn narrow(&mut self, room: u64, now: Micros) {
        let excess = self.remaining(now).saturating_sub(room);
        if excess == 0 {
            return;
        }
        match self.terms.kind {
            Kind::Token | Kind::Leaky => {
                let Terms { limit, capacity, .. } = self.terms;
                let (at, _) = self.debt(limit, capacity, false, now);
                // No part of a token more, either.
                self.numbers = [at, capacity - room, 0];
            }
            Kind::Log => self.enter(now, excess),
            Kind::Sliding => self.numbers[2] += excess,
            _ => self.numbers[1] += excess,
        }
    }

    /// Sees to it that it is kept for as long as it matters, and longer, so that most writes leave the expiry as it
    /// is.
    pub(super) fn keep(&mut self, now: Micros) {
        let Terms { limit, window, .. } = self.terms;
        let [first, tokens, _] = self.numbers;
        let matters = match self.terms.kind {
            Kind::Token | Kind::Leaky => {
                let refill = (u128::from(tokens) + 1) * u128::from(window) / u128::from(limit.max(1));
                first + u64::try_from(refill).unwrap_or(MOST).min(MOST)
            }
            Kind::Window | Kind::First | Kind::Quota => first,
            Kind::Sliding => first + window,
            Kind::Log => {
                let newest = self.log.back().map_or(now, |(at, _)| *at);
                let lent = self.lent.iter().map(|lent| lent.until).max();
                newest.max(lent.unwrap_or(0)) + window
            }
        };
        if self.tail.is_none() && self.lent_until <= now {
            self.lent_until = 0;
        }
        if matters + GRACE > self.expires {
            self.expires = matters + 2 * GRACE;
        }
    }
}
