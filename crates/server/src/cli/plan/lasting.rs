//! How long a limit lasts under a steady load, and the limit that lasts forever.
//!
//! The load's requests are evenly spaced, and what is looked for is the first of them that finds no room. Nothing is
//! rounded before that: a load that is at a limit is not above it.

use std::ops::Range;

use tollgate_catalog::model::Window;
use tollgate_catalog::snapshot::Limit;
use tollgate_core::{Algorithm, MAX_LIMIT, MAX_LOG_LIMIT, Nanos, Period, Rule};

use super::fading::Fading;
use super::flow::{Flow, Moment};

const HOUR: u128 = 3_600_000_000_000;
pub(super) const DAY: u128 = 24 * HOUR;

/// The days in as many nanoseconds as the clock can count: what lasts longer lasts forever.
const DAYS: u128 = (u64::MAX as u128) / DAY;

/// Requests that come evenly through the first hours of each day.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    flow: Flow,
    work: Nanos,
}

impl Load {
    pub(super) fn new(flow: Flow, hours: u64) -> Self {
        Self {
            flow,
            work: u128::from(hours) * HOUR,
        }
    }

    /// After this time the limit first refuses a request; `None` if it never does.
    pub(super) fn runs_out(self, limit: &Limit) -> Option<Nanos> {
        let refused = if !limit.rule.admits(1) {
            Some(0)
        } else if let Some(bucket) = Bucket::of(&limit.rule) {
            self.first_refused_by(bucket)
        } else if let Some(fading) = fading(&limit.rule) {
            fading.first_refused(self, self.in_window(limit.window))
        } else {
            // The window that begins with the load is as busy as any.
            let admitted = u128::from(limit.rule.limit);
            (admitted < self.in_window(limit.window)).then_some(admitted)
        };
        refused.map(|request| self.at(request).nanos)
    }

    /// The least limit that never refuses a request; `None` if none that a policy may have is large enough.
    pub(super) fn needs(self, limit: &Limit) -> Option<u64> {
        let most = self.in_window(limit.window);
        let needed = match Bucket::of(&limit.rule) {
            None => fading(&limit.rule).map_or(most, |fading| fading.needed(self, most)),
            Some(bucket) => {
                let carries = |limit| {
                    let bucket = bucket.with(limit);
                    bucket.is_some_and(|bucket| self.first_refused_by(bucket).is_none())
                };
                // A bucket that regains all that can come is large enough if any is.
                match self.flow.in_nanos(bucket.window) {
                    0 => 0,
                    most => first(1..most.saturating_add(1), carries)?,
                }
            }
        };
        u64::try_from(needed)
            .ok()
            .filter(|needed| *needed <= most_of(limit))
    }

    /// The first request that finds too little in a bucket that was full when the load began.
    fn first_refused_by(self, bucket: Bucket) -> Option<u128> {
        let refused = |request: u128| {
            let beyond = request.saturating_add(1).saturating_sub(bucket.capacity().into());
            beyond.saturating_mul(bucket.window) > self.at(request).times(bucket.limit.into())
        };
        // If a day gives back all that it took, each is like the first.
        let taken = self.flow.in_nanos(self.work * bucket.window);
        let days = if taken > u128::from(bucket.limit) * DAY {
            DAYS
        } else {
            1
        };
        // A bucket is emptiest when a day's work ends.
        let last_of = |day| self.before(day + 1).saturating_sub(1);
        let day = first(0..days, |day| refused(last_of(day)))?;
        first(self.before(day)..self.before(day + 1), refused)
    }

    /// How many requests come before a day.
    fn before(self, day: u128) -> u128 {
        self.flow.in_nanos(day * self.work)
    }

    /// How many requests come before an instant.
    pub(super) fn before_instant(self, instant: Nanos) -> u128 {
        let worked = instant / DAY * self.work + (instant % DAY).min(self.work);
        self.flow.in_nanos(worked)
    }

    /// When a request comes.
    pub(super) fn at(self, request: u128) -> Moment {
        let worked = self.flow.at(request);
        let (days, rest) = (worked.nanos / self.work, worked.nanos % self.work);
        worked.moved_to(days * DAY + rest)
    }

    /// How many requests come in a window at most.
    fn in_window(self, window: Window) -> u128 {
        let length = match window {
            Window::Calendar(Period::Day) => DAY,
            Window::Calendar(Period::Week) => 7 * DAY,
            Window::Calendar(_) => 31 * DAY,
            Window::Length(length) => length.into(),
        };
        self.before_instant(length)
    }
}

/// The largest limit that a policy of the same kind may have.
pub(super) fn most_of(limit: &Limit) -> u64 {
    match limit.rule.algorithm {
        Algorithm::SlidingLog => MAX_LOG_LIMIT,
        _ => MAX_LIMIT,
    }
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    limit: u64,
    /// What it holds, unless that follows the limit.
    burst: Option<u64>,
    window: u128,
}

impl Bucket {
    fn of(rule: &Rule) -> Option<Self> {
        let bucket = rule.algorithm.is_bucket();
        bucket.then(|| Self {
            limit: rule.limit,
            burst: Some(rule.capacity).filter(|burst| *burst != rule.limit),
            window: rule.window_ns.into(),
        })
    }

    fn with(self, limit: u128) -> Option<Self> {
        let limit = u64::try_from(limit).ok()?;
        Some(Self { limit, ..self })
    }

    fn capacity(self) -> u64 {
        self.burst.unwrap_or(self.limit)
    }
}

fn fading(rule: &Rule) -> Option<Fading> {
    (rule.algorithm == Algorithm::SlidingCounter).then(|| Fading {
        limit: rule.limit.into(),
        window: rule.window_ns.into(),
    })
}

/// The first number that passes a test which all after it pass, too.
pub(super) fn first(numbers: Range<u128>, passes: impl Fn(u128) -> bool) -> Option<u128> {
    let (mut low, mut high) = (numbers.start, numbers.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    (low < numbers.end).then_some(low)
}
