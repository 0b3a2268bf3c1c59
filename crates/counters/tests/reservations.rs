//! Charges that are given back, in part or whole, beside the oracle: whatever is reserved, settled, left to expire or refunded in
//! whatever order, each decision is the one of a world in which every charge had been what it turned out to be.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::SEED;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use tollgate_core::{
    Algorithm, Anchor, Calendar, CounterKey, Decision, Level, Mode, Period, Rule, Timestamp,
};
use tollgate_counters::{Commit, Holds, MemoryStore};
use tollgate_oracle::{self as oracle, Counter, Kind, Limit};

const START: u64 = 1_700_000_000_000_000_000;

/// Something that happens, so long after what happened before it.
#[derive(Debug, Clone)]
struct Step {
    after_ns: u64,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// A check of some limits, which may be given back or not.
    Charge {
        places: Vec<usize>,
        cost: u64,
        held: bool,
    },
    /// One that is open is settled by this part of its cost in sixteenths. 0 is a refund, 16 an end without a word.
    Settle { which: usize, part: u64 },
    /// The store is swept.
    Sweep,
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let limit = (
        prop::sample::select(&Kind::ALL[..]),
        1..30_u64,
        prop::option::of(1..40_u64),
        prop_oneof![Just(1_000_000_000_u64), 1_000..5_000_000_000_u64],
    )
        .prop_map(|(kind, limit, burst, window_ns)| Limit {
            kind,
            limit,
            burst: burst.filter(|_| kind.is_bucket()),
            window_ns,
        });
    prop::collection::vec(limit, 3)
}

fn step() -> impl Strategy<Value = Step> {
    let places = prop::sample::subsequence(vec![0, 1, 2], 1..=3);
    let what = prop_oneof![
        4 => (places, 1..20_u64, prop::bool::weighted(0.7))
            .prop_map(|(places, cost, held)| What::Charge { places, cost, held }),
        3 => (0..8_usize, 0..=16_u64).prop_map(|(which, part)| What::Settle { which, part }),
        1 => Just(What::Sweep),
    ];
    let after_ns = prop_oneof![
        3 => Just(0),
        3 => 1..400_000_000_u64,
        2 => 0..3_000_000_000_u64,
        1 => Just(86_400_000_000_000),
    ];
    (after_ns, what).prop_map(|(after_ns, what)| Step { after_ns, what })
}

/// A charge as the oracle is told it: when, of which limits, how much, and how much of that was never used.
struct Charge {
    at: u128,
    places: Vec<usize>,
    cost: u64,
    back: u64,
}

/// What the counters would be had each charge been what is known of it now.
fn replay(limits: &[Limit], charges: &[Charge]) -> Vec<Counter> {
    let mut counters: Vec<Counter> = limits.iter().map(|limit| Counter::new(limit.kind)).collect();
    for charge in charges {
        for place in &charge.places {
            counters[*place].take(&known(limits[*place], charge.cost), charge.at);
            counters[*place].take_less(charge.back);
        }
    }
    counters
}

fn known(limit: Limit, cost: u64) -> oracle::Level {
    oracle::Level::new(limit, oracle::Mode::Enforce, cost, 0)
}

fn rule(limit: &Limit) -> Rule {
    let algorithm = match limit.kind {
        Kind::TokenBucket => Algorithm::TokenBucket,
        Kind::LeakyBucket => Algorithm::LeakyBucket,
        Kind::FixedWindowEpoch => Algorithm::FixedWindow(Anchor::Epoch),
        Kind::FixedWindowFirst => Algorithm::FixedWindow(Anchor::First),
        Kind::SlidingLog => Algorithm::SlidingLog,
        Kind::SlidingCounter => Algorithm::SlidingCounter,
        Kind::QuotaDay => Algorithm::Quota(Period::Day),
        Kind::QuotaWeek => Algorithm::Quota(Period::Week),
        Kind::QuotaMonth => Algorithm::Quota(Period::Month),
    };
    Rule::new(algorithm, limit.limit, limit.burst, limit.window_ns)
}

fn level(rule: &Rule, place: usize, cost: u64) -> Level<'_> {
    let org = SEED.id(b"acme");
    Level {
        rule,
        calendar: Calendar::utc(),
        mode: Mode::Enforce,
        cost,
        key: CounterKey::new(SEED.id(&[u8::try_from(place).unwrap()])).and(org),
        home: org.short(),
    }
}

fn run(limits: &[Limit], steps: &[Step]) {
    let rules: Vec<Rule> = limits.iter().map(rule).collect();
    let store = MemoryStore::new(1_000);
    let mut charges: Vec<Charge> = Vec::new();
    let mut open: Vec<(usize, Holds)> = Vec::new();
    let mut now = START;
    for step in steps {
        now += step.after_ns;
        let at = Timestamp::from_nanos(now);
        match &step.what {
            What::Charge { places, cost, held } => {
                let levels: Vec<_> = places
                    .iter()
                    .map(|place| level(&rules[*place], *place, *cost))
                    .collect();
                let (mut decision, mut holds) = (Decision::pending(), Holds::new());
                if *held {
                    store
                        .decide_held((&levels, &[]), at, &mut decision, None, &mut holds)
                        .unwrap();
                } else {
                    store
                        .decide(&levels, &[], at, Commit::Charge, &mut decision)
                        .unwrap();
                }
                let counters = replay(limits, &charges);
                let fits = |place: &usize| counters[*place].fits(&known(limits[*place], *cost), now.into());
                assert_eq!(decision.allowed, places.iter().all(fits), "{step:?}");
                if decision.allowed {
                    charges.push(Charge {
                        at: now.into(),
                        places: places.clone(),
                        cost: *cost,
                        back: 0,
                    });
                    if *held {
                        open.push((charges.len() - 1, holds));
                    }
                }
            }
            What::Settle { which, part } if !open.is_empty() => {
                let (charge, holds) = open.swap_remove(which % open.len());
                let back = charges[charge].cost - charges[charge].cost * part / 16;
                let backs: Vec<_> = holds.iter().map(|held| (*held, back)).collect();
                store.release(&backs, at);
                charges[charge].back = back;
            }
            What::Settle { .. } => {}
            What::Sweep => (0..store.shard_count()).for_each(|_| store.sweep(usize::MAX / 2, at)),
        }
        let counters = replay(limits, &charges);
        for (place, counter) in counters.iter().enumerate() {
            let look = [level(&rules[place], place, 0)];
            let mut decision = Decision::pending();
            store
                .decide(&look, &[], at, Commit::DryRun, &mut decision)
                .unwrap();
            let left = counter.remaining(&known(limits[place], 0), now.into());
            assert_eq!(
                decision.remaining,
                Some(left),
                "of {:?} after {step:?}",
                limits[place]
            );
        }
    }
}

#[test]
fn what_is_given_back_was_never_charged() {
    let config = ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(10_000, |cases| cases.parse().unwrap()),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(
            &(limits(), prop::collection::vec(step(), 1..24)),
            |(limits, steps)| {
                run(&limits, &steps);
                Ok(())
            },
        )
        .unwrap();
}
