//! A log at its largest: the cost of a need does not grow with it, and it stops to grow.

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{INSTALL, decode, install};
use tollgate_counters::shared::call::{Kind, Reply};
use tollgate_counters::shared::slot::Slot;

use crate::servers::Server;
use crate::store::{SECOND, START, Store, YEAR, need, number, owner_of, subject};

const LIMIT: u64 = 100_000;
/// Entries past the limit, by a soft one.
const MORE: u64 = 50;

/// How many commands the server has run for scripts and others, but for this question.
fn commands(server: &Server) -> u64 {
    server.info("total_commands_processed").parse().unwrap()
}

#[test]
fn a_large_log_costs_what_a_small_one_does() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let parts = install(&owner_of(1), &store.keys, [store.tag.slot()]);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 1);
    let log = subject(1, Kind::Log, LIMIT, LIMIT, YEAR);
    let soft = need(std::slice::from_ref(&log), 1, Mode::Soft, Commit::Charge);
    let mut at = START;
    let mut used = 0;
    while used < LIMIT + MORE {
        let mut pipe = redis::pipe();
        for _ in 0..1_000.min(LIMIT + MORE - used) {
            at += 1;
            used += 1;
            pipe.add_command(store.command(1, at, &soft));
        }
        let replies: Vec<redis::Value> = pipe.query(&mut store.connection).unwrap();
        let last = decode(&soft, replies.last().unwrap()).unwrap();
        let Reply::Done(done) = last else {
            panic!("{last:?}")
        };
        let leaver = START + used.saturating_sub(LIMIT).max(1);
        assert_eq!(done.verdicts[0][0].state.0, [used, at, leaver + YEAR]);
    }
    let entries = store.keys.entries(&store.tag, log.name);
    let length: u64 = redis::cmd("LLEN")
        .arg(entries)
        .query(&mut store.connection)
        .unwrap();
    assert_eq!(length, LIMIT, "what comes on top makes the newest entry larger");

    // The server counts the script, too, and the question.
    let cost = |store: &mut Store, at: u64, units: u64, state: [u64; 3], most: u64| {
        let before = commands(&server);
        let call = need(std::slice::from_ref(&log), units, Mode::Enforce, Commit::Charge);
        let seen = store.done(1, at, &call).verdicts[0][0];
        assert_eq!(seen.state.0, state);
        let ran = commands(&server) - before - 2;
        assert!(ran <= most, "{ran} commands for {units} units");
        seen.fits
    };
    let half = LIMIT / 2;
    let room_at = START + MORE + half + YEAR;
    assert!(
        !cost(&mut store, at, half, [used, at, room_at], 40),
        "a search by halving"
    );

    // Half of it has left.
    let later = START + half + YEAR;
    let left = used - half;
    assert!(!cost(&mut store, later, LIMIT, [left, at, at + YEAR], 80));
    assert!(cost(&mut store, later, 1, [left + 1, later, later + 1], 40));
    assert!(cost(
        &mut store,
        later + 1,
        1,
        [left + 1, later + 1, later + 2],
        40
    ));
}

#[test]
fn totals_that_grow_out_of_the_numbers_begin_anew() {
    let server = Server::start();
    let mut store = Store::timed(&server);
    let mut slot = Slot::default();
    let most = 999_999_999_999_999;
    let log = [subject(1, Kind::Log, most, most, 10 * SECOND)];
    // It holds three or four of them, never none.
    for round in 0..40 {
        for mode in [Mode::Enforce, Mode::Soft] {
            let call = need(&log, most - round, mode, Commit::Charge);
            let time = START + round * 3 * SECOND;
            let expected = slot.run(1, time, &call);
            assert_eq!(store.run(1, time, &call), Ok(expected), "round {round}");
        }
    }
}
