//! A denial leaves no trace.

use proptest::prelude::*;

use crate::stacks::{any_stack, requests};
use crate::thorough;
use crate::walk::Walk;

proptest! {
    #![proptest_config(thorough!("denials"))]

    /// A store that never even hears of the requests that are denied, nor of those that only look, answers
    /// all the others alike at every level.
    #[test]
    fn denied_charges_nothing_at_any_level(limits in any_stack(), (start, requests) in requests()) {
        let mut walk = Walk::new(&limits, start);
        let mut untroubled = walk.subject.clone();
        for request in &requests {
            let costs = request.arrive(&mut walk);
            let stack = walk.stack(|place| costs[place]);
            let answer = walk.decide(&stack);
            let mut copy = untroubled.clone();
            prop_assert_eq!(&answer.verdict, &copy.decide(&stack, walk.now).verdict);
            let looks = costs.iter().all(|cost| *cost == 0);
            if answer.verdict.allowed && !looks {
                untroubled = copy;
            } else {
                prop_assert!(answer.verdict.levels.iter().all(|level| !level.charged));
            }
        }
    }
}
