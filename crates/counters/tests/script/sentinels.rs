//! Who keeps a slot, and since when: first use, planned moves, losses.

use redis::Connection;
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{ADOPT, INSTALL, adopt, install};
use tollgate_counters::shared::call::{Call, Kind};

use crate::servers::Server;
use crate::store::{SECOND, START, Store, YEAR, need, number, owner_of, subject};

fn one(cost: u64) -> Call {
    let counter = subject(1, Kind::First, 10, 10, YEAR);
    need(&[counter], cost, Mode::Enforce, Commit::Charge)
}

fn fits(store: &mut Store, owner: u64, after: u64) -> (u64, bool) {
    let done = store.done(owner, START + after, &one(1));
    (done.began, done.verdicts[0][0].fits)
}

#[test]
fn a_slot_that_is_installed_has_lost_nothing() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let slot = store.tag.slot();
    let slots = [slot, slot ^ 1, slot ^ 2];
    let parts = install(&owner_of(1), &store.keys, slots);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 3);
    assert_eq!(fits(&mut store, 1, 0), (0, true));

    // What was installed, or has begun, stays.
    let parts = install(&owner_of(2), &store.keys, slots);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 0);
    assert_eq!(fits(&mut store, 1, 0), (0, true));
    expire(&mut store);
}

#[test]
fn a_slot_that_is_not_has_lost_everything() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    assert_eq!(fits(&mut store, 1, 0), (START, false));
    let parts = install(&owner_of(1), &store.keys, [store.tag.slot()]);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 0);
    assert_eq!(fits(&mut store, 1, 0), (START, false));
    assert_eq!(fits(&mut store, 1, YEAR), (START, true));

    store.flush();
    assert_eq!(fits(&mut store, 1, YEAR + 5), (START + YEAR + 5, false));
    expire(&mut store);
}

#[test]
fn a_planned_move_keeps_the_generation_and_any_other_begins_a_new_one() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let slot = store.tag.slot();
    let parts = install(&owner_of(1), &store.keys, [slot]);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 1);
    let room = |store: &mut Store, owner: u64, after: u64| {
        let done = store.done(owner, START + after, &one(1));
        (done.began, done.verdicts[0][0].state.0[1])
    };
    assert_eq!(room(&mut store, 1, SECOND), (0, 1));

    let hand = |connection: &mut Connection, keys, from: u64, to: u64| {
        number(
            connection,
            &ADOPT,
            &adopt(&owner_of(from), &owner_of(to), keys, [slot, slot ^ 1]),
        )
    };
    let keys = store.keys.clone();
    assert_eq!(
        hand(&mut store.connection, &keys, 3, 2),
        0,
        "it is not the third's"
    );
    assert_eq!(hand(&mut store.connection, &keys, 1, 2), 1);
    assert_eq!(room(&mut store, 2, SECOND), (0, 2));
    assert_eq!(
        room(&mut store, 2, 0),
        (0, 3),
        "the time that was noted came along"
    );

    let began = START + SECOND;
    assert_eq!(
        room(&mut store, 1, 0),
        (began, 10),
        "back at the first without a plan"
    );
    assert_eq!(
        room(&mut store, 2, 0).0,
        began + 1,
        "two in one instant are told apart"
    );
    expire(&mut store);
}

fn expire(store: &mut Store) {
    for (key, left) in store.expiries() {
        assert!(left > 0, "{key} does not expire");
        let days = left / 86_400_000;
        assert!(
            days >= 399 || !key.ends_with("sentinel"),
            "{key} expires after {days} days"
        );
    }
}
