//! Counters that replace others, and what fallbacks let through: of one in another slot nothing is known, so that its successor
//! begins as used up when it was left.

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{Call, Kind, Micros, Settlement, Subject};

use crate::servers::Server;
use crate::store::{SECOND, START, Store, need, owner_of, subject};

const LIMIT: u64 = 10;
const HOUR: Micros = 3_600 * SECOND;

/// A slot that never lost anything.
fn installed(server: &Server) -> Store {
    let mut store = Store::timed(server);
    store.flush();
    let sentinel = [&[0; 16], owner_of(1).as_str().as_bytes()].concat();
    redis::cmd("SETEX")
        .arg(store.keys.sentinel(store.tag.slot()))
        .arg(1_000)
        .arg(sentinel)
        .exec(&mut store.connection)
        .unwrap();
    store
}

/// A limit of ten a second that replaces one that was left at an instant.
fn replacing(kind: Kind, left: Micros) -> Subject {
    Subject {
        left,
        ..subject(1, kind, LIMIT, LIMIT, SECOND)
    }
}

/// How many of many requests are let through at an instant.
fn admitted(store: &mut Store, subject: &Subject, at: Micros) -> usize {
    let call = need(std::slice::from_ref(subject), 1, Mode::Enforce, Commit::Charge);
    let asked = (0..2 * LIMIT).map(|_| store.done(1, at, &call).verdicts[0][0].fits);
    asked.filter(|fits| *fits).count()
}

#[test]
fn a_counter_begins_as_used_up_when_one_elsewhere_was_left() {
    let server = Server::start();
    // When it was left, how much fits half a second later, and when all of it does.
    for (kind, half, all) in [
        // Half of a bucket is held back for a second, as after a loss.
        (Kind::Token, 5, SECOND + SECOND / 2),
        (Kind::Leaky, 5, SECOND + SECOND / 2),
        (Kind::Window, 0, SECOND),
        (Kind::First, 0, SECOND),
        (Kind::Sliding, 0, 2 * SECOND),
        (Kind::Log, 0, 2 * SECOND),
    ] {
        let replaces = replacing(kind, START);
        let mut store = installed(&server);
        assert_eq!(admitted(&mut store, &replaces, START), 0, "{kind:?}");
        assert_eq!(
            admitted(&mut store, &replaces, START + SECOND / 2),
            half,
            "{kind:?}"
        );
        let mut store = installed(&server);
        assert_eq!(admitted(&mut store, &replaces, START + all), 10, "{kind:?}");
        let mut store = installed(&server);
        assert_eq!(
            admitted(&mut store, &replacing(kind, 0), START),
            10,
            "{kind:?}, for the first time"
        );
    }
}

#[test]
fn a_counter_that_expired_does_not_begin_as_used_up_again() {
    let server = Server::start();
    let mut store = installed(&server);
    let replaces = replacing(Kind::Token, START);
    assert_eq!(admitted(&mut store, &replaces, START), 0);
    assert_eq!(admitted(&mut store, &replaces, START + HOUR), 10);
}

#[test]
fn a_clock_that_is_ahead_of_the_stores_uses_a_counter_up_once() {
    let server = Server::start();
    let mut store = installed(&server);
    let replaces = replacing(Kind::Token, START + HOUR);
    assert_eq!(admitted(&mut store, &replaces, START), 0);
    assert_eq!(admitted(&mut store, &replaces, START + SECOND / 2), 5);
}

#[test]
fn what_a_fallback_let_through_of_the_one_before_is_charged_first() {
    let server = Server::start();
    for kind in [
        Kind::Token,
        Kind::Leaky,
        Kind::Window,
        Kind::First,
        Kind::Sliding,
        Kind::Log,
    ] {
        let before = subject(1, Kind::Window, LIMIT, LIMIT, HOUR);
        let after = Subject {
            formers: vec![1],
            ..subject(2, kind, LIMIT, LIMIT, HOUR)
        };
        let mut store = installed(&server);
        // The store has heard of neither.
        let mut call = need(&[after.clone(), before], 1, Mode::Enforce, Commit::Charge);
        call.needs[0].parts.truncate(1);
        call.settlements = vec![Settlement {
            subject: 1,
            owed: 7,
            drained: 0,
            since: START,
            age: 0,
            nodes: 1,
        }];
        assert!(store.done(1, START, &call).verdicts[0][0].fits, "{kind:?}");
        let alone = Subject {
            formers: Vec::new(),
            ..after
        };
        assert_eq!(admitted(&mut store, &alone, START), 2, "{kind:?}");
    }
}

