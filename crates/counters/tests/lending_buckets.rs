//! A bucket admits no more than its burst at an instant, whenever what it has lent is spent.
#![allow(missing_docs)]

use tollgate_core::Mode;
use tollgate_counters::Commit;
use tollgate_counters::shared::call::{
    Call, Done, Kind, LeaseId, Micros, Name, Need, Part, Reply, Return, Subject, Terms, Want,
};
use tollgate_counters::shared::slot::{Bug, Slot};

const START: Micros = 1_700_000_000_000_000;
const MILLI: Micros = 1_000;
const OWNER: u64 = 7;
const NAMES: [Name; 2] = [Name([1; 16]), Name([2; 16])];

/// A hundred at once, and a hundred in 50 ms.
const BUCKET: Terms = Terms {
    kind: Kind::Token,
    limit: 100,
    capacity: 100,
    window: 50 * MILLI,
    revision: 1,
    period: [0; 3],
};

struct Store {
    slot: Slot,
    lent: u64,
}

impl Store {
    fn new(bug: Option<Bug>) -> Self {
        let mut slot = Slot::installed(OWNER);
        slot.bug = bug;
        Self { slot, lent: 0 }
    }

    fn run(&mut self, at: Micros, call: Call) -> Done {
        let call = Call {
            not_after: Micros::MAX,
            ..call
        };
        match self.slot.run(OWNER, START + at, &call) {
            Reply::Done(done) => done,
            reply => panic!("{reply:?}"),
        }
    }

    fn lend(&mut self, at: Micros, amount: u64, needed: bool) -> (LeaseId, u64) {
        self.lent += 1;
        let lease = LeaseId {
            node: 1,
            number: self.lent,
        };
        let want = Want {
            subject: 0,
            amount,
            hold: 1000 * MILLI,
            lease,
            most: u64::from(u32::MAX),
            needed,
        };
        let call = Call {
            subjects: vec![subject(0, BUCKET)],
            wants: vec![want],
            ..Call::default()
        };
        (lease, self.run(at, call).grants[0].amount)
    }

    fn give_back(&mut self, at: Micros, lease: LeaseId, unspent: u64) {
        let back = Return {
            subject: 0,
            lease,
            unspent,
            last_spent: START + at,
        };
        let call = Call {
            subjects: vec![subject(0, BUCKET)],
            returns: vec![back],
            ..Call::default()
        };
        self.run(at, call);
    }

    /// Charges what was let through without the store, whether there is room for it or not.
    fn settle(&mut self, at: Micros, cost: u64) {
        let part = Part {
            subject: 0,
            limit: BUCKET.limit,
            capacity: BUCKET.capacity,
            cost,
            mode: Mode::Soft,
        };
        let need = Need {
            commit: Commit::Charge,
            parts: vec![part],
        };
        let call = Call {
            subjects: alone(),
            needs: vec![need],
            ..Call::default()
        };
        self.run(at, call);
    }

    /// How many of a thousand requests go through at an instant, by a counter that may replace another.
    fn admits(&mut self, at: Micros, subjects: Vec<Subject>) -> usize {
        let Terms { limit, capacity, .. } = subjects[0].terms;
        let part = Part {
            subject: 0,
            limit,
            capacity,
            cost: 1,
            mode: Mode::Enforce,
        };
        let need = Need {
            commit: Commit::Charge,
            parts: vec![part],
        };
        let call = Call {
            subjects,
            needs: vec![need; 1000],
            ..Call::default()
        };
        let done = self.run(at, call);
        done.verdicts.iter().filter(|seen| seen[0].fits).count()
    }
}

fn subject(name: usize, terms: Terms) -> Subject {
    Subject {
        name: NAMES[name],
        terms,
        formers: Vec::new(),
        left: 0,
    }
}

fn alone() -> Vec<Subject> {
    vec![subject(0, BUCKET)]
}

#[test]
fn a_bucket_keeps_room_for_what_is_out() {
    let admits_after = |bug, at| {
        let mut store = Store::new(bug);
        assert_eq!(store.lend(0, 30, false).1, 30);
        store.admits(at, alone())
    };
    assert_eq!(
        admits_after(None, 999 * MILLI),
        70,
        "the lease may be spent just now"
    );
    assert_eq!(admits_after(Some(Bug::LeasesDrain), 999 * MILLI), 100);
    // When it ends it may just have been spent: what it took drains from then on.
    assert_eq!(admits_after(None, 1000 * MILLI), 70);
    assert_eq!(admits_after(None, 1005 * MILLI), 80);
    assert_eq!(admits_after(None, 1050 * MILLI), 100);
}

#[test]
fn half_of_a_bucket_may_be_out() {
    let mut store = Store::new(None);
    let (first, amount) = store.lend(0, 80, false);
    assert_eq!(amount, 50);
    assert_eq!(store.lend(0, 80, false).1, 0);
    store.give_back(100 * MILLI, first, 0);
    assert_eq!(
        store.lend(100 * MILLI, 80, false).1,
        50,
        "what was spent makes place"
    );
}

#[test]
fn what_is_not_spent_comes_back_whole() {
    let mut store = Store::new(None);
    let (lease, _) = store.lend(0, 30, false);
    assert_eq!(store.admits(10 * MILLI, alone()), 70);
    store.give_back(10 * MILLI, lease, 20);
    assert_eq!(store.admits(10 * MILLI, alone()), 20);
    store.give_back(10 * MILLI, lease, 20);
    assert_eq!(store.admits(10 * MILLI, alone()), 0, "once");
}

