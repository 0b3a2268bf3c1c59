//! Each algorithm, alone, answers every question as the oracle does.

use proptest::prelude::*;
use tollgate_oracle::{Counters, Kind, Level, Limit, Mode};

use crate::limits::{any_mode, limit_of};
use crate::steps::{Start, Step, steps};
use crate::thorough;
use crate::walk::Walk;

macro_rules! equals_oracle {
    ($($name:ident: $kind:ident,)*) => {
        proptest! {
            #![proptest_config(thorough!("equals_oracle"))]
            $(
                #[test]
                fn $name(limit in limit_of(Kind::$kind), mode in any_mode(), (start, steps) in steps()) {
                    compare(limit, mode, start, &steps)?;
                }
            )*
        }
    };
}

equals_oracle! {
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

fn compare(limit: Limit, mode: Mode, start: Start, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut walk = Walk::new(&[(limit, mode)], start);
    let mut oracle = Counters::default();
    for step in steps {
        walk.tick(step.tick, 0);
        let cost = walk.units(step.cost, 0);
        compare_once(&mut walk, &mut oracle, |_| cost)?;
    }
    Ok(())
}

/// Lets both decide the same request, and compares every part of their answers.
pub(crate) fn compare_once(
    walk: &mut Walk,
    oracle: &mut Counters,
    cost: impl Fn(usize) -> u64,
) -> Result<(), TestCaseError> {
    let stack = walk.stack(cost);
    let answer = walk.decide(&stack);
    // The oracle searches for waits; the core's own are where it looks first.
    let guessed: Vec<Level> = stack
        .iter()
        .zip(&answer.verdict.levels)
        .map(|(level, told)| level.guessing(told.wait_ns.unwrap_or(0)))
        .collect();
    let verdict = oracle.decide(&guessed, walk.now);
    prop_assert_eq!(&answer.verdict, &verdict, "at {} of {:?}", walk.now, stack);
    for ((level, told), advice) in stack.iter().zip(&verdict.levels).zip(&answer.advice) {
        let right = if told.violated {
            told.wait_ns
        } else {
            let level = level.guessing(advice.unwrap_or(0));
            Some(oracle.counter(&level).next_unit_ns(&level, walk.now.into()))
        };
        prop_assert_eq!(*advice, right, "advice at {} of {:?}", walk.now, level);
    }
    Ok(())
}
