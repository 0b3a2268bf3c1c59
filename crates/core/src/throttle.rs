//! The generic cell rate algorithm as redis-cell counts it: a token bucket whose state is one instant.
//!
//! That instant is when the bucket would be full again. Each token taken moves it ahead by an interval, and it may be
//! no further ahead than the bucket's tokens take to come back. It does not depend on the numbers, so that other
//! numbers for the same key go on from it.

use crate::cell::Cell;
use crate::time::Timestamp;

/// The longest that anything may take to come back: 292 years, as many nanoseconds as a signed word holds.
const MAX_NS: u128 = i64::MAX as u128;

/// The numbers of a throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// What fits at once.
    pub limit: u64,
    /// The time in which one token comes back.
    interval_ns: u64,
    /// The time in which all of them do.
    tolerance_ns: u64,
}

/// Why numbers make no throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoThrottle {
    /// No token ever comes back, or each at once.
    ZeroRate,
    /// A full bucket would take longer than can be counted.
    TooLong,
}

/// What a throttle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// It had no room.
    pub limited: bool,
    /// What is left, rounded down.
    pub remaining: u64,
    /// When the same would fit; none if it did, or never will.
    pub retry_ns: Option<u64>,
    /// The time until the bucket is full.
    pub reset_ns: u64,
}

impl Throttle {
    /// A bucket of `burst + 1` tokens, of which `count` come back in a period.
    pub fn new(burst: u64, count: u64, period_ns: u64) -> Result<Self, NoThrottle> {
        let interval_ns = period_ns.checked_div(count).unwrap_or(0);
        if interval_ns == 0 {
            return Err(NoThrottle::ZeroRate);
        }
        let limit = burst.checked_add(1).ok_or(NoThrottle::TooLong)?;
        match u64::try_from(u128::from(interval_ns) * u128::from(limit)) {
            Ok(tolerance_ns) if u128::from(tolerance_ns) <= MAX_NS => Ok(Self {
                limit,
                interval_ns,
                tolerance_ns,
            }),
            _ => Err(NoThrottle::TooLong),
        }
    }

    /// Asks for some tokens: what is said, and the cell to be kept if any are taken.
    pub fn take(&self, cell: Option<Cell>, tokens: u64, now: Timestamp) -> (Throttled, Option<Cell>) {
        let now_ns = now.nanos();
        let full = cell.map_or(0, |cell| cell.0[0]).max(now_ns);
        let before = full - now_ns;
        let cost = u128::from(self.interval_ns) * u128::from(tokens);
        let wanted = u128::from(before) + cost;
        let short = wanted.saturating_sub(u128::from(self.tolerance_ns));
        if short > 0 {
            let ever = cost <= u128::from(self.tolerance_ns);
            let retry_ns = u64::try_from(short).ok().filter(|_| ever);
            return (self.says(true, retry_ns, before), None);
        }
        // No more than the tolerance, so that it fits.
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        let after = Cell([now_ns.saturating_add(wanted), 0, 0]);
        (self.says(false, None, wanted), (tokens > 0).then_some(after))
    }

    fn says(&self, limited: bool, retry_ns: Option<u64>, owed: u64) -> Throttled {
        Throttled {
            limited,
            remaining: self.tolerance_ns.saturating_sub(owed) / self.interval_ns,
            retry_ns,
            reset_ns: owed,
        }
    }
}
