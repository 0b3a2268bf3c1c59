//! Stacks of mixed algorithms and modes are decided as the oracle decides them.

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_oracle::{Counters, Limit, Mode};

use crate::equals_oracle::compare_once;
use crate::limits::{any_limit, any_mode};
use crate::steps::{Cost, Start, Tick, cost, start, tick};
use crate::thorough;
use crate::walk::Walk;

/// A request to a stack, measured by one of its levels.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    tick: Tick,
    by: prop::sample::Index,
    costs: Costs,
}

#[derive(Debug, Clone)]
enum Costs {
    /// Every level counts the request's cost.
    Same(Cost),
    /// Every level counts another unit of it.
    Each([Cost; 6]),
}

pub(crate) fn any_stack() -> impl Strategy<Value = Vec<(Limit, Mode)>> {
    vec((any_limit(), any_mode()), 1..=6)
}

pub(crate) fn requests() -> impl Strategy<Value = (Start, Vec<Request>)> {
    let costs = prop_oneof![
        2 => cost().prop_map(Costs::Same),
        1 => proptest::array::uniform6(cost()).prop_map(Costs::Each),
    ];
    let request = (tick(), any::<prop::sample::Index>(), costs);
    let request = request.prop_map(|(tick, by, costs)| Request { tick, by, costs });
    (start(), vec(request, 1..=10))
}

impl Request {
    /// Moves the walk's clock to the request, and says what each level pays.
    pub(crate) fn arrive(&self, walk: &mut Walk) -> Vec<u64> {
        let levels = walk.limits.len();
        let by = self.by.index(levels);
        walk.tick(self.tick, by);
        match &self.costs {
            // A soft level may not see what no edge lets through, so the least of the levels' views counts.
            Costs::Same(cost) => {
                let units = walk.units(*cost, by);
                let soft = walk.limits.iter().any(|(_, mode)| *mode == Mode::Soft);
                vec![
                    if soft {
                        units.min(tollgate_core::MAX_LIMIT)
                    } else {
                        units
                    };
                    levels
                ]
            }
            Costs::Each(costs) => (0..levels).map(|place| walk.units(costs[place], place)).collect(),
        }
    }
}

proptest! {
    #![proptest_config(thorough!("stacks"))]

    #[test]
    fn stack_equals_oracle(limits in any_stack(), (start, requests) in requests()) {
        let mut walk = Walk::new(&limits, start);
        let mut oracle = Counters::default();
        for request in &requests {
            let costs = request.arrive(&mut walk);
            compare_once(&mut walk, &mut oracle, |place| costs[place])?;
        }
    }
}
