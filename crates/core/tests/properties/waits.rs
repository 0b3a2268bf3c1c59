//! The wait that a denial tells is exact.

use proptest::prelude::*;

use crate::limits::any_limit;
use crate::stacks::{any_stack, requests};
use crate::steps::steps;
use crate::thorough;
use crate::walk::Walk;

proptest! {
    #![proptest_config(thorough!("waits"))]

    #[test]
    fn waiting_the_told_time_is_enough_and_no_less(limit in any_limit(), (start, steps) in steps()) {
        let mut walk = Walk::alone(limit, start);
        for step in steps {
            let (cost, verdict) = walk.step(step);
            let costs = [cost];
            check(&walk, &costs, verdict.allowed, verdict.retry_ns)?;
        }
    }

    #[test]
    fn waiting_the_told_time_is_enough_for_a_whole_stack(
        limits in any_stack(),
        (start, requests) in requests(),
    ) {
        let mut walk = Walk::new(&limits, start);
        for request in &requests {
            let costs = request.arrive(&mut walk);
            let stack = walk.stack(|place| costs[place]);
            let verdict = walk.decide(&stack).verdict;
            check(&walk, &costs, verdict.allowed, verdict.retry_ns)?;
        }
    }
}

/// Comes back a nanosecond early and is denied, comes back in time and is allowed.
fn check(walk: &Walk, costs: &[u64], allowed: bool, retry: Option<u128>) -> Result<(), TestCaseError> {
    if allowed {
        prop_assert_eq!(retry, Some(0));
        return Ok(());
    }
    let stack = walk.stack(|place| costs[place]);
    let mut later = walk.subject.clone();
    let Some(wait) = retry else {
        let end = crate::steps::LAST_MOMENT;
        prop_assert!(
            !later.decide(&stack, end).verdict.allowed,
            "never, but at the end of time"
        );
        return Ok(());
    };
    prop_assert!(wait > 0, "a denied request would be allowed at once");
    // A wait of millennia can't be sat out.
    if let Some(then) = walk.after(wait) {
        let early = later.decide(&stack, then - 1).verdict;
        prop_assert!(!early.allowed, "1 ns before {}", then);
        prop_assert!(later.decide(&stack, then).verdict.allowed, "at {}", then);
    }
    Ok(())
}
