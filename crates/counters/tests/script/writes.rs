//! What is written, how, and when nothing is.

use redis::Value;
use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{INSTALL, decode, install};
use tollgate_counters::shared::call::{Call, Kind, LeaseId, Reply, Return, Subject, Want};
use tollgate_counters::shared::slot::Slot;

use crate::servers::Server;
use crate::store::{SECOND, START, Store, YEAR, need, number, owner_of, subject};

const LEASE: LeaseId = LeaseId { node: 7, number: 1 };

fn every_kind() -> Vec<Subject> {
    vec![
        subject(1, Kind::Token, 10, 10, YEAR),
        subject(2, Kind::Leaky, 10, 10, YEAR),
        subject(3, Kind::Window, 10, 10, YEAR),
        subject(4, Kind::First, 10, 10, YEAR),
        subject(5, Kind::Quota, 10, 10, YEAR),
        subject(6, Kind::Sliding, 10, 10, YEAR),
        subject(7, Kind::Log, 10, 10, YEAR),
    ]
}

fn installed(server: &Server) -> Store {
    let mut store = Store::timed(server);
    let parts = install(&owner_of(1), &store.keys, [store.tag.slot()]);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 1);
    store
}

#[test]
fn what_is_denied_tried_late_or_foreign_writes_nothing() {
    let server = Server::start();
    let mut store = installed(&server);
    let all = every_kind();
    store.done(1, START, &need(&all, 8, Mode::Enforce, Commit::Charge));
    let written = server.info("rdb_changes_since_last_save");
    assert_ne!(written, "0");

    let mut same = |what: &str, call: &Call| {
        let reply = store.run(1, START + 1, call).unwrap();
        assert_eq!(server.info("rdb_changes_since_last_save"), written, "{what}");
        reply
    };
    let denied = same("denied", &need(&all, 3, Mode::Enforce, Commit::Charge));
    let Reply::Done(denied) = denied else {
        panic!("{denied:?}")
    };
    assert!(denied.verdicts[0].iter().all(|seen| !seen.fits));
    same("a dry run", &need(&all, 1, Mode::Enforce, Commit::DryRun));
    same("no cost", &need(&all, 0, Mode::Enforce, Commit::Charge));
    same("only watched", &need(&all, 3, Mode::Shadow, Commit::Charge));
    let late = Call {
        not_after: START,
        ..need(&all, 1, Mode::Enforce, Commit::Charge)
    };
    assert_eq!(same("late", &late), Reply::Late { now: START + 1 });
    let returns = (0..all.len()).map(|subject| Return {
        subject,
        lease: LEASE,
        unspent: 1,
        last_spent: START,
    });
    let foreign = Call {
        returns: returns.collect(),
        ..need(&all, 0, Mode::Enforce, Commit::Charge)
    };
    same("an unknown lease", &foreign);
    let wants = (0..all.len()).map(|subject| Want {
        subject,
        amount: 0,
        hold: 1_000,
        lease: LEASE,
        most: u64::from(u32::MAX),
        needed: false,
    });
    let nothing = Call {
        wants: wants.collect(),
        ..need(&all, 0, Mode::Enforce, Commit::Charge)
    };
    same("nothing wanted", &nothing);
}

/// Runs calls alike at some times, compares them with the slot's, and counts those that do not go the short way.
fn longer_ways(stack: &[Subject], cost: u64, times: impl IntoIterator<Item = u64>) -> usize {
    let server = Server::start();
    let mut store = installed(&server);
    let mut slot = Slot::installed(1);
    let call = need(stack, cost, Mode::Enforce, Commit::Charge);
    let stored = |bytes: &[u8]| bytes.len() == 16 + 64 * stack.len();
    let mut longer = 0;
    for after in times {
        let reply = store.ask(1, START + after, &call);
        let expected = slot.run(1, START + after, &call);
        assert_eq!(decode(&call, &reply), Ok(expected), "after {after}");
        if !matches!(&reply, Value::BulkString(bytes) if stored(bytes)) {
            longer += 1;
        }
    }
    longer
}

#[test]
fn a_usual_stack_goes_the_short_way_once_its_counters_are_known() {
    let stack = [
        subject(5, Kind::Quota, 1_000, 1_000, YEAR),
        subject(4, Kind::First, 1_000, 1_000, 60 * SECOND),
        subject(1, Kind::Token, 10, 50, SECOND),
        subject(2, Kind::Leaky, 10, 50, SECOND),
    ];
    let times = [0, 0, 0, SECOND, 2 * SECOND, 2 * SECOND + 1, 3 * SECOND];
    assert_eq!(longer_ways(&stack, 10, times), 1);
}

#[test]
fn the_short_way_keeps_a_bucket_for_as_long_as_it_matters() {
    // What is taken each minute is what comes back, so that it always owes some minutes.
    let bucket = [subject(1, Kind::Token, 600, 600, 3_600 * SECOND)];
    let times = (0..3).chain((1..180).map(|minute| minute * 60 * SECOND));
    let longer = longer_ways(&bucket, 10, times);
    assert!(
        (25..50).contains(&longer),
        "its expiry is moved ahead every five minutes: {longer}"
    );
}

#[test]
fn a_counter_expires_some_minutes_after_it_stopped_to_matter() {
    let server = Server::start();
    let mut store = Store::real(&server);
    let all = every_kind().into_iter().map(|mut subject| {
        subject.terms.window = 30 * SECOND;
        subject
    });
    let all: Vec<Subject> = all.collect();
    for _ in 0..3 {
        store.done(1, 0, &need(&all, 1, Mode::Soft, Commit::Charge));
    }
    let quota = store.keys.counter(&store.tag, all[4].name);
    for (key, left) in store.expiries() {
        let (least, most) = if key.ends_with("sentinel") {
            (399 * 86_400, 400 * 86_400)
        } else if key == quota {
            (86_400, i64::MAX)
        } else {
            (300, 700)
        };
        assert!((least..=most).contains(&(left / 1_000)), "{key}: {left} ms");
    }
}
