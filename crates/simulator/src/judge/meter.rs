//! Never over: what was admitted on one counter, held against its algorithm's own inequality.
//!
//! Nothing here knows how it was counted. Time never counts as earlier than the latest at which something
//! happened to the counter.

use std::collections::VecDeque;

use tollgate_core::{Algorithm, Anchor, Calendar, Timestamp};

use super::replay::{Bucket, Replay};
use crate::history::{Nature, Numbers};

const SECOND: u64 = 1_000_000_000;

#[derive(Debug)]
enum Count {
    /// What is owed, in parts of a token.
    Bucket(u128),
    /// Until when, and how much.
    Window(u64, u64),
    /// Until when, how much before, how much.
    Sliding(u64, u64, u64),
    Log(VecDeque<(u64, u64)>),
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    amount: u64,
    /// The last instant of true time, and of the store's, at which it can be spent.
    ends: u64,
    ends_in_store: u64,
}

/// The numbers before a change. They hold for what is spent from leases, until what was lent by them has run out.
#[derive(Debug, Clone, Copy)]
struct Before {
    until: u64,
    limit: u64,
    capacity: u64,
}

/// One counter.
#[derive(Debug)]
pub struct Meter {
    nature: Nature,
    numbers: Option<Numbers>,
    before: Option<Before>,
    latest: u64,
    /// The latest that it ever was, if the store's clock was set back since.
    furthest: u64,
    count: Count,
    leases: Vec<Lease>,
    /// When the slot began anew, in its time and in true time, if it has not been told of numbers since.
    lost: Option<(u64, u64)>,
    /// What was on lease when the store's clock was set ahead, or it lost its memory: it counts where it was
    /// lent, until then.
    exempt: (u64, u64),
    /// It may count more than it admits, by what was let through without the store.
    overcharged: bool,
    /// Of a bucket: what happened since something was let through that is not settled.
    replay: Option<Replay>,
}

