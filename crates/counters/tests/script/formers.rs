//! Counters that replace one of another slot, which nothing is known of: they begin as used up when that was left.

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{Kind, Micros, Subject};

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
