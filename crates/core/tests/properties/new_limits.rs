//! A new limit or burst keeps the count.

use proptest::prelude::*;
use tollgate_oracle::{Counters, Kind, Limit, Mode};

use crate::equals_oracle::compare_once;
use crate::limits::{any_limit, any_mode, count};
use crate::steps::{Cost, steps};
use crate::thorough;
use crate::walk::Walk;

fn changed(limit: Limit, to: u64, burst: Option<u64>) -> Limit {
    let log = limit.kind == Kind::SlidingLog;
    Limit {
        limit: if log {
            to.min(tollgate_core::MAX_LOG_LIMIT)
        } else {
            to
        },
        burst: burst.filter(|_| limit.kind.is_bucket()),
        ..limit
    }
}

proptest! {
    #![proptest_config(thorough!("new_limits"))]

    /// Just after a charge, a new limit leaves just as much more or less as it is larger or smaller.
    #[test]
    fn a_new_limit_keeps_the_count(
        limit in any_limit(),
        (start, steps) in steps(),
        to in count(),
        burst in proptest::option::of(count()),
    ) {
        // A limit of 0 counts nothing, so there would be nothing to keep.
        let (limit, to) = (changed(limit, limit.limit.max(1), limit.burst), to.max(1));
        let mut walk = Walk::alone(limit, start);
        for step in steps {
            walk.step(step);
            // Something is charged last, if there is any room, so that no time passes between that and
            // the change.
            let one = walk.units(Cost::One, 0);
            let stack = walk.stack(|_| one);
            if !walk.decide(&stack).verdict.allowed {
                continue;
            }
            let left = walk.ask(0, walk.now).levels[0].remaining;
            let mut after = walk.clone();
            after.limits = vec![(changed(limit, to, burst), Mode::Enforce)];
            let used = limit.capacity() - left;
            let expected = after.limits[0].0.capacity().saturating_sub(used);
            prop_assert_eq!(after.ask(0, walk.now).levels[0].remaining, expected);
        }
    }

    /// And everything after it is answered as the oracle does, through one change after another, of the
    /// mode as well.
    #[test]
    fn a_changing_limit_equals_oracle(
        limit in any_limit(),
        (start, steps) in steps(),
        changes in proptest::collection::vec((0..12_usize, count(), proptest::option::of(count()), any_mode()), 1..4),
    ) {
        let mut walk = Walk::alone(limit, start);
        let mut oracle = Counters::default();
        for (place, step) in steps.iter().enumerate() {
            for (_, to, burst, mode) in changes.iter().filter(|(when, ..)| *when == place) {
                walk.limits = vec![(changed(limit, *to, *burst), *mode)];
            }
            walk.tick(step.tick, 0);
            let cost = walk.units(step.cost, 0);
            compare_once(&mut walk, &mut oracle, |_| cost)?;
        }
    }

    /// A denial after the change tells an exact wait, too.
    #[test]
    fn waiting_is_exact_after_a_new_limit(
        limit in any_limit(),
        (start, steps) in steps(),
        to in count(),
        burst in proptest::option::of(count()),
        cost in crate::steps::cost(),
    ) {
        let mut walk = Walk::alone(limit, start);
        for step in steps {
            walk.step(step);
        }
        walk.limits = vec![(changed(limit, to, burst), Mode::Enforce)];
        let cost = walk.units(cost, 0);
        let verdict = walk.ask(cost, walk.now);
        if let Some(then) = verdict.retry_ns.and_then(|wait| walk.after(wait)) {
            prop_assert!(walk.ask(cost, then).allowed, "at {then}");
            prop_assert!(verdict.allowed || !walk.ask(cost, then - 1).allowed, "1 ns before {then}");
        }
    }
}
