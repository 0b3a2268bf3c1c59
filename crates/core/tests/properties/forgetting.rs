//! A counter that may be forgotten is as good as untouched.

use proptest::prelude::*;
use tollgate_oracle::Level;

use crate::limits::{any_limit, any_mode};
use crate::steps::{LAST_MOMENT, cost, steps};
use crate::subject::Subject;
use crate::thorough;
use crate::walk::Walk;

proptest! {
    #![proptest_config(thorough!("forgetting"))]

    #[test]
    fn a_forgettable_counter_answers_like_an_untouched_one(
        limit in any_limit(),
        mode in any_mode(),
        (start, steps) in steps(),
        asked in cost(),
        later in 0..1_000_000_000_000_u64,
    ) {
        let mut walk = Walk::new(&[(limit, mode)], start);
        for step in steps {
            walk.tick(step.tick, 0);
            let cost = walk.units(step.cost, 0);
            let stack = walk.stack(|_| cost);
            let from = walk.decide(&stack).forgettable[0];
            let stack: Vec<Level> = walk.stack(|place| walk.units(asked, place));
            for then in [from, from.saturating_add(later)] {
                if then <= LAST_MOMENT {
                    let kept = walk.subject.clone().decide(&stack, then).verdict;
                    let forgotten = Subject::default().decide(&stack, then).verdict;
                    prop_assert_eq!(kept, forgotten, "from {} on, at {}", from, then);
                }
            }
        }
    }
}
