//! A limit's numbers, ready to be computed with.

use std::ops::Range;

use crate::bucket;
use crate::calendar::{Calendar, Period};
use crate::cell::Cell;
use crate::fixed_window;
use crate::log;
use crate::sliding_counter;
use crate::time::{Nanos, Timestamp};

/// The largest limit or burst.
pub const MAX_LIMIT: u64 = 999_999_999_999_999;
/// The largest limit of a sliding log, whose memory grows with what it admits.
pub const MAX_LOG_LIMIT: u64 = 100_000;
/// The longest window: 366 days.
pub const MAX_WINDOW_NS: u64 = 366 * 86_400 * 1_000_000_000;

/// Where a fixed window begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At multiples of the window since the Unix epoch.
    Epoch,
    /// At the first request that is counted.
    First,
}

/// How a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Starts full, refills continuously.
    TokenBucket,
    /// A queue that drains continuously; a request learns how long until its turn.
    LeakyBucket,
    /// A count for each window.
    FixedWindow(Anchor),
    /// Every admission remembered for a window's time.
    SlidingLog,
    /// Two windows' counts, the older one fading out.
    SlidingCounter,
    /// A count for each calendar period.
    Quota(Period),
}

impl Algorithm {
    /// Whether what was used flows back all the time, and not by windows.
    #[inline]
    pub const fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }
}

/// The numbers of one limit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// How it counts.
    pub algorithm: Algorithm,
    /// What a window admits, or a bucket regains in one.
    pub limit: u64,
    /// What fits at once: a bucket's burst, else the limit.
    pub capacity: u64,
    /// The window; for a quota its nominal length.
    pub window_ns: u64,
    /// The longest that what a bucket owes matters: the time in which it fills up, so many times.
    kept_ns: u64,
    lingers: u32,
}

impl Rule {
    /// A rule for which `capacity` follows from the algorithm. `burst` only means something to buckets.
    pub fn new(algorithm: Algorithm, limit: u64, burst: Option<u64>, window_ns: u64) -> Self {
        let bucket = algorithm.is_bucket();
        let capacity = burst.filter(|_| bucket).unwrap_or(limit);
        let window_ns = window_ns.max(1);
        let refill = (Nanos::from(window_ns) * Nanos::from(capacity)).div_ceil(Nanos::from(limit.max(1)));
        Self {
            algorithm,
            limit,
            capacity,
            window_ns,
            kept_ns: u64::try_from(refill).unwrap_or(u64::MAX),
            lingers: 1,
        }
    }

    /// The same for what a slower limit will go on with: of a bucket that will refill so many times as slowly, what is owed
    /// matters for as many times as long.
    #[must_use]
    pub fn lingering(self, times: u64) -> Self {
        let lingers = u32::try_from(times.max(1)).unwrap_or(u32::MAX);
        Self {
            kept_ns: self.kept_ns.saturating_mul(lingers.into()),
            lingers,
            ..self
        }
    }

    /// Whether `cost` can ever be admitted. What a limit of 0 counts never is, whatever its burst.
    #[inline]
    pub fn admits(&self, cost: u64) -> bool {
        cost == 0 || (self.limit > 0 && cost <= self.capacity)
    }

    /// Whether it counts by calendar.
    #[inline]
    pub fn is_quota(&self) -> bool {
        matches!(self.algorithm, Algorithm::Quota(_))
    }

