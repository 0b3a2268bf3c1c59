//! The core under test, run as a store runs it: cells by counter, charged ones written back, logs pushed.

use std::collections::BTreeMap;

use tollgate_core::{
    Algorithm, Anchor, Calendar, Cell, CounterKey, Decision, KeySeed, Level, Log, Mode, Period, Retry, Rule,
    Timestamp, stack,
};
use tollgate_oracle as oracle;
use tollgate_oracle::{Kind, LevelVerdict, Verdict};

#[derive(Debug, Clone, Default)]
pub(crate) struct Subject {
    cells: BTreeMap<u64, Cell>,
    logs: BTreeMap<u64, Log>,
}

/// The core's answer in the oracle's words, and what the oracle has no words for.
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// The time that each level advises clients of.
    pub(crate) advice: Vec<Option<u128>>,
    /// From when on each level's counter may be forgotten.
    pub(crate) forgettable: Vec<u64>,
}

impl Subject {
    pub(crate) fn decide(&mut self, stack: &[oracle::Level], now: u64) -> Answer {
        let now = Timestamp::from_nanos(now);
        let rules: Vec<Rule> = stack.iter().map(|level| rule(&level.limit)).collect();
        let levels: Vec<Level<'_>> = stack
            .iter()
            .zip(&rules)
            .map(|(level, rule)| core_level(level, rule))
            .collect();
        let cells: Vec<Cell> = stack
            .iter()
            .zip(&rules)
            .map(|(level, rule)| match rule.algorithm {
                Algorithm::SlidingLog => {
                    let log = self.logs.entry(level.counter).or_default();
                    log.summary(rule, level.cost, now)
                }
                _ => self.cells.get(&level.counter).copied().unwrap_or_default(),
            })
            .collect();
        let decision = stack::decide(&levels, cells.into_iter(), now);
        for (level, outcome) in stack
            .iter()
            .zip(&decision.outcomes)
            .filter(|(_, outcome)| outcome.charged)
        {
            if level.limit.kind == Kind::SlidingLog {
                let log = self.logs.entry(level.counter).or_default();
                log.push(level.cost, now);
            } else {
                self.cells.insert(level.counter, outcome.cell);
            }
        }
        let both = decision.outcomes.iter().zip(&levels);
        Answer {
            advice: both.map(|(outcome, level)| outcome.advice(level, now)).collect(),
            verdict: in_oracle_words(&decision, &levels, now),
            forgettable: rules
                .iter()
                .zip(&decision.outcomes)
                .map(|(rule, outcome)| rule.forgettable_at(outcome.cell, now).nanos())
                .collect(),
        }
    }
}

fn in_oracle_words(decision: &Decision, levels: &[Level<'_>], now: Timestamp) -> Verdict {
    Verdict {
        allowed: decision.allowed,
        binding: decision.binding,
        remaining: decision.remaining,
        retry_ns: match decision.retry {
            Retry::After(wait) => Some(wait),
            Retry::Never => None,
        },
        delay_ns: decision.delay,
        levels: decision
            .outcomes
            .iter()
            .zip(levels)
            .map(|(outcome, level)| LevelVerdict {
                violated: !outcome.fits,
                charged: outcome.charged,
                remaining: outcome.remaining,
                reset_ns: outcome.reset(level, now),
                wait_ns: outcome.wait(level, now),
                delay_ns: outcome.delay(level, now),
            })
            .collect(),
    }
}

fn core_level<'a>(level: &oracle::Level, rule: &'a Rule) -> Level<'a> {
    Level {
        rule,
        calendar: Calendar::utc(),
        mode: match level.mode {
            oracle::Mode::Enforce => Mode::Enforce,
            oracle::Mode::Shadow => Mode::Shadow,
            oracle::Mode::Soft => Mode::Soft,
        },
        cost: level.cost,
        key: CounterKey::new(KeySeed::new(1, 2).id(&level.counter.to_le_bytes())),
        home: 0,
    }
}

fn rule(limit: &oracle::Limit) -> Rule {
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
