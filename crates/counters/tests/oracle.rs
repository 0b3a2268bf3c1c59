//! The memory store beside the oracle: many orgs, shared and spanning counters, sweeps in between. Every store
//! has to pass this.
#![allow(missing_docs)]

mod common;

use common::SEED;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use tollgate_core::{
    Algorithm, Anchor, Calendar, CounterKey, Decision, Level, Mode, Period, Retry, Rule, Timestamp,
};
use tollgate_counters::{Commit, MemoryStore};
use tollgate_oracle::{self as oracle, Counters, Kind, Limit};

/// The limits there are, by number: each has as many counters as callers use it.
const LIMITS: u64 = 6;
const START: u64 = 1_700_000_000_000_000_000;

#[derive(Debug, Clone)]
struct Asked {
    /// Which limits the stack has, who calls, and with what costs.
    limits: Vec<(u64, u64, u64)>,
    after_ns: u64,
    dry_run: bool,
    sweep: bool,
}

fn asked() -> impl Strategy<Value = Asked> {
    let level = (
        0..LIMITS,
        0..3_u64,
        prop_oneof![4 => Just(1), 1 => Just(0), 1 => 2..9_u64],
    );
    let after = prop_oneof![
        Just(0),
        1..2_000_000_u64,
        Just(1_000_000_000),
        0..3_000_000_000_u64,
        Just(86_400_000_000_000)
    ];
    (
        prop::collection::vec(level, 1..5),
        after,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(limits, after_ns, dry_run, sweep)| Asked {
            limits,
            after_ns,
            dry_run,
            sweep,
        })
}

fn limit() -> impl Strategy<Value = (Limit, oracle::Mode)> {
    let kind = (0..Kind::ALL.len()).prop_map(|index| Kind::ALL[index]);
    let mode = prop_oneof![
        4 => Just(oracle::Mode::Enforce),
        1 => Just(oracle::Mode::Shadow),
        1 => Just(oracle::Mode::Soft)
    ];
    let window = prop_oneof![Just(1_000_000), Just(1_000_000_000), Just(3_600_000_000_000_u64)];
    (kind, 0..8_u64, prop::option::of(0..9_u64), window, mode).prop_map(
        |(kind, limit, burst, window_ns, mode)| {
            let burst = burst.filter(|_| kind.is_bucket());
            (
                Limit {
                    kind,
                    limit,
                    burst,
                    window_ns,
                },
                mode,
            )
        },
    )
}

fn rule(limit: &Limit) -> Rule {
    let (algorithm, window) = match limit.kind {
        Kind::TokenBucket => (Algorithm::TokenBucket, limit.window_ns),
        Kind::LeakyBucket => (Algorithm::LeakyBucket, limit.window_ns),
        Kind::FixedWindowEpoch => (Algorithm::FixedWindow(Anchor::Epoch), limit.window_ns),
        Kind::FixedWindowFirst => (Algorithm::FixedWindow(Anchor::First), limit.window_ns),
        Kind::SlidingLog => (Algorithm::SlidingLog, limit.window_ns),
        Kind::SlidingCounter => (Algorithm::SlidingCounter, limit.window_ns),
        Kind::QuotaDay => (Algorithm::Quota(Period::Day), Period::Day.nominal_ns()),
        Kind::QuotaWeek => (Algorithm::Quota(Period::Week), Period::Week.nominal_ns()),
        Kind::QuotaMonth => (Algorithm::Quota(Period::Month), Period::Month.nominal_ns()),
    };
    Rule::new(algorithm, limit.limit, limit.burst, window)
}

fn mode(mode: oracle::Mode) -> Mode {
    match mode {
        oracle::Mode::Enforce => Mode::Enforce,
        oracle::Mode::Shadow => Mode::Shadow,
        oracle::Mode::Soft => Mode::Soft,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(10_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/oracle.txt")
        ))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_memory_store_decides_as_the_oracle_does(
        limits in prop::collection::vec(limit(), usize::try_from(LIMITS).unwrap()),
        requests in prop::collection::vec(asked(), 1..20),
    ) {
        let store = MemoryStore::new(1_000);
        let mut counters = Counters::default();
        let rules: Vec<Rule> = limits.iter().map(|(limit, _)| rule(limit)).collect();
        let mut now = START;
        for asked in requests {
            now += asked.after_ns;
            let at = Timestamp::from_nanos(now);
            if asked.sweep {
                // What can be forgotten makes no difference.
                for _ in 0..store.shard_count() {
                    store.sweep(usize::MAX / 2, at);
                }
            }
            let mut stack = Vec::new();
            let mut model = Vec::new();
            for (number, caller, cost) in &asked.limits {
                let (limit, of_mode) = &limits[usize::try_from(*number).unwrap()];
                let caller_hash = SEED.id(&caller.to_le_bytes());
                stack.push(Level {
                    rule: &rules[usize::try_from(*number).unwrap()],
                    calendar: Calendar::utc(),
                    mode: mode(*of_mode),
                    cost: *cost,
                    key: CounterKey::new(SEED.id(&number.to_le_bytes())).and(caller_hash),
                    // Even limits live with their caller's org, odd ones span orgs.
                    home: if number % 2 == 0 { caller_hash.short() } else { number << 60 },
                });
                model.push(oracle::Level {
                    limit: *limit,
                    mode: *of_mode,
                    cost: *cost,
                    counter: number * 100 + caller,
                    guess_ns: 0,
                });
            }
            // A limit stands in a stack once.
            let mut seen = Vec::new();
            let kept: Vec<bool> = asked.limits.iter().map(|(number, ..)| {
                let fresh = !seen.contains(number);
                seen.push(*number);
                fresh
            }).collect();
            let mut keep = kept.iter();
            stack.retain(|_| *keep.next().unwrap());
            let mut keep = kept.iter();
            model.retain(|_| *keep.next().unwrap());

            let commit = if asked.dry_run { Commit::DryRun } else { Commit::Charge };
            let mut decision = Decision::pending();
            store.decide(&stack, &[], at, commit, &mut decision).unwrap();
            let verdict = if asked.dry_run {
                counters.clone().decide(&model, now)
            } else {
                counters.decide(&model, now)
            };
            prop_assert_eq!(decision.allowed, verdict.allowed);
            prop_assert_eq!(decision.binding, verdict.binding);
            prop_assert_eq!(decision.remaining, verdict.remaining);
            let retry = match decision.retry {
                Retry::After(wait) => Some(wait),
                Retry::Never => None,
            };
            prop_assert_eq!(retry, verdict.retry_ns);
            prop_assert_eq!(decision.delay, verdict.delay_ns);
            for ((outcome, level), told) in decision.outcomes.iter().zip(&stack).zip(&verdict.levels) {
                prop_assert_eq!(!outcome.fits, told.violated);
                prop_assert_eq!(outcome.remaining, told.remaining);
                prop_assert_eq!(outcome.reset(level, at), told.reset_ns);
            }
        }
    }
}
