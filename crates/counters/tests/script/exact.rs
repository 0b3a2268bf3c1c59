//! Many at once, by the server's own clock: what is admitted is exactly what the limits allow.

use std::thread;

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::redis::{INSTALL, install};
use tollgate_counters::shared::call::{Call, Kind, Micros, Subject};
use tollgate_oracle::{self as oracle, Counters, Limit};

use crate::servers::Server;
use crate::store::{SECOND, Store, YEAR, need, number, owner_of, subject};

const CALLERS: usize = 6;
const CALLS: usize = 400;

/// What one call was told: when, and whether it was let through.
type Told = (Micros, bool);

fn ask(store: &mut Store, call: &Call) -> Told {
    let done = store.done(1, 0, call);
    (done.now, done.verdicts[0].iter().all(|seen| seen.fits))
}

/// Several callers at once.
fn hammer(server: &Server, stack: &[Subject]) -> Vec<Told> {
    let call = need(stack, 1, Mode::Enforce, Commit::Charge);
    thread::scope(|scope| {
        let caller = || {
            let mut store = Store::real(server);
            (0..CALLS).map(|_| ask(&mut store, &call)).collect::<Vec<_>>()
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        callers
            .into_iter()
            .flat_map(|caller| caller.join().unwrap())
            .collect()
    })
}

fn installed(server: &Server) -> Store {
    let mut store = Store::real(server);
    let parts = install(&owner_of(1), &store.keys, [store.tag.slot()]);
    assert_eq!(number(&mut store.connection, &INSTALL, &parts), 1);
    store
}

/// Counters of every kind with room for all, but for the first, which is given.
fn stack(first: Subject) -> Vec<Subject> {
    vec![
        first,
        subject(2, Kind::Quota, 1_000_000, 1_000_000, YEAR),
        subject(3, Kind::Sliding, 1_000_000, 1_000_000, YEAR),
        subject(4, Kind::Log, 100_000, 100_000, YEAR),
        subject(5, Kind::First, 1_000_000, 1_000_000, YEAR),
        subject(6, Kind::Token, 1, 1_000_000, YEAR),
        subject(7, Kind::Leaky, 1, 1_000_000, YEAR),
    ]
}

/// Every counter but the first has counted each request that was let through, once.
fn counted(store: &mut Store, stack: &[Subject], admitted: u64) {
    let look = need(stack, 0, Mode::Enforce, Commit::DryRun);
    let seen = &store.done(1, 0, &look).verdicts[0];
    let state = |place: usize| seen[place].state.0;
    let counts = [state(1)[1], state(2)[2], state(3)[0], state(4)[1]];
    assert_eq!(counts, [admitted; 4]);
    // A part of a token may have come back.
    for bucket in [state(5), state(6)] {
        assert_eq!(bucket[1] + u64::from(bucket[2] > 0), admitted);
    }
}

#[test]
fn a_window_admits_its_limit() {
    for kind in [Kind::Window, Kind::First, Kind::Quota, Kind::Sliding, Kind::Log] {
        let server = Server::start();
        let mut store = installed(&server);
        let stack = stack(subject(1, kind, 700, 700, YEAR));
        let told = hammer(&server, &stack);
        let admitted = told.iter().filter(|(_, let_through)| *let_through).count();
        assert_eq!(admitted, 700, "{kind:?}");
        counted(&mut store, &stack, 700);
    }
}

#[test]
fn a_bucket_admits_what_it_would_have_admitted_to_one_after_the_other() {
    for kind in [oracle::Kind::TokenBucket, oracle::Kind::LeakyBucket] {
        let server = Server::start();
        let mut store = installed(&server);
        let limit = Limit {
            kind,
            limit: 500,
            burst: Some(60),
            window_ns: SECOND * 1_000,
        };
        let of = match kind {
            oracle::Kind::TokenBucket => Kind::Token,
            _ => Kind::Leaky,
        };
        let stack = stack(subject(1, of, 500, 60, SECOND));
        let mut told = hammer(&server, &stack);
        // Of two in one instant the one with room came first.
        told.sort_unstable_by_key(|(now, let_through)| (*now, !let_through));
        let mut counters = Counters::default();
        let level = oracle::Level::new(limit, oracle::Mode::Enforce, 1, 0);
        let mut admitted = 0;
        for (now, let_through) in told {
            let verdict = counters.decide(&[level.guessing(2_000_000)], now * 1_000);
            assert_eq!(let_through, verdict.allowed, "{kind:?} at {now}");
            admitted += u64::from(let_through);
        }
        assert!(admitted > 60);
        counted(&mut store, &stack, admitted);
    }
}
