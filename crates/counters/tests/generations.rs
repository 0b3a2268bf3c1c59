//! A slot that has lost something knows, or is told.
#![allow(missing_docs)]

use tollgate_counters::shared::call::{Call, Done, Micros, Reply};
use tollgate_counters::shared::slot::{Bug, NOTED_EVERY, Slot};

const START: Micros = 1_700_000_000_000_000;
const OWNER: u64 = 7;

/// Runs a call of somebody who has heard from the slot before.
fn run(slot: &mut Slot, at: Micros, heard: [Micros; 2]) -> Done {
    let call = Call {
        not_after: Micros::MAX,
        heard,
        ..Call::default()
    };
    match slot.run(OWNER, START + at, &call) {
        Reply::Done(done) => done,
        reply => panic!("{reply:?}"),
    }
}

/// What a caller hears who heard from a slot that then went back by so much.
fn heard_after_going_back(by: Micros, bug: Option<Bug>) -> Micros {
    let mut slot = Slot::installed(OWNER);
    slot.bug = bug;
    run(&mut slot, 0, [0; 2]);
    let mut older = slot.clone();
    let last = run(&mut slot, by, [0; 2]);
    run(&mut older, by + 1, [last.began, last.now]).began
}

#[test]
fn a_slot_that_went_back_begins_anew_at_the_first_call() {
    assert_eq!(heard_after_going_back(NOTED_EVERY, None), START + NOTED_EVERY + 1);
    assert_eq!(
        heard_after_going_back(NOTED_EVERY - 1, None),
        0,
        "so little can't be told"
    );
    assert_eq!(
        heard_after_going_back(NOTED_EVERY, Some(Bug::GoneBackUnnoticed)),
        0
    );
}

#[test]
fn a_slot_that_went_back_to_before_it_last_began_begins_anew() {
    let mut slot = Slot::installed(OWNER);
    run(&mut slot, 0, [0; 2]);
    let older = slot.clone();
    slot.flush();
    let last = run(&mut slot, 1, [0; 2]);
    assert_eq!(last.began, START + 1);
    // What it knows is of another generation than what was heard, and must not be taken for a later one.
    let mut back = older.clone();
    assert_eq!(run(&mut back, 2, [last.began, last.now]).began, START + 2);
    let mut unnoticed = older;
    unnoticed.bug = Some(Bug::GoneBackUnnoticed);
    assert_eq!(run(&mut unnoticed, 2, [last.began, last.now]).began, 0);
}

#[test]
fn a_slot_that_was_heard_of_just_now_has_lost_nothing() {
    let mut slot = Slot::installed(OWNER);
    let mut heard = [0; 2];
    for at in 0..1_000 {
        let Done { now, began, .. } = run(&mut slot, at * 1_237, heard);
        assert_eq!(began, 0);
        heard = [began, now];
    }
    // A clock that is set back by little stands still.
    assert_eq!(run(&mut slot, 0, heard).began, 0);
}

#[test]
fn what_was_heard_before_it_began_anew_counts_no_longer() {
    let mut slot = Slot::installed(OWNER);
    let before = run(&mut slot, 60_000_000, [0; 2]);
    // The clock is set far back.
    let after = run(&mut slot, 0, [before.began, before.now]);
    assert_eq!(after.began, START);
    let other = run(&mut slot, 1, [before.began, before.now]);
    assert_eq!(
        other.began, START,
        "whoever has not heard of that yet does not begin another"
    );
}
