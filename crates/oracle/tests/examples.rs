//! The oracle itself, held against sums that fit in a head.

use tollgate_oracle::{Counters, Kind, Level, Limit, Mode, Verdict};

const SECOND: u64 = 1_000_000_000;
/// As waits are told.
const WAIT_SECOND: u128 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Ten a ten seconds.
fn ten(kind: Kind) -> Limit {
    Limit {
        kind,
        limit: 10,
        burst: None,
        window_ns: 10 * SECOND,
    }
}

fn ask(counters: &mut Counters, limit: Limit, cost: u64, now: u64) -> Verdict {
    counters.decide(&[Level::new(limit, Mode::Enforce, cost, 0)], now)
}

/// Whether a request was allowed, what is left, and when it would be allowed.
fn outcome(verdict: &Verdict) -> (bool, u64, Option<u128>) {
    (verdict.allowed, verdict.levels[0].remaining, verdict.retry_ns)
}

#[test]
fn a_token_bucket_refills_one_a_second() {
    let limit = ten(Kind::TokenBucket);
    let mut counters = Counters::default();
    assert_eq!(outcome(&ask(&mut counters, limit, 10, 0)), (true, 0, Some(0)));
    assert_eq!(
        outcome(&ask(&mut counters, limit, 3, SECOND)),
        (false, 1, Some(2 * WAIT_SECOND))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 3, 3 * SECOND)),
        (true, 0, Some(0))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 11, 3 * SECOND)),
        (false, 0, None)
    );
    // Nothing comes back for a second that passes twice.
    assert_eq!(
        outcome(&ask(&mut counters, limit, 1, SECOND)),
        (false, 0, Some(3 * WAIT_SECOND))
    );
}

#[test]
fn a_leaky_bucket_tells_the_time_to_ones_turn() {
    let limit = ten(Kind::LeakyBucket);
    let mut counters = Counters::default();
    assert_eq!(ask(&mut counters, limit, 4, 0).delay_ns, 0);
    let next = ask(&mut counters, limit, 6, SECOND);
    assert_eq!(
        (next.delay_ns, next.levels[0].reset_ns),
        (u128::from(3 * SECOND), u128::from(9 * SECOND))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 2, SECOND)),
        (false, 1, Some(WAIT_SECOND))
    );
}

#[test]
fn a_fixed_window_ends_at_a_multiple_or_a_window_after_its_first() {
    for (kind, end) in [(Kind::FixedWindowEpoch, 10), (Kind::FixedWindowFirst, 17)] {
        let mut counters = Counters::default();
        let now = 7 * SECOND;
        // A look opens no window.
        ask(&mut counters, ten(kind), 0, 2 * SECOND);
        assert!(ask(&mut counters, ten(kind), 10, now).allowed);
        let denied = ask(&mut counters, ten(kind), 1, now);
        assert_eq!(
            outcome(&denied),
            (false, 0, Some(WAIT_SECOND * u128::from(end - 7)))
        );
        assert!(!ask(&mut counters, ten(kind), 1, end * SECOND - 1).allowed);
        assert!(ask(&mut counters, ten(kind), 10, end * SECOND).allowed);
    }
}

#[test]
fn a_log_entry_leaves_when_its_age_reaches_the_window() {
    let limit = ten(Kind::SlidingLog);
    let mut counters = Counters::default();
    assert!(ask(&mut counters, limit, 4, 0).allowed);
    assert!(ask(&mut counters, limit, 6, 5 * SECOND).allowed);
    assert_eq!(
        outcome(&ask(&mut counters, limit, 4, 6 * SECOND)),
        (false, 0, Some(4 * WAIT_SECOND))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 5, 6 * SECOND)),
        (false, 0, Some(9 * WAIT_SECOND))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 4, 10 * SECOND)),
        (true, 0, Some(0))
    );
}

#[test]
fn the_previous_window_fades() {
    let limit = ten(Kind::SlidingCounter);
    let mut counters = Counters::default();
    assert!(ask(&mut counters, limit, 10, 9 * SECOND).allowed);
    // 10 × 7/10 + 0
    assert_eq!(
        outcome(&ask(&mut counters, limit, 0, 13 * SECOND)),
        (true, 3, Some(0))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 5, 13 * SECOND)),
        (false, 3, Some(2 * WAIT_SECOND))
    );
    assert_eq!(
        outcome(&ask(&mut counters, limit, 5, 15 * SECOND)),
        (true, 0, Some(0))
    );
}

#[test]
fn a_quota_ends_with_its_day_week_or_month() {
    // Wednesday, 31 January 2024, five to midnight.
    let now = 1_706_659_200 * SECOND + DAY - 300 * SECOND;
    for (kind, left) in [
        (Kind::QuotaDay, 300),
        (Kind::QuotaWeek, 300 + 4 * 86_400),
        (Kind::QuotaMonth, 300),
    ] {
        let verdict = ask(&mut Counters::default(), ten(kind), 11, now);
        assert_eq!(verdict.levels[0].reset_ns, u128::from(left * SECOND), "{kind:?}");
        assert_eq!(verdict.retry_ns, None);
    }
}

#[test]
fn a_stack_is_charged_whole_or_not_at_all() {
    let level = |kind, limit, mode, counter| Level::new(Limit { limit, ..ten(kind) }, mode, 2, counter);
    let stack = [
        level(Kind::FixedWindowEpoch, 4, Mode::Enforce, 0),
        level(Kind::SlidingLog, 3, Mode::Shadow, 1),
        level(Kind::QuotaDay, 3, Mode::Soft, 2),
        level(Kind::FixedWindowEpoch, 4, Mode::Enforce, 3),
    ];
    let mut counters = Counters::default();
    let lefts =
        |verdict: &Verdict| -> Vec<u64> { verdict.levels.iter().map(|level| level.remaining).collect() };
    assert_eq!(lefts(&counters.decide(&stack, 0)), [2, 1, 1, 2]);
    // The shadow has no room and is not charged, the soft one is.
    let second = counters.decide(&stack, 0);
    assert_eq!((second.allowed, lefts(&second)), (true, vec![0, 1, 0, 0]));
    let third = counters.decide(&stack, SECOND);
    assert_eq!((third.allowed, lefts(&third)), (false, vec![0, 1, 0, 0]));
    // Two wait equally long: the broader one is named.
    assert_eq!((third.binding, third.retry_ns), (Some(0), Some(9 * WAIT_SECOND)));
}