impl Meter {
    pub fn new(nature: &Nature) -> Self {
        let count = match nature.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Count::Bucket(0),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => Count::Window(0, 0),
            Algorithm::SlidingCounter => Count::Sliding(0, 0, 0),
            Algorithm::SlidingLog => Count::Log(VecDeque::new()),
        };
        Self {
            nature: nature.clone(),
            numbers: None,
            before: None,
            latest: 0,
            furthest: 0,
            count,
            leases: Vec::new(),
            lost: None,
            exempt: (0, 0),
            overcharged: false,
            replay: None,
        }
    }

    /// The store learnt of new numbers: from now on they hold for all that it decides.
    pub fn told(&mut self, numbers: Numbers, at: u64, stamp: u64) {
        if self
            .numbers
            .is_none_or(|known| (known.limit, known.capacity) != (numbers.limit, numbers.capacity))
        {
            self.disturb();
        }
        if let (Some((lost, since)), Some(known)) = (self.lost.take(), self.numbers)
            && ((numbers.limit, numbers.capacity) != (known.limit, known.capacity)
                || self.nature.algorithm == Algorithm::FixedWindow(Anchor::First))
        {
            // What was used up is known by the new numbers only, and a window from the first request is open since then.
            self.spare_leases(since);
            (self.numbers, self.before) = (Some(numbers), None);
            self.use_up(numbers, lost);
        }
        self.advance(stamp);
        if let Some(old) = self.numbers {
            let out = self.leases.iter().map(|lease| lease.ends_in_store).max();
            let mut before = Before {
                until: out.unwrap_or(0),
                limit: old.limit,
                capacity: old.capacity,
            };
            if let Some(earlier) = self.before {
                before.until = before.until.max(earlier.until);
                before.limit = before.limit.max(earlier.limit);
                before.capacity = before.capacity.max(earlier.capacity);
            }
            self.before = Some(before);
            if self.nature.is_bucket() && numbers.capacity < old.capacity {
                // What is out is spent by the old burst, and not held against the new one.
                self.numbers = Some(numbers);
                self.empty();
                self.spare_leases(at);
            }
        }
        self.numbers = Some(numbers);
        self.expire_before(self.latest);
    }

    /// Whether the store has never been told of it.
    pub fn is_new(&self) -> bool {
        self.numbers.is_none()
    }

    /// What is left by these numbers, rounded down.
    pub fn room(&mut self, numbers: Numbers, stamp: u64) -> u64 {
        self.advance(stamp);
        let window = u128::from(self.nature.window_ns);
        let now = self.latest;
        let (sum, most) = match &self.count {
            Count::Bucket(owed) => (*owed, numbers.capacity),
            Count::Window(end, _) if now >= *end => (0, numbers.limit),
            Count::Window(_, count) => (u128::from(*count) * window, numbers.limit),
            Count::Sliding(end, previous, current) => {
                let ahead = end.saturating_sub(now).min(self.nature.window_ns);
                let faded = u128::from(*previous) * u128::from(ahead);
                (faded + u128::from(*current) * window, numbers.limit)
            }
            Count::Log(log) => {
                let sum: u64 = log.iter().map(|(_, cost)| cost).sum();
                (u128::from(sum) * window, numbers.limit)
            }
        };
        let used = u64::try_from(sum.div_ceil(window)).unwrap_or(u64::MAX);
        most.saturating_sub(used)
    }

    /// Whether it counts more than these numbers admit.
    fn is_beyond(&self, numbers: Numbers) -> bool {
        let used = match &self.count {
            Count::Bucket(_) => 0,
            Count::Window(_, count) => *count,
            Count::Sliding(_, previous, current) => *previous.max(current),
            Count::Log(log) => log.iter().map(|(_, cost)| cost).sum(),
        };
        used > numbers.limit
    }

    /// It began with no more room than this.
    pub fn narrow(&mut self, room: u64, stamp: u64) {
        self.disturb();
        let left = self.numbers.map_or(0, |numbers| self.room(numbers, stamp));
        let excess = left.saturating_sub(room);
        if excess == 0 {
            return;
        }
        let (now, window) = (self.latest, self.nature.window_ns);
        self.opened(stamp);
        match &mut self.count {
            Count::Bucket(owed) => {
                let whole = (*owed).next_multiple_of(window.into());
                *owed = whole + u128::from(excess) * u128::from(window);
            }
            Count::Window(_, count) => *count += excess,
            Count::Sliding(_, _, current) => *current += excess,
            Count::Log(log) => log.push_back((now, excess)),
        }
    }

    /// Tokens were lent.
    pub fn lent(&mut self, amount: u64, hold: u64, at: u64, stamp: u64) {
        self.advance(stamp);
        self.leases.retain(|lease| lease.ends > at);
        self.leases.push(Lease {
            amount,
            ends: at + hold,
            ends_in_store: stamp + hold,
        });
    }

    /// A fallback let something through.
    pub fn let_through(&mut self, cost: u64, id: u64, at: u64, stamp: u64) {
        if !self.nature.is_bucket() || self.is_new() {
            return;
        }
        if let Count::Bucket(owed) = self.count {
            let replay = self.replay.get_or_insert_with(|| Replay::new(self.latest, owed));
            replay.tick(at, stamp);
            replay.let_through(stamp, cost, id);
        }
    }

    /// Something happened that a replay knows nothing of.
    fn disturb(&mut self) {
        if let Some(replay) = &mut self.replay {
            replay.disturb();
        }
    }

    /// The store's clock was set.
    pub fn clock_was_set(&mut self) {
        if let Some(replay) = &mut self.replay {
            replay.set_clock();
        }
    }

    /// The store was told of what was let through without it. It counts from now on, and what is on lease counted before;
    /// a bucket has drained since it was let through. Where everything was used up at `lost`, a window from the first
    /// request is open since then. Says how much more it counts at least.
    pub fn settled(&mut self, cost: u64, ids: &[u64], lost: Option<u64>, at: u64, stamp: u64) -> u64 {
        self.advance(stamp);
        let (now, length) = (self.latest, self.nature.window_ns);
        let lost_until = lost.map(|lost| lost + length).filter(|until| now < *until);
        match (self.nature.algorithm, &mut self.count, lost_until) {
            (Algorithm::FixedWindow(Anchor::First), Count::Window(end, count), Some(until))
                if now >= *end =>
            {
                (*end, *count) = (until, 0);
            }
            _ => self.opened(stamp),
        }
        self.spare_leases(at);
        self.overcharged = true;
        let mut more = cost;
        match &mut self.count {
            Count::Bucket(owed) => {
                let before = *owed;
                if let (Some(replay), Some(numbers)) = (&mut self.replay, self.numbers) {
                    let bucket = Bucket {
                        limit: numbers.limit,
                        capacity: numbers.capacity,
                        window: length,
                    };
                    replay.tick(at, stamp);
                    *owed = replay.settled(ids, bucket, *owed, now);
                    self.replay.take_if(|replay| replay.is_over());
                }
                let grown = owed.saturating_sub(before) / u128::from(length);
                more = u64::try_from(grown).unwrap_or(cost).min(cost);
            }
            Count::Window(_, count) => *count += cost,
            Count::Sliding(_, _, current) => *current += cost,
            Count::Log(log) => log.push_back((now, cost)),
        }
        self.empty();
        more
    }

    /// Whether something can be in the window that runs: one from its first request may not have begun.
    pub fn is_open(&mut self, stamp: u64) -> bool {
        self.advance(stamp);
        match (self.nature.algorithm, &self.count) {
            (Algorithm::FixedWindow(Anchor::First), Count::Window(end, _)) => self.latest < *end,
            _ => true,
        }
    }

    /// A counter that it replaces was charged so much of fallbacks after it had begun with what that one had left.
    pub fn take_over(&mut self, cost: u64, at: u64, stamp: u64) {
        if cost == 0 {
            return;
        }
        self.disturb();
        self.opened(stamp);
        self.spare_leases(at);
        self.overcharged = true;
        let (now, length) = (self.latest, self.nature.window_ns);
        match &mut self.count {
            Count::Bucket(owed) => *owed += u128::from(cost) * u128::from(length),
            Count::Window(_, count) => *count += cost,
            Count::Sliding(_, _, current) => *current += cost,
            Count::Log(log) => log.push_back((now, cost)),
        }
        self.empty();
    }

    /// A window from its first request begins when the store counts it.
    pub fn opened(&mut self, stamp: u64) {
        self.advance(stamp);
        if let (Algorithm::FixedWindow(Anchor::First), Count::Window(end, count)) =
            (self.nature.algorithm, &mut self.count)
            && self.latest >= *end
        {
            (*end, *count) = (self.latest + self.nature.window_ns, 0);
        }
    }

    /// What is on lease now was lent by the clock as it was before.
    pub fn spare_leases(&mut self, at: u64) {
        let out = self.leases.iter().filter(|lease| lease.ends > at);
        let (amount, until) = out.fold((0, 0), |(sum, until), lease| {
            (sum + lease.amount, lease.ends.max(until))
        });
        self.exempt = (amount, until);
    }

    /// The store goes on from an earlier time than nodes have spent by.
    pub fn set_back(&mut self, stamp: u64) {
        self.furthest = self.furthest.max(self.latest);
        self.latest = self.latest.min(stamp);
    }

    /// The slot began anew. If its time went back, so does this one's, with everything used up.
    pub fn began(&mut self, at: u64, stamp: u64) {
        self.disturb();
        let back = stamp < self.latest.max(self.furthest);
        // One that is not looked at by then may go back later, with a count that lies ahead.
        self.furthest = if back { 0 } else { stamp };
        self.lost = Some((stamp, at));
        // What it counted beyond its limit, after a fallback or by a higher one, is forgotten with the rest.
        if let Some(numbers) = self.numbers
            && (back || self.overcharged || self.is_beyond(numbers))
        {
            self.overcharged = false;
            self.spare_leases(at);
            self.use_up(numbers, stamp);
        }
    }

    /// It is new, and what came before is out of reach since `stamp`: everything was used up then.
    pub fn was_lost(&mut self, numbers: Numbers, stamp: u64) {
        self.disturb();
        let now = self.latest;
        self.use_up(numbers, stamp);
        self.advance(now);
    }

    /// Everything was used up at `stamp`.
    fn use_up(&mut self, numbers: Numbers, stamp: u64) {
        let Numbers { limit, capacity, .. } = numbers;
        self.latest = stamp;
        let window = self.nature.window_ns;
        self.count = match self.nature.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                Count::Bucket(u128::from(capacity) * u128::from(window))
            }
            Algorithm::SlidingLog => Count::Log([(stamp + SECOND, limit)].into()),
            Algorithm::SlidingCounter => Count::Sliding((stamp / window + 1) * window, 0, limit),
            Algorithm::FixedWindow(Anchor::First) => Count::Window(stamp + window, limit),
            Algorithm::FixedWindow(Anchor::Epoch) => Count::Window((stamp / window + 1) * window, limit),
            Algorithm::Quota(period) => {
                let end = Calendar::utc().period(period, Timestamp::from_nanos(stamp)).1;
                Count::Window(end.nanos(), limit)
            }
        };
    }

    /// A request went through. What is wrong with that?
    pub fn admitted(&mut self, cost: u64, local: bool, at: u64, stamp: u64) -> Option<String> {
        let mut cost = cost;
        if local && at < self.exempt.1 {
            let spared = cost.min(self.exempt.0);
            self.exempt.0 -= spared;
            cost -= spared;
        }
        if cost == 0 {
            return None;
        }
        self.advance(stamp);
        let numbers = self.numbers?;
        let (mut limit, mut capacity) = (numbers.limit, numbers.capacity);
        if let Some(before) = self.before
            && local
        {
            limit = limit.max(before.limit);
            capacity = capacity.max(before.capacity);
        }
        let window = u128::from(self.nature.window_ns);
        let full = u128::from(limit) * window;
        let now = self.latest;
        if let Some(replay) = &mut self.replay {
            replay.admitted(now, cost);
        }
        let (sum, most) = match &mut self.count {
            Count::Bucket(owed) => {
                *owed += u128::from(cost) * window;
                (*owed, u128::from(capacity) * window)
            }
            Count::Window(end, _) if now >= *end => {
                if local && at < self.exempt.1 {
                    // Others have spent what was spared: this was lent in the window before, by the clock as it was.
                    return None;
                }
                return Some(format!("{cost} spent in a window that nobody opened"));
            }
            Count::Window(_, count) => {
                *count += cost;
                (u128::from(*count) * window, full)
            }
            Count::Sliding(end, previous, current) => {
                *current += cost;
                // A clock that was set back may show a time before the window's beginning.
                let ahead = (*end - now).min(self.nature.window_ns);
                let faded = u128::from(*previous) * u128::from(ahead);
                (faded + u128::from(*current) * window, full)
            }
            Count::Log(log) => {
                log.push_back((now, cost));
                let sum: u64 = log.iter().map(|(_, cost)| cost).sum();
                (u128::from(sum) * window, full)
            }
        };
        (sum > most).then(|| {
            let parts = |number: u128| number % window * 1_000 / window;
            format!(
                "{}.{:03} of {} used after {cost} {}",
                sum / window,
                parts(sum),
                most / window,
                if local { "from a lease" } else { "by the store" }
            )
        })
    }

    /// Brings it to a later instant.
    pub fn advance(&mut self, stamp: u64) {
        if let Some(before) = self.before
            && before.until <= stamp
        {
            self.drain(before.until);
            self.expire_before(before.until);
        }
        self.drain(stamp);
    }

    /// The numbers before the last change are gone.
    fn expire_before(&mut self, stamp: u64) {
        if self.before.is_some_and(|before| before.until <= stamp) {
            self.before = None;
            self.empty();
        }
    }

    /// A bucket that owes more than it can hold is as if it had just been emptied.
    fn empty(&mut self) {
        if let (Count::Bucket(owed), Some(numbers)) = (&mut self.count, self.numbers) {
            let most = u128::from(numbers.capacity) * u128::from(self.nature.window_ns);
            *owed = (*owed).min(most);
        }
    }

    fn drain(&mut self, stamp: u64) {
        let now = self.latest.max(stamp);
        let window = self.nature.window_ns;
        match &mut self.count {
            Count::Bucket(owed) => {
                let limit = self.numbers.map_or(0, |numbers| numbers.limit);
                *owed = owed.saturating_sub(u128::from(limit) * u128::from(now - self.latest));
            }
            Count::Window(end, count) if now >= *end => match self.nature.algorithm {
                Algorithm::FixedWindow(Anchor::First) => {}
                Algorithm::Quota(period) => {
                    let period = Calendar::utc().period(period, Timestamp::from_nanos(now));
                    (*end, *count) = (period.1.nanos(), 0);
                }
                _ => (*end, *count) = ((now / window + 1) * window, 0),
            },
            Count::Window(..) => {}
            Count::Sliding(end, previous, current) => {
                let next = (now / window + 1) * window;
                if next == *end + window {
                    (*end, *previous, *current) = (next, *current, 0);
                } else if next > *end {
                    (*end, *previous, *current) = (next, 0, 0);
                }
            }
            Count::Log(log) => {
                while log.front().is_some_and(|(at, _)| at + window <= now) {
                    log.pop_front();
                }
            }
        }
        self.latest = now;
    }
}
