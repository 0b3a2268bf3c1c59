//! Limits at the edges of what a policy may say.

use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::{MAX_LIMIT, MAX_LOG_LIMIT, MAX_WINDOW_NS};
use tollgate_oracle::{Kind, Limit, Mode};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const DAY: u64 = 86_400 * SECOND;

/// Any limit of any kind.
pub(crate) fn any_limit() -> impl Strategy<Value = Limit> {
    (select(&Kind::ALL[..]), Numbers::any()).prop_map(|(kind, numbers)| numbers.of(kind))
}

/// Any limit of one kind.
pub(crate) fn limit_of(kind: Kind) -> impl Strategy<Value = Limit> {
    Numbers::any().prop_map(move |numbers| numbers.of(kind))
}

/// Mostly enforced.
pub(crate) fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 2 => Just(Mode::Soft)]
}

/// Numbers that suit every kind, so that a case shrinks without changing what kind of case it is.
#[derive(Debug, Clone)]
struct Numbers {
    limit: u64,
    burst: Option<u64>,
    window_ns: u64,
}

impl Numbers {
    fn any() -> impl Strategy<Value = Self> {
        let burst = prop_oneof![2 => Just(None), 3 => count().prop_map(Some)];
        (count(), burst, window()).prop_map(|(limit, burst, window_ns)| Self {
            limit,
            burst,
            window_ns,
        })
    }

    fn of(self, kind: Kind) -> Limit {
        let most = if kind == Kind::SlidingLog {
            MAX_LOG_LIMIT
        } else {
            MAX_LIMIT
        };
        Limit {
            kind,
            limit: self.limit.min(most),
            burst: self.burst.filter(|_| kind.is_bucket()),
            window_ns: match kind {
                Kind::QuotaDay => DAY,
                Kind::QuotaWeek => 7 * DAY,
                Kind::QuotaMonth => 31 * DAY,
                _ => self.window_ns,
            },
        }
    }
}

/// A limit or a burst.
pub(crate) fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        1 => Just(0_u64),
        3 => Just(1),
        6 => 2..=10_u64,
        3 => 11..=1_000_u64,
        2 => 1_001..=MAX_LOG_LIMIT,
        2 => 1..=MAX_LIMIT,
        2 => Just(MAX_LIMIT),
    ]
}

/// A window a policy can name, from 1 ms to 366 days, and now and then one that it can't, to the nanosecond.
fn window() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => Just(MILLI),
        3 => (1..=1_000_u64).prop_map(|millis| millis * MILLI),
        6 => select(&[SECOND, 60 * SECOND, 3_600 * SECOND, DAY][..]),
        2 => (1..=MAX_WINDOW_NS / MILLI).prop_map(|millis| millis * MILLI),
        1 => 1..=MAX_WINDOW_NS,
        2 => Just(MAX_WINDOW_NS),
    ]
}
