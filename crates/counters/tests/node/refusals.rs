//! Denials that a node remembers.

use std::slice::from_ref;

use tollgate_core::Algorithm;
use tollgate_counters::shared::call::{Call, Kind, LeaseId, Micros, Name, Subject, Terms, Want};
use tollgate_counters::shared::node::Step;

use crate::fleet::{Fleet, Limit, SECOND};

const MILLI: Micros = SECOND / 1_000;

#[test]
fn a_denial_is_not_remembered_beyond_what_another_nodes_lease_could_explain() {
    let mut fleet = Fleet::new();
    let old = Terms {
        kind: Kind::Token,
        limit: 100,
        capacity: 100,
        window: SECOND,
        revision: 1,
        period: [0; 3],
    };
    // Another node holds half of the bucket, for a tenth of a second.
    let lend = Call {
        not_after: Micros::MAX,
        subjects: vec![Subject {
            name: Name([1; 16]),
            terms: old,
            formers: Vec::new(),
            left: 0,
        }],
        wants: vec![Want {
            subject: 0,
            amount: 50,
            hold: 100 * MILLI,
            lease: LeaseId { node: 8, number: 1 },
            most: 100,
            needed: false,
        }],
        ..Call::default()
    };
    fleet.carry_out(&lend);
    // Then the burst is lowered below that.
    let lowered = Limit::new(1, Algorithm::TokenBucket, 100, 10);
    let home = lowered.home;
    fleet.ask(from_ref(&lowered), 2);
    let call = fleet.call(home).unwrap();
    assert_eq!(fleet.run(&call), [[false]]);
    assert!(matches!(fleet.ask(from_ref(&lowered), 2), Step::Decided { .. }));
    // With the lease the bucket is as if just emptied, and there is room for one 10 ms later.
    fleet.now += 111 * MILLI;
    assert!(matches!(fleet.ask(from_ref(&lowered), 2), Step::Waits(_)));
    let call = fleet.call(home).unwrap();
    assert_eq!(fleet.run(&call), [[true]]);
}
