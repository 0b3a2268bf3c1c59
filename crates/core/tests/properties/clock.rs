//! A clock that is wrong, and then put right, gives nothing away.

use proptest::prelude::*;

use crate::limits::any_limit;
use crate::steps::{Cost, Tick, cost, steps};
use crate::thorough;
use crate::walk::Walk;

fn back() -> impl Strategy<Value = Tick> {
    prop_oneof![
        Just(Tick::BackNano),
        (0..600_u16).prop_map(Tick::Back),
        (1..=30_u8).prop_map(Tick::BackYears),
    ]
}

fn ahead() -> impl Strategy<Value = Tick> {
    prop_oneof![
        Just(Tick::Window(0)),
        (0..600_u16).prop_map(Tick::Part),
        (2..9_u8).prop_map(Tick::Idle),
        (1..=100_u8).prop_map(Tick::Years),
    ]
}

proptest! {
    #![proptest_config(thorough!("clock"))]

    /// What is allowed on a clock that was set back would have been allowed had it stayed, and less is left.
    /// Nor does a look on a clock that was ahead, or behind, change what is answered after.
    #[test]
    fn time_stepping_back_grants_nothing(
        limit in any_limit(),
        (start, steps) in steps(),
        back in back(),
        ahead in ahead(),
        cost in cost(),
    ) {
        let mut walk = Walk::alone(limit, start);
        for step in steps {
            walk.step(step);
        }
        let cost = walk.units(cost, 0);
        let now = walk.now;
        let stayed = walk.ask(cost, now);
        let stayed_look = walk.ask(0, now);
        let earlier = back.after(now, limit.window_ns, 0, 0);

        let stepped = walk.ask(cost, earlier);
        prop_assert!(!stepped.allowed || stayed.allowed, "allowed only at {earlier}, before {now}");
        let stepped_look = walk.ask(0, earlier);
        prop_assert!(stepped_look.remaining <= stayed_look.remaining);

        let later = ahead.after(now, limit.window_ns, 0, 0);
        let look = walk.stack(|_| 0);
        walk.subject.decide(&look, later);
        walk.subject.decide(&look, earlier);
        prop_assert_eq!(walk.ask(cost, now), stayed, "after looks at {} and {}", later, earlier);
        prop_assert_eq!(walk.ask(cost, earlier), stepped);
    }

    /// However far ahead the clock jumps, what is then admitted at that instant, and after it was put right
    /// again, is at most what fits at once.
    #[test]
    fn time_jumping_ahead_grants_at_most_one_refill(
        limit in any_limit(),
        (start, steps) in steps(),
        ahead in ahead(),
        back in back(),
        costs in proptest::collection::vec(cost(), 1..6),
    ) {
        let mut walk = Walk::alone(limit, start);
        let mut seen = walk.now;
        for step in steps {
            walk.step(step);
            seen = seen.max(walk.now);
        }
        walk.now = ahead.after(seen, limit.window_ns, 0, 0);
        let mut admitted = 0_u128;
        for tick in [Tick::Stay, back] {
            walk.tick(tick, 0);
            // The last two take what any rounding might have left.
            for cost in costs.iter().copied().chain([Cost::Left, Cost::One]) {
                let units = walk.units(cost, 0);
                let stack = walk.stack(|_| units);
                let verdict = walk.decide(&stack).verdict;
                admitted += if verdict.allowed { u128::from(units) } else { 0 };
            }
        }
        prop_assert!(admitted <= u128::from(limit.capacity()), "{admitted} at {}", walk.now);
    }
}