#[test]
fn what_a_fallback_let_through_of_a_replaced_counter_is_charged_to_its_successor() {
    let server = Server::start();
    let kinds = [
        Kind::Token,
        Kind::Leaky,
        Kind::Window,
        Kind::First,
        Kind::Sliding,
        Kind::Log,
    ];
    for (old, new) in kinds.iter().flat_map(|old| kinds.map(|new| (*old, new))) {
        let before = subject(1, old, LIMIT, LIMIT, HOUR);
        let after = Subject {
            formers: vec![1],
            ..subject(2, new, LIMIT, LIMIT, HOUR)
        };
        let mut ask = need(&[after.clone(), before.clone()], 1, Mode::Enforce, Commit::Charge);
        ask.needs[0].parts.truncate(1);
        let mut report = Call {
            not_after: Micros::MAX,
            subjects: vec![before],
            settlements: vec![Settlement {
                subject: 0,
                owed: 3,
                drained: 0,
                since: 0,
                age: 0,
                nodes: 1,
            }],
            ..Call::default()
        };
        let mut store = installed(&server);
        // The new counter is in use when two nodes report to the old one, one after the other.
        assert!(store.done(1, START, &ask).verdicts[0][0].fits, "{old:?} {new:?}");
        store.done(1, START, &report);
        assert!(store.done(1, START, &ask).verdicts[0][0].fits, "{old:?} {new:?}");
        report.settlements[0].owed = 2;
        store.done(1, START, &report);
        let asked = (0..LIMIT).map(|_| store.done(1, START, &ask).verdicts[0][0].fits);
        assert_eq!(asked.filter(|fits| *fits).count(), 3, "{old:?} {new:?}");
    }
}

/// What nodes let through of a bucket of ten a second that was asked for last at `START`, with so much owed then.
fn settled(store: &mut Store, owed: u64, let_through: &[Settlement], at: Micros) -> u64 {
    let bucket = subject(1, Kind::Token, LIMIT, 10 * LIMIT, SECOND);
    let first = need(std::slice::from_ref(&bucket), owed, Mode::Enforce, Commit::Charge);
    store.done(1, START, &first);
    for (settlement, later) in let_through.iter().zip(0..) {
        let mut call = need(std::slice::from_ref(&bucket), 0, Mode::Enforce, Commit::Charge);
        call.settlements = vec![*settlement];
        store.done(1, at + later, &call);
    }
    let look = need(std::slice::from_ref(&bucket), 0, Mode::Enforce, Commit::DryRun);
    let [_, tokens, parts] = store.done(1, at, &look).verdicts[0][0].state.0;
    tokens + u64::from(parts > 0)
}

#[test]
fn what_has_drained_on_nodes_is_owed_only_as_far_as_the_bucket_had_no_time_for_it() {
    let server = Server::start();
    let (since, age) = (START + SECOND / 10, 39 * SECOND / 10);
    let let_through = |owed: u64, drained: u64| Settlement {
        subject: 0,
        owed,
        drained,
        since,
        age,
        nodes: 2,
    };
    let at = START + 4 * SECOND;
    // In four seconds forty drain. Of a bucket that was empty all of it was idle, less a part of a token.
    let mut store = installed(&server);
    assert_eq!(settled(&mut store, 1, &[let_through(3, 19)], at), 3);
    // Two nodes each have a half of the time.
    let mut store = installed(&server);
    assert_eq!(
        settled(&mut store, 1, &[let_through(3, 19), let_through(2, 19)], at),
        6
    );
    // One that owed thirty had time for nine more.
    let mut store = installed(&server);
    assert_eq!(settled(&mut store, 30, &[let_through(3, 19)], at), 3 + 19 - 9);
    // A clock that was set back says nothing of when it was.
    let mut store = installed(&server);
    let younger = Settlement {
        age: age + 1,
        ..let_through(3, 19)
    };
    assert_eq!(settled(&mut store, 1, &[younger], at), 22);
    // What a node let through before anybody else asked last may have drained then.
    let mut store = installed(&server);
    let earlier = Settlement {
        since: START - SECOND,
        age: 5 * SECOND,
        ..let_through(3, 24)
    };
    assert_eq!(settled(&mut store, 1, &[earlier], at), 3 + 5);
}
