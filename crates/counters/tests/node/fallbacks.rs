//! What was let through without the store is charged to it, as if the store had decided.

use std::slice::from_ref;

use tollgate_core::{Algorithm, Anchor};
use tollgate_counters::shared::call::Reply;

use crate::fleet::{Fleet, Limit, SECOND};

const WINDOW: Algorithm = Algorithm::FixedWindow(Anchor::Epoch);

/// How many of so many requests the store lets through.
fn admitted(fleet: &mut Fleet, limit: &Limit, revision: u64, requests: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..requests {
        fleet.ask(from_ref(limit), revision);
        while let Some(next) = fleet.call(limit.home) {
            admitted += fleet.run(&next).iter().filter(|fits| fits[0]).count();
        }
    }
    admitted
}

/// Uses a limit up, replaces it by another, and lets one request through without the store.
fn one_without_the_store(old: &Limit, new: &Limit) -> usize {
    let mut fleet = Fleet::new();
    assert_eq!(admitted(&mut fleet, old, 1, 15), 10);
    assert!(fleet.do_without(new, old, fleet.now, 2));
    // What was let through is the first that the store hears of the new counter.
    while let Some(next) = fleet.call(new.home) {
        fleet.run(&next);
    }
    admitted(&mut fleet, new, 2, 15)
}

#[test]
fn a_counter_that_is_first_heard_of_by_a_fallback_has_what_its_predecessor_left() {
    let used_up = Limit::new(1, WINDOW, 10, 10);
    for algorithm in [
        WINDOW,
        Algorithm::FixedWindow(Anchor::First),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::SlidingCounter,
        Algorithm::SlidingLog,
    ] {
        let next = Limit::new(2, algorithm, 10, 10);
        assert_eq!(one_without_the_store(&used_up, &next), 0, "{algorithm:?}");
        // In another slot nobody knows what was left: everything counts as used up.
        let elsewhere = Limit {
            home: 2 << 56,
            ..next
        };
        assert_eq!(
            one_without_the_store(&used_up, &elsewhere),
            0,
            "{algorithm:?} elsewhere"
        );
    }
}

#[test]
fn what_was_let_through_in_a_window_that_is_over_is_not_charged_to_the_next() {
    let mut fleet = Fleet::new();
    let (limit, other) = (Limit::new(1, WINDOW, 10, 10), Limit::new(2, WINDOW, 10, 10));
    for _ in 0..50 {
        assert!(fleet.do_without(&limit, &other, 0, 1));
    }
    fleet.now += SECOND;
    for _ in 0..3 {
        assert!(fleet.do_without(&limit, &other, 0, 1));
    }
    assert_eq!(admitted(&mut fleet, &limit, 1, 15), 7);
}

#[test]
fn what_a_call_carried_that_did_not_run_is_charged_by_the_next() {
    let (limit, other) = (Limit::new(1, WINDOW, 10, 10), Limit::new(2, WINDOW, 10, 10));
    for (reply, left) in [(Some(&Reply::NotRun), 6), (None, 10)] {
        let mut fleet = Fleet::new();
        for _ in 0..4 {
            assert!(fleet.do_without(&limit, &other, 0, 1));
        }
        let first = fleet.call(limit.home).unwrap();
        fleet.hear(&first, reply);
        assert_eq!(admitted(&mut fleet, &limit, 1, 15), left, "{reply:?}");
    }
}

#[test]
fn what_a_late_call_did_not_charge_is_charged_by_the_next() {
    let mut fleet = Fleet::new();
    let (limit, other) = (Limit::new(1, WINDOW, 10, 10), Limit::new(2, WINDOW, 10, 10));
    for _ in 0..4 {
        assert!(fleet.do_without(&limit, &other, 0, 1));
    }
    let late = fleet.call(limit.home).unwrap();
    fleet.now += SECOND / 2;
    assert!(fleet.run(&late).is_empty(), "the store runs it too late");
    assert_eq!(admitted(&mut fleet, &limit, 1, 15), 6);
}

#[test]
fn a_call_that_only_borrows_hears_what_was_charged_to_the_counter_before() {
    let mut fleet = Fleet::new();
    let old = Limit::new(1, WINDOW, 1_000, 1_000);
    let new = Limit {
        accuracy: 5_000,
        ..Limit::new(2, WINDOW, 1_000, 1_000)
    };
    let mut borrowed = 0;
    for _ in 0..400 {
        fleet.now += 200;
        fleet.ask_of(from_ref(&new), from_ref(&old), 2);
        while let Some(next) = fleet.call(new.home) {
            let call = &next.call;
            if call.needs.is_empty() && !call.wants.is_empty() {
                borrowed += 1;
                let subject = &call.subjects[call.wants[0].subject];
                assert_eq!(subject.formers.len(), 1, "{call:?}");
            }
            fleet.run(&next);
        }
    }
    assert!(borrowed > 0, "all was decided from what is held");
}