#[test]
fn a_return_that_was_not_lent_gives_nothing() {
    let comes_back = |bug| {
        let mut store = Store::new(bug);
        let (lease, _) = store.lend(0, 30, false);
        assert_eq!(store.admits(0, alone()), 70);
        store.give_back(0, LeaseId { node: 2, ..lease }, 20);
        store.admits(0, alone())
    };
    assert_eq!(comes_back(None), 0);
    assert_eq!(comes_back(Some(Bug::AnyLeaseReturns)), 20);
}

#[test]
fn what_somebody_waited_for_drains_and_only_the_rest_comes_back() {
    let mut store = Store::new(None);
    let (lease, amount) = store.lend(0, 100, true);
    assert_eq!(amount, 100, "it may be the last of the bucket");
    assert_eq!(store.admits(20 * MILLI, alone()), 40);
    store.give_back(20 * MILLI, lease, 100);
    assert_eq!(
        store.admits(20 * MILLI, alone()),
        60,
        "40 had drained, and were used by others"
    );
}

#[test]
fn a_faster_or_larger_bucket_keeps_room_for_what_is_out() {
    let mut store = Store::new(None);
    assert_eq!(store.lend(0, 30, false).1, 30);
    assert_eq!(store.admits(0, alone()), 70);
    let faster = Terms {
        limit: 1_000_000,
        revision: 2,
        ..BUCKET
    };
    assert_eq!(
        store.admits(0, vec![subject(0, faster)]),
        0,
        "it refilled slowly until now"
    );
    assert_eq!(store.admits(10 * MILLI, vec![subject(0, faster)]), 70);
    let larger = Terms {
        capacity: 200,
        revision: 3,
        ..faster
    };
    assert_eq!(store.admits(20 * MILLI, vec![subject(0, larger)]), 170);
}

#[test]
fn a_change_of_numbers_forgets_no_lease() {
    let admits_after = |bug| {
        let mut store = Store::new(bug);
        store.lend(0, 30, false);
        let smaller = Terms {
            capacity: 50,
            revision: 2,
            ..BUCKET
        };
        assert_eq!(store.admits(0, vec![subject(0, smaller)]), 20);
        store.admits(900 * MILLI, vec![subject(0, smaller)])
    };
    assert_eq!(admits_after(None), 20);
    assert_eq!(admits_after(Some(Bug::ChangeForgetsLeases)), 50);
}

#[test]
fn a_bucket_that_lost_its_past_keeps_room_for_what_may_be_out() {
    let admits_after = |bug| {
        let mut store = Store::new(bug);
        store.lend(0, 50, false);
        store.slot.flush();
        assert_eq!(store.admits(MILLI, alone()), 0, "all counts as used");
        store.admits(900 * MILLI, alone())
    };
    assert_eq!(admits_after(None), 50);
    assert_eq!(admits_after(Some(Bug::BucketColdWithoutLeases)), 100);
}

#[test]
fn a_bucket_keeps_room_for_what_the_one_has_out_that_it_replaces() {
    let mut store = Store::new(None);
    assert_eq!(store.lend(0, 30, false).1, 30);
    let mut next = subject(
        1,
        Terms {
            window: 20 * MILLI,
            ..BUCKET
        },
    );
    next.formers.push(1);
    let both = vec![next, subject(0, BUCKET)];
    assert_eq!(store.admits(0, both.clone()), 70);
    assert_eq!(store.admits(900 * MILLI, both.clone()), 70);
    assert_eq!(store.admits(1500 * MILLI, both), 100);
}

#[test]
fn a_debt_that_was_cut_to_the_burst_is_not_credited_when_somebody_gives_back() {
    let admits_after = |bug| {
        let mut store = Store::new(bug);
        let (lease, _) = store.lend(0, 40, true);
        // More than fits: the bucket is as if it had just been emptied, with what is waited with or without.
        store.settle(0, 120);
        assert_eq!(store.admits(0, alone()), 0);
        // Three quarters of it were spent.
        store.give_back(0, lease, 10);
        store.admits(0, alone())
    };
    assert_eq!(admits_after(None), 0);
    assert_eq!(admits_after(Some(Bug::CutIsCredited)), 10);
}

#[test]
fn a_lease_that_cannot_come_back_holds_the_bucket_down_until_it_ends_and_no_longer() {
    let mut store = Store::new(None);
    // Of one node four can come back, the next takes the place of the oldest.
    for lease in 0..6 {
        store.lend(lease * 100 * MILLI, 5, false);
    }
    // A request that waits takes the place of none of these.
    assert_eq!(store.admits(990 * MILLI, alone()), 70);
    store.run(
        1040 * MILLI,
        Call {
            subjects: alone(),
            ..Call::default()
        },
    );
    assert_eq!(store.admits(1090 * MILLI, alone()), 75, "the first has ended");
}

#[test]
fn what_requests_wait_with_takes_the_place_of_no_lease() {
    let mut store = Store::new(None);
    let (lease, _) = store.lend(0, 30, false);
    for _ in 0..8 {
        store.lend(0, 1, true);
    }
    store.give_back(0, lease, 30);
    assert_eq!(store.admits(0, alone()), 92);
}

#[test]
fn a_bucket_has_no_part_of_a_token_more_than_the_one_it_replaces() {
    let mut store = Store::new(None);
    store.admits(0, alone());
    // Half of a token has come back beside the 20 that are there.
    let mut next = subject(
        1,
        Terms {
            limit: 1,
            capacity: 20,
            window: 1000 * MILLI,
            ..BUCKET
        },
    );
    next.formers.push(1);
    next.left = START - 19_500 * MILLI;
    let both = vec![next, subject(0, BUCKET)];
    // The one it replaces has 19 left at 9.5 ms; by itself it would have 19.5.
    assert_eq!(store.admits(9_500, both.clone()), 19);
    assert_eq!(
        store.admits(600 * MILLI, both),
        0,
        "0.59 of a token has come back"
    );
}
