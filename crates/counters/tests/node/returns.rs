//! What is given back to the leases that a node holds.

use std::slice::from_ref;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Anchor};
use tollgate_counters::shared::call::Micros;
use tollgate_counters::shared::node::Step;

use crate::fleet::{Fleet, Limit, SECOND};

const LIMIT: u64 = 400;

/// A window that holds all that a test does.
fn limit(algorithm: Algorithm) -> Limit {
    Limit {
        accuracy: 5_000,
        ..Limit::new(1, algorithm, LIMIT, LIMIT)
    }
}

/// Asks once, and the store if need be. Says whether it was let through.
fn ask(fleet: &mut Fleet, limit: &Limit) -> bool {
    fleet.now += 50;
    let step = fleet.ask(from_ref(limit), 1);
    let asked = matches!(step, Step::Waits(_));
    let mut decided = None;
    while let Some(call) = fleet.call(limit.home) {
        decided = decided.or(fleet.run(&call).first().map(|levels| levels[0]));
    }
    // What was decided here was so by what is held, or by a denial that is remembered.
    decided
        .filter(|_| asked)
        .unwrap_or_else(|| !asked && fleet.allowed.get())
}

#[test]
fn what_is_given_back_can_be_spent_again() {
    let mut fleet = Fleet::new();
    let limit = limit(Algorithm::FixedWindow(Anchor::First));
    let all = |fleet: &mut Fleet| (0..=LIMIT).take_while(|_| ask(fleet, &limit)).count() as u64;
    let first: u64 = (0..LIMIT / 2).map(|_| u64::from(ask(&mut fleet, &limit))).sum();
    assert_eq!(first, LIMIT / 2);
    fleet.give_back(&limit, 10);
    assert!(all(&mut fleet) > LIMIT / 2, "nothing was given back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// However much a caller claims to give back: no more is let through than the limit and what was let through before.
    #[test]
    fn no_more_is_given_back_than_was_spent(
        window in any::<bool>(),
        steps in prop::collection::vec((0..8_u8, 0..300_u64, 0..3_000_u64), 1..60),
    ) {
        let mut fleet = Fleet::new();
        let algorithm = if window { Algorithm::FixedWindow(Anchor::First) } else { Algorithm::SlidingCounter };
        let limit = limit(algorithm);
        let mut used = 0;
        for (step, amount, pause) in steps {
            if fleet.now + pause >= SECOND / 2 {
                break;
            }
            fleet.now += Micros::from(pause);
            match step {
                0..=4 => {
                    for _ in 0..amount {
                        used += u64::from(ask(&mut fleet, &limit));
                    }
                }
                5 | 6 => {
                    fleet.give_back(&limit, amount);
                    used -= amount.min(used);
                }
                _ => {
                    for _ in 0..fleet.node.shard_count() {
                        let _ = fleet.node.sweep(fleet.clock(), amount % 2 == 0);
                    }
                }
            }
            prop_assert!(used <= LIMIT, "{used}");
        }
    }
}