    /// Brings a cell to `now`: drained, or rolled into the present window. `overdraw` keeps a soft
    /// bucket's debt beyond its burst.
    #[inline]
    pub fn advance(&self, cell: Cell, calendar: Calendar<'_>, now: Timestamp, overdraw: bool) -> Cell {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::advance(self, cell, now, overdraw),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => {
                fixed_window::advance(self, cell, &calendar, now)
            }
            Algorithm::SlidingCounter => sliding_counter::advance(self, cell, now),
            Algorithm::SlidingLog => cell,
        }
    }

    /// Whether an advanced cell has room for `cost`.
    #[inline]
    pub fn fits(&self, cell: Cell, cost: u64, now: Timestamp) -> bool {
        if cost == 0 {
            return true;
        }
        self.admits(cost)
            && match self.algorithm {
                Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::fits(self, cell, cost),
                Algorithm::FixedWindow(_) | Algorithm::Quota(_) => fixed_window::fits(self, cell, cost),
                Algorithm::SlidingCounter => sliding_counter::fits(self, cell, cost, now),
                Algorithm::SlidingLog => log::fits(self, cell, cost),
            }
    }

    /// Brings a cell to `now` and says whether it has room for `cost` then: [`Self::advance`] and [`Self::fits`] in one,
    /// for where both are asked so often that it shows.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub fn look(
        &self,
        cell: Cell,
        calendar: &Calendar<'_>,
        cost: u64,
        now: Timestamp,
        overdraw: bool,
    ) -> (Cell, bool) {
        let (cell, room) = match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let cell = bucket::advance(self, cell, now, overdraw);
                (cell, bucket::fits(self, cell, cost))
            }
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => {
                let cell = fixed_window::advance(self, cell, calendar, now);
                (cell, fixed_window::fits(self, cell, cost))
            }
            Algorithm::SlidingCounter => {
                let cell = sliding_counter::advance(self, cell, now);
                (cell, sliding_counter::fits(self, cell, cost, now))
            }
            Algorithm::SlidingLog => (cell, log::fits(self, cell, cost)),
        };
        (cell, cost == 0 || self.admits(cost) && room)
    }

    /// An advanced cell with `cost` added, whether it fits or not.
    #[inline]
    pub fn charge(&self, cell: Cell, cost: u64, now: Timestamp) -> Cell {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::charge(self, cell, cost),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => fixed_window::charge(cell, cost),
            Algorithm::SlidingCounter => sliding_counter::charge(cell, cost),
            Algorithm::SlidingLog => log::charge(self, cell, cost, now),
        }
    }

    /// A cell as it would be had `tokens` of what it counts not been charged: a node that holds them on lease
    /// shows them as left.
    #[inline]
    pub fn uncharge(&self, cell: Cell, tokens: u64) -> Cell {
        let [first, second, third] = cell.0;
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::uncharge(self, cell, tokens),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => {
                Cell([first, second.saturating_sub(tokens), third])
            }
            Algorithm::SlidingCounter => Cell([first, second, third.saturating_sub(tokens)]),
            Algorithm::SlidingLog => Cell([first.saturating_sub(tokens), second, third]),
        }
    }

    /// What is left of an advanced cell, rounded down.
    #[inline]
    pub fn remaining(&self, cell: Cell, now: Timestamp) -> u64 {
        if self.limit == 0 {
            return 0;
        }
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::remaining(self, cell),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => fixed_window::remaining(self, cell),
            Algorithm::SlidingCounter => sliding_counter::remaining(self, cell, now),
            Algorithm::SlidingLog => log::remaining(self, cell),
        }
    }

    /// The time to the window's end; for buckets until full (leaky: empty), for a log until empty.
    #[inline]
    pub fn reset(&self, cell: Cell, now: Timestamp) -> Nanos {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket if self.limit == 0 => 0,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::reset(self, cell, now),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => fixed_window::reset(cell, now),
            Algorithm::SlidingCounter => sliding_counter::reset(cell, now),
            Algorithm::SlidingLog => log::reset(self, cell, now),
        }
    }

    /// What a bucket owes whose reset is among these times; `None` for what is no bucket.
    pub fn debts_until(&self, resets: &Range<Nanos>) -> Option<Range<u128>> {
        let bucket = self.algorithm.is_bucket();
        // It is reset when it has drained, which takes a part of a nanosecond as long as a whole one.
        let first = |time: Nanos| match time {
            0 => 0,
            time => (time - 1).saturating_mul(self.limit.into()).saturating_add(1),
        };
        (bucket && self.limit > 0).then(|| first(resets.start)..first(resets.end))
    }

    /// The time until `cost` would fit if nothing else came; `None` if it never will. A log answers for
    /// the cost its summary was made for.
    pub fn wait(&self, cell: Cell, cost: u64, now: Timestamp) -> Option<Nanos> {
        if !self.admits(cost) {
            return None;
        }
        if self.fits(cell, cost, now) {
            return Some(0);
        }
        Some(match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bucket::wait(self, cell, cost, now),
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => fixed_window::reset(cell, now),
            Algorithm::SlidingCounter => sliding_counter::wait(self, cell, cost, now),
            Algorithm::SlidingLog => log::wait(cell, now),
        })
    }

    /// The time until there is one unit more than now; for fixed windows and quotas until the window's end.
    pub fn next_unit(&self, cell: Cell, now: Timestamp) -> Nanos {
        match self.algorithm {
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) => self.reset(cell, now),
            Algorithm::SlidingLog => log::wait(cell, now),
            _ => {
                let more = self.remaining(cell, now).saturating_add(1);
                self.wait(cell, more, now).unwrap_or(0)
            }
        }
    }

    /// How long a leaky bucket asks an admitted request to wait for its turn, from the cell it was charged to.
    pub fn turn(&self, charged: Cell, cost: u64, now: Timestamp) -> Nanos {
        match self.algorithm {
            Algorithm::LeakyBucket if self.limit > 0 => bucket::turn(self, charged, cost, now),
            _ => 0,
        }
    }

    /// An untouched counter's cell that has only `room` left.
    pub fn opened_with(&self, room: u64, calendar: Calendar<'_>, now: Timestamp) -> Cell {
        let fresh = self.advance(Cell::default(), calendar, now, false);
        self.charge(fresh, self.capacity.saturating_sub(room), now)
    }

    /// A cell of which everything was used up at an instant, brought to now.
    pub fn used_up(&self, at: Timestamp, calendar: Calendar<'_>, now: Timestamp) -> Cell {
        let cell = self.opened_with(0, calendar, at.min(now));
        self.advance(cell, calendar, now, false)
    }

    /// The longest a counter of this rule can matter after its last charge.
    pub fn horizon_ns(&self) -> Nanos {
        let window = Nanos::from(self.window_ns);
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Nanos::from(self.kept_ns),
            Algorithm::SlidingCounter => 2 * window,
            Algorithm::Quota(period) => Nanos::from(period.longest_ns()),
            _ => window,
        }
    }

    /// No earlier than [`Self::forgettable_at`], and found without a division for a bucket in good standing that is full
    /// again within `slack` nanoseconds.
    #[expect(clippy::inline_always, reason = "as part of a loop it is half as long")]
    #[inline(always)]
    pub fn outlived_at(&self, cell: Cell, now: Timestamp, slack: u64) -> Timestamp {
        let bucket = self.algorithm.is_bucket();
        if bucket && self.kept_ns <= slack && bucket::is_within(self, cell, now) {
            return now.saturating_add(Nanos::from(self.kept_ns));
        }
        // In its parts: what is handed over as a whole is written down first, even where it is not handed over.
        let [first, second, third] = cell.0;
        self.forgettable_after(first, second, third, now)
    }

    #[inline(never)]
    fn forgettable_after(&self, first: u64, second: u64, third: u64, now: Timestamp) -> Timestamp {
        self.forgettable_at(Cell([first, second, third]), now)
    }

    /// From when on the cell is the same as an untouched one and may be forgotten.
    #[inline]
    pub fn forgettable_at(&self, cell: Cell, now: Timestamp) -> Timestamp {
        let length = match self.algorithm {
            Algorithm::SlidingCounter => self.reset(cell, now) + Nanos::from(self.window_ns),
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                self.reset(cell, now).saturating_mul(self.lingers.into())
            }
            _ => self.reset(cell, now),
        };
        now.saturating_add(length)
    }
}
