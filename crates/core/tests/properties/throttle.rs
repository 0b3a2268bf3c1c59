//! A throttle is a token bucket whose tokens come back one by one, and other numbers go on from the same instant.

use proptest::prelude::*;
use tollgate_core::{Cell, NoThrottle, Throttle, Timestamp};
use tollgate_oracle::{Counters, Kind, Level, Limit, Mode};

use crate::thorough;

const SECOND_NS: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND_NS;

/// Burst, count and period in nanoseconds.
fn numbers() -> impl Strategy<Value = (u64, u64, u64)> {
    let period = prop_oneof![Just(1_u64), 1..100_u64, Just(86_400 * 30)];
    (0..40_u64, 1..1_000_u64, period).prop_map(|(burst, count, period)| (burst, count, period * SECOND_NS))
}

/// How long after the one before a request comes, and what it takes.
fn requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = prop_oneof![Just(0_u64), 0..SECOND_NS, 0..200 * SECOND_NS];
    let tokens = prop_oneof![4 => Just(1_u64), 1 => Just(0), 2 => 0..50_u64];
    proptest::collection::vec((pause, tokens), 1..40)
}

proptest! {
    #![proptest_config(thorough!("throttle"))]

    #[test]
    fn says_what_the_oracle_says_of_a_token_bucket(numbers in numbers(), requests in requests()) {
        let (burst, count, period_ns) = numbers;
        let throttle = Throttle::new(burst, count, period_ns).unwrap();
        // redis-cell cuts the interval to whole nanoseconds, and so one token comes back in each of them.
        let limit = Limit { kind: Kind::TokenBucket, limit: 1, burst: Some(burst + 1), window_ns: period_ns / count };
        let (mut oracle, mut cell, mut now) = (Counters::default(), None, START);
        for (pause, tokens) in requests {
            now += pause;
            let (says, after) = throttle.take(cell, tokens, Timestamp::from_nanos(now));
            cell = after.or(cell);
            let guess = says.retry_ns.unwrap_or(0).into();
            let level = Level::new(limit, Mode::Enforce, tokens, 1).guessing(guess);
            let verdict = oracle.decide(&[level], now);
            prop_assert_eq!(says.limited, !verdict.allowed);
            prop_assert_eq!(says.remaining, verdict.levels[0].remaining);
            prop_assert_eq!(u128::from(says.reset_ns), verdict.levels[0].reset_ns);
            let retry = says.retry_ns.map(u128::from);
            prop_assert_eq!(retry, verdict.retry_ns.filter(|_| says.limited));
        }
    }

    #[test]
    fn other_numbers_go_on_from_the_instant_at_which_it_would_be_full(
        steps in proptest::collection::vec((numbers(), 0..2 * SECOND_NS, 0..30_u64), 1..40),
    ) {
        let (mut cell, mut now, mut full) = (None::<Cell>, START, START);
        for ((burst, count, period_ns), pause, tokens) in steps {
            now += pause;
            let throttle = Throttle::new(burst, count, period_ns).unwrap();
            let interval = u128::from(period_ns / count);
            let (says, after) = throttle.take(cell, tokens, Timestamp::from_nanos(now));
            cell = after.or(cell);
            // As redis-cell words it: the new arrival time, less the tolerance, must not be in the future.
            let arrival = u128::from(full.max(now)) + interval * u128::from(tokens);
            let allowed = arrival <= u128::from(now) + interval * u128::from(burst + 1);
            prop_assert_eq!(says.limited, !allowed);
            if allowed && tokens > 0 {
                full = u64::try_from(arrival).unwrap();
            }
            prop_assert_eq!(says.reset_ns, full.saturating_sub(now));
        }
    }
}

#[test]
fn refuses_numbers_that_make_no_bucket() {
    assert_eq!(Throttle::new(1, 0, SECOND_NS), Err(NoThrottle::ZeroRate));
    assert_eq!(Throttle::new(1, 1, 0), Err(NoThrottle::ZeroRate));
    assert_eq!(
        Throttle::new(1, SECOND_NS + 1, SECOND_NS),
        Err(NoThrottle::ZeroRate)
    );
    assert_eq!(Throttle::new(u64::MAX, 1, SECOND_NS), Err(NoThrottle::TooLong));
    assert_eq!(
        Throttle::new(1 << 40, 1, SECOND_NS << 20),
        Err(NoThrottle::TooLong)
    );
}
