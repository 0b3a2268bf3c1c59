//! A limit is changed while requests by the old one wait.

use std::slice::from_ref;

use tollgate_core::Algorithm;

use crate::fleet::{Fleet, Limit};

#[test]
fn a_call_speaks_by_one_revision() {
    let mut fleet = Fleet::new();
    let old = Limit::new(1, Algorithm::TokenBucket, 1, 20);
    let new = Limit::new(1, Algorithm::TokenBucket, 1, 5);
    let home = old.home;
    // While one call is under way, others queue up: by the new numbers, and by the old ones of a request that was slow.
    fleet.ask(from_ref(&old), 1);
    let first = fleet.call(home).unwrap();
    for _ in 0..3 {
        fleet.ask(from_ref(&new), 2);
    }
    for _ in 0..8 {
        fleet.ask(from_ref(&old), 1);
    }
    assert_eq!(fleet.run(&first), [[true]]);
    let mut admitted = 1;
    let mut calls = 0;
    while let Some(next) = fleet.call(home) {
        let revision = next.call.subjects[0].terms.revision;
        let by = if revision == 1 { &old } else { &new };
        for part in next.call.needs.iter().flat_map(|need| &need.parts) {
            assert_eq!(part.capacity, by.rule.capacity, "revision {revision}");
        }
        let decided = fleet.run(&next);
        admitted += decided.iter().filter(|fits| fits[0]).count();
        calls += 1;
    }
    assert_eq!(calls, 2);
    assert_eq!(
        admitted, 5,
        "the new numbers hold, even for those who don't know them yet"
    );
}
