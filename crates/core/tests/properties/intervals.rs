//! Whatever is asked for, no interval admits more than its limit. Judged from the admitted requests alone,
//! in whole numbers, without any idea of how they were counted.

use proptest::prelude::*;
use tollgate_oracle::{Kind, Limit, civil};

use crate::limits::limit_of;
use crate::steps::steps;
use crate::thorough;
use crate::walk::Walk;

macro_rules! never_over_in_any_interval {
    ($($name:ident: $kind:ident,)*) => {
        mod never_over_in_any_interval {
            use super::*;

            proptest! {
                #![proptest_config(thorough!("intervals"))]
                $(
                    #[test]
                    fn $name(limit in limit_of(Kind::$kind), (start, steps) in steps()) {
                        let mut walk = Walk::alone(limit, start);
                        let mut history = Vec::new();
                        for step in steps {
                            let (cost, verdict) = walk.step(step);
                            if verdict.allowed && cost > 0 {
                                history.push(Admitted { clock: walk.now, cost });
                            }
                        }
                        judge(&limit, &history)?;
                    }
                )*
            }
        }
    };
}

never_over_in_any_interval! {
    token_bucket: TokenBucket,
    leaky_bucket: LeakyBucket,
    fixed_window_from_the_epoch: FixedWindowEpoch,
    fixed_window_from_the_first: FixedWindowFirst,
    sliding_log: SlidingLog,
    sliding_counter: SlidingCounter,
    quota_of_a_day: QuotaDay,
    quota_of_a_week: QuotaWeek,
    quota_of_a_month: QuotaMonth,
}

struct Admitted {
    /// What the clock showed, which may have stepped back.
    clock: u64,
    cost: u64,
}

fn judge(limit: &Limit, history: &[Admitted]) -> Result<(), TestCaseError> {
    // Time never counts as earlier than the latest that something was admitted at.
    let mut latest = 0;
    let times: Vec<u64> = history
        .iter()
        .map(|admitted| {
            latest = admitted.clock.max(latest);
            latest
        })
        .collect();
    for last in 0..history.len() {
        for first in 0..=last {
            let sum: u128 = history[first..=last]
                .iter()
                .map(|admitted| u128::from(admitted.cost))
                .sum();
            let most = most_between(limit, &times, first, last);
            prop_assert!(
                most.is_none_or(|most| sum * u128::from(limit.window_ns) <= most),
                "{sum} from {} to {}",
                times[first],
                times[last]
            );
        }
        if limit.kind == Kind::SlidingCounter {
            let weighted = faded_sum(limit, history, &times, last);
            prop_assert!(weighted <= full(limit), "{weighted} at {}", history[last].clock);
        }
    }
    Ok(())
}

/// The most that may be admitted from one admission to another, both counted, times the window; `None` if
/// the limit does not see the two together.
fn most_between(limit: &Limit, times: &[u64], first: usize, last: usize) -> Option<u128> {
    let (from, to) = (times[first], times[last]);
    let together = match limit.kind {
        Kind::TokenBucket | Kind::LeakyBucket => {
            let burst = u128::from(limit.capacity()) * u128::from(limit.window_ns);
            return Some(burst + u128::from(to - from) * u128::from(limit.limit));
        }
        Kind::FixedWindowEpoch | Kind::SlidingCounter => from / limit.window_ns == to / limit.window_ns,
        Kind::FixedWindowFirst => opens_window(limit, times, first) && to - from < limit.window_ns,
        Kind::SlidingLog => to - from < limit.window_ns,
        Kind::QuotaDay => u128::from(to) < civil::end_of_day(from.into()),
        Kind::QuotaWeek => u128::from(to) < civil::end_of_week(from.into()),
        Kind::QuotaMonth => u128::from(to) < civil::end_of_month(from.into()),
    };
    together.then(|| full(limit))
}

/// Whether an admission is the first of a window that admissions open.
fn opens_window(limit: &Limit, times: &[u64], admission: usize) -> bool {
    let mut opened: Option<u64> = None;
    for (place, at) in times.iter().enumerate() {
        if opened.is_none_or(|opened| at - opened >= limit.window_ns) {
            opened = Some(*at);
            if place == admission {
                return true;
            }
        }
    }
    false
}

/// `previous × (window − elapsed) + current × window`, just after an admission.
fn faded_sum(limit: &Limit, history: &[Admitted], times: &[u64], last: usize) -> u128 {
    let window = limit.window_ns;
    let index = times[last] / window;
    let sum = |wanted: u64| -> u128 {
        let both = history.iter().zip(times).take(last + 1);
        let within = both.filter(|(_, at)| **at / window == wanted);
        within.map(|(admitted, _)| u128::from(admitted.cost)).sum()
    };
    // A clock behind the window's start counts as being at its start.
    let elapsed = history[last].clock.saturating_sub(index * window);
    let previous = index.checked_sub(1).map_or(0, sum);
    previous * u128::from(window - elapsed) + sum(index) * u128::from(window)
}

fn full(limit: &Limit) -> u128 {
    u128::from(limit.limit) * u128::from(limit.window_ns)
}
