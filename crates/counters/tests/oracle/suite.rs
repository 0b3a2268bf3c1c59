//! What every store has to pass: many callers, shared and spanning counters, two limits on one count, every mode and
//! dry runs, decided as the oracle decides them.

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};
use tollgate_core::{
    Algorithm, Anchor, Calendar, CounterKey, Decision, Level, Mode, Period, Retry, Rule, Timestamp,
};
use tollgate_counters::Commit;
use tollgate_oracle::{self as oracle, Counters, Kind, Limit, Verdict};

use crate::common::SEED;

/// A store that decides stacks.
pub trait Store {
    /// The steps of its clock.
    const RESOLUTION_NS: u64;

    fn decide(&mut self, levels: &[Level<'_>], now: Timestamp, commit: Commit) -> Decision;

    /// Forgets what can be forgotten, which makes no difference.
    fn tidy(&mut self, _now: Timestamp) {}
}

/// The counts there are, by number: each has as many counters as callers use it, and two limits.
const COUNTS: usize = 6;
const START: u64 = 1_700_000_000_000_000_000;

#[derive(Debug, Clone)]
struct Asked {
    /// Which limits the stack has, who calls, and with what costs.
    levels: Vec<Place>,
    after_ns: u64,
    dry_run: bool,
    tidy: bool,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    count: usize,
    /// The second limit on the count.
    second: bool,
    caller: u64,
    cost: u64,
}

/// A count, and the limits on it with their modes.
type Count = [(Limit, oracle::Mode); 2];

fn asked() -> impl Strategy<Value = Asked> {
    let level = (
        0..COUNTS,
        prop::bool::weighted(0.2),
        0..3_u64,
        prop_oneof![4 => Just(1), 1 => Just(0), 1 => 2..9_u64],
    )
        .prop_map(|(count, second, caller, cost)| Place {
            count,
            second,
            caller,
            cost,
        });
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
        .prop_map(|(mut levels, after_ns, dry_run, tidy)| {
            // A limit stands in a stack once.
            let mut seen = Vec::new();
            levels.retain(|place| {
                let limit = (place.count, place.second);
                let fresh = !seen.contains(&limit);
                seen.push(limit);
                fresh
            });
            // What is counted together is counted in one unit.
            for later in 1..levels.len() {
                let (before, after) = levels.split_at_mut(later);
                if let Some(first) = before.iter().find(|place| place.count == after[0].count) {
                    after[0].cost = first.cost;
                }
            }
            Asked {
                levels,
                after_ns,
                dry_run,
                tidy,
            }
        })
}

fn count() -> impl Strategy<Value = Count> {
    let kind = (0..Kind::ALL.len()).prop_map(|index| Kind::ALL[index]);
    let mode = || {
        prop_oneof![
            4 => Just(oracle::Mode::Enforce),
            1 => Just(oracle::Mode::Shadow),
            1 => Just(oracle::Mode::Soft)
        ]
    };
    let window = prop_oneof![Just(1_000_000), Just(1_000_000_000), Just(3_600_000_000_000_u64)];
    let numbers = || (0..8_u64, prop::option::of(0..9_u64));
    (kind, window, numbers(), numbers(), mode(), mode()).prop_map(
        |(kind, window_ns, first, second, first_mode, second_mode)| {
            let limit = |(limit, burst): (u64, Option<u64>)| Limit {
                kind,
                limit,
                burst: burst.filter(|_| kind.is_bucket()),
                window_ns,
            };
            // A bucket can't refill at two rates.
            let second_limit = if kind.is_bucket() { first.0 } else { second.0 };
            [
                (limit(first), first_mode),
                (limit((second_limit, second.1)), second_mode),
            ]
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

/// Tries thousands of histories, each on a store of its own.
pub fn agrees_with_the_oracle<S: Store>(new: impl Fn() -> S) {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: ProptestConfig::default().cases.max(10_000),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/proptest-regressions/oracle.txt"
        )))),
        ..ProptestConfig::default()
    });
    let histories = (
        prop::collection::vec(count(), COUNTS),
        prop::collection::vec(asked(), 1..20),
    );
    let outcome = runner.run(&histories, |(counts, requests)| {
        agrees(&mut new(), &counts, &requests)
    });
    if let Err(error) = outcome {
        panic!("{error}\n{runner}");
    }
}

fn agrees<S: Store>(store: &mut S, counts: &[Count], requests: &[Asked]) -> Result<(), TestCaseError> {
    let rules: Vec<[Rule; 2]> = counts
        .iter()
        .map(|count| count.map(|(limit, _)| rule(&limit)))
        .collect();
    let mut counters = Counters::default();
    let mut now = START;
    for asked in requests {
        now += asked.after_ns / S::RESOLUTION_NS * S::RESOLUTION_NS;
        let at = Timestamp::from_nanos(now);
        if asked.tidy {
            store.tidy(at);
        }
        let mut stack: Vec<Level<'_>> = Vec::new();
        let mut model = Vec::new();
        for place in &asked.levels {
            let (limit, of_mode) = counts[place.count][usize::from(place.second)];
            let caller = SEED.id(&place.caller.to_le_bytes());
            let key = CounterKey::new(SEED.id(&place.count.to_le_bytes())).and(caller);
            // Each of two limits on one bucket forgives another part of its debt, and is told its own view of it.
            if limit.kind.is_bucket() && stack.iter().any(|level| level.key == key) {
                continue;
            }
            stack.push(Level {
                rule: &rules[place.count][usize::from(place.second)],
                calendar: Calendar::utc(),
                mode: mode(of_mode),
                cost: place.cost,
                key,
                // Even counts live with their caller's org, odd ones span orgs.
                home: if place.count % 2 == 0 {
                    caller.short()
                } else {
                    (place.count as u64) << 60
                },
            });
            let counter = place.count as u64 * 100 + place.caller;
            model.push(oracle::Level::new(limit, of_mode, place.cost, counter));
        }
        let commit = if asked.dry_run {
            Commit::DryRun
        } else {
            Commit::Charge
        };
        let decision = store.decide(&stack, at, commit);
        let verdict = if asked.dry_run {
            counters.clone().decide(&model, now)
        } else {
            counters.decide(&model, now)
        };
        is_the_same(&decision, &verdict, &stack, at)?;
    }
    Ok(())
}

fn is_the_same(
    decision: &Decision,
    verdict: &Verdict,
    stack: &[Level<'_>],
    at: Timestamp,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(decision.allowed, verdict.allowed);
    prop_assert_eq!(decision.binding, verdict.binding);
    prop_assert_eq!(decision.remaining, verdict.remaining);
    let retry = match decision.retry {
        Retry::After(wait) => Some(wait),
        Retry::Never => None,
    };
    prop_assert_eq!(retry, verdict.retry_ns);
    prop_assert_eq!(decision.delay, verdict.delay_ns);
    for ((outcome, level), told) in decision.outcomes.iter().zip(stack).zip(&verdict.levels) {
        prop_assert_eq!(!outcome.fits, told.violated);
        prop_assert_eq!(outcome.charged, told.charged);
        // A level that only watches, and had no room, is told as it was before another one of its count was charged.
        let mut alike = stack.iter().zip(&decision.outcomes);
        let watches = !outcome.charged && alike.any(|(other, of)| other.key == level.key && of.charged);
        if !watches {
            prop_assert_eq!(outcome.remaining, told.remaining);
            prop_assert_eq!(outcome.reset(level, at), told.reset_ns);
        }
    }
    Ok(())
}
