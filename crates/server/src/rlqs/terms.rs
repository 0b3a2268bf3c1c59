//! On what terms a stack can be assigned: for how long, how much, and what has to be kept free for it.
//!
//! What is assigned may be spent at any time until it is over, and must be within each limit whenever that is. So it may not
//! reach past the end of a window, and a bucket that refills meanwhile is charged that refill as well, unless it owes
//! as much anyway: then what was assigned lies behind its last possible spend, and nobody can have it a second time.

use smallvec::SmallVec;
use tollgate_catalog::model::Accuracy;
use tollgate_core::{Algorithm, Level, Mode, Nanos, Rule};

use super::{SECOND_NS, TTL_S};
use crate::engine::Checked;

/// Parts of a limit that an accuracy counts in.
const PARTS: u64 = 10_000;
/// A bucket's refill may take up a half of it, in the two times to live that pass at most.
const OF_REFILL: Nanos = 4;

/// What holds for an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms {
    /// How long it may be spent once it has arrived, in seconds, as Envoy counts them.
    pub(super) ttl_s: u64,
    /// How many requests fit.
    pub(super) room: u64,
    /// What each level is charged besides.
    pub(super) extras: SmallVec<[u64; 4]>,
    /// How many requests may lie unused.
    pub(super) slack: u64,
    /// How long until it is worth another try, if nothing fits.
    pub(super) wait_ns: u64,
}

impl Terms {
    /// The terms by what was seen of a stack to which a request costs `each`. `None` if nothing limits it.
    pub(super) fn of(seen: &Checked<'_>, each: u64) -> Option<Self> {
        let stack = &seen.stack;
        let places: SmallVec<[usize; 4]> = (0..stack.levels.len())
            .filter(|place| stack.levels[*place].mode == Mode::Enforce && stack.limits[*place].unit.is_none())
            .collect();
        if places.is_empty() || each == 0 {
            return None;
        }
        let mut terms = Self {
            ttl_s: TTL_S,
            room: u64::MAX,
            extras: SmallVec::from_elem(0, stack.levels.len()),
            slack: u64::MAX,
            wait_ns: 0,
        };
        for place in &places {
            let lasts = terms.lasts(seen, *place);
            terms.ttl_s = terms.ttl_s.min(lasts);
        }
        for place in &places {
            terms.extras[*place] = terms.extra(seen, *place);
        }
        terms.level_extras(&stack.levels);
        for place in &places {
            let (rule, outcome) = (stack.levels[*place].rule, &seen.decision.outcomes[*place]);
            let extra = terms.extras[*place];
            terms.room = terms.room.min(outcome.remaining.saturating_sub(extra) / each);
            if outcome.remaining.saturating_sub(extra) < each {
                let wait = rule.wait(outcome.cell, each.saturating_add(extra), seen.now);
                terms.wait_at_least(wait.unwrap_or(0));
            }
            terms.slack = terms.slack.min(slack(rule, stack.limits[*place].accuracy) / each);
        }
        if terms.ttl_s == 0 {
            terms.room = 0;
        }
        Some(terms)
    }

    /// For how many seconds something of a level may be spent. Twice that has to pass before a window's end: once until it
    /// arrives, at the latest, and once until it ends.
    fn lasts(&mut self, seen: &Checked<'_>, place: usize) -> u64 {
        let (rule, cell) = (seen.stack.levels[place].rule, seen.decision.outcomes[place].cell);
        let second = Nanos::from(SECOND_NS);
        let seconds = match rule.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let refill = Nanos::from(rule.window_ns) * Nanos::from(rule.capacity);
                refill / Nanos::from(rule.limit.max(1)) / OF_REFILL / second
            }
            Algorithm::FixedWindow(_) | Algorithm::Quota(_) | Algorithm::SlidingCounter => {
                let left = rule.reset(cell, seen.now);
                if left / 2 < second {
                    self.wait_at_least(left);
                }
                left / 2 / second
            }
            // An entry counts from when it was assigned, and would be forgotten a window after that, not after it was used.
            Algorithm::SlidingLog => 0,
        };
        u64::try_from(seconds).unwrap_or(u64::MAX)
    }

    /// What a bucket regains until the assignment is over, beyond what it owes.
    fn extra(&self, seen: &Checked<'_>, place: usize) -> u64 {
        let (rule, cell) = (seen.stack.levels[place].rule, seen.decision.outcomes[place].cell);
        match rule.algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                let missing = self.regained(rule).saturating_sub(cell.debt());
                u64::try_from(missing.div_ceil(u128::from(rule.window_ns))).unwrap_or(u64::MAX)
            }
            _ => 0,
        }
    }

    /// What a bucket regains until the assignment is over, in the units of its debt.
    fn regained(&self, rule: &Rule) -> u128 {
        u128::from(rule.limit) * u128::from(2 * self.ttl_s * SECOND_NS)
    }

    /// A counter that several levels watch is charged once, so they have the same extra.
    fn level_extras(&mut self, levels: &[Level<'_>]) {
        for place in 0..levels.len() {
            let same = (0..levels.len()).filter(|other| levels[*other].key == levels[place].key);
            let most = same.map(|other| self.extras[other]).max();
            self.extras[place] = most.unwrap_or(0);
        }
    }

    fn wait_at_least(&mut self, wait: Nanos) {
        self.wait_ns = self.wait_ns.max(u64::try_from(wait).unwrap_or(u64::MAX));
    }

    /// Whether what was charged on these terms lies where it must: somebody may have given something back since they were seen.
    pub(super) fn hold(&self, charged: &Checked<'_>, cost: u64) -> bool {
        let levels = charged.stack.levels.iter().zip(&charged.decision.outcomes);
        let mut buckets = levels.filter(|(level, _)| {
            let bucket = level.rule.algorithm.is_bucket();
            bucket && level.mode == Mode::Enforce && level.cost > 0
        });
        buckets.all(|(level, outcome)| {
            let own = u128::from(cost) * u128::from(level.rule.window_ns);
            outcome.cell.debt() >= self.regained(level.rule) + own
        })
    }
}

/// How much of a limit may lie unused.
fn slack(rule: &Rule, accuracy: Accuracy) -> u64 {
    match accuracy {
        Accuracy::Exact => 0,
        Accuracy::Within(parts) => {
            let slack = u128::from(rule.limit) * u128::from(parts) / u128::from(PARTS);
            u64::try_from(slack).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_catalog::Request;
    use tollgate_catalog::parse_policy_set;
    use tollgate_core::{KeySeed, Timestamp};
    use tollgate_counters::Commit;

    use super::*;
    use crate::engine::Engine;

    /// A beginning of an hour.
    const HOUR_S: u64 = 1_700_000_000 / 3_600 * 3_600;

    fn engine(policy: &str) -> Engine {
        let set = parse_policy_set(&format!("policies:\n  - {{id: org, scope: org, {policy}}}\n"));
        let engine = set.and_then(|set| Engine::new(&set, KeySeed::new(1, 2), 100, false));
        engine.unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    fn after(millis: u64) -> Timestamp {
        Timestamp::from_nanos((HOUR_S * 1_000 + millis) * 1_000_000)
    }

    fn acme(cost: u64) -> Request<'static> {
        Request {
            org: Some("acme"),
            cost,
            ..Request::new()
        }
    }

    fn terms(engine: &Engine, now: Timestamp) -> Terms {
        let snapshot = engine.snapshot_full();
        let seen = engine.check(&snapshot, &acme(0), Commit::DryRun, now);
        let seen = seen.unwrap_or_else(|undecided| panic!("{undecided}"));
        Terms::of(&seen, 1).unwrap_or_else(|| panic!("it is limited"))
    }

    #[test]
    fn what_is_spent_of_a_bucket_at_the_last_instant_is_not_there_for_others() {
        let engine = engine("algorithm: token_bucket, limit: 600, window: 1m, burst: 600");
        for taken_before in [0, 100, 150] {
            let now = after(taken_before * 1_000_000);
            let snapshot = engine.snapshot_full();
            let _ = engine.check(&snapshot, &acme(taken_before), Commit::Charge, now);
            let terms = terms(&engine, now);
            assert_eq!(terms.ttl_s, TTL_S);
            let (requests, runtime) = (terms.room, tokio::runtime::Builder::new_current_thread().build());
            let request = acme(requests);
            let lease = engine.lease_in_time(&snapshot, &request, &terms.extras, now);
            let leased = runtime.map(|runtime| runtime.block_on(lease));
            let Ok(Ok(leased)) = leased else {
                panic!("it is not decided");
            };
            assert!(leased.decision.allowed && terms.hold(&leased, requests));
            let last = now.saturating_add(Nanos::from(2 * TTL_S * SECOND_NS));
            let seen = engine.check(&snapshot, &acme(0), Commit::DryRun, last);
            let left = seen.ok().and_then(|seen| seen.decision.remaining);
            assert_eq!(left, Some(600 - requests), "after {taken_before}");
        }
    }

    #[test]
    fn an_assignment_is_over_before_the_end_of_its_window() {
        let engine = engine("algorithm: fixed_window, limit: 600, window: 1h");
        let before_end = |millis: u64| terms(&engine, after(3_600_000 - millis));
        assert_eq!((before_end(60_000).ttl_s, before_end(60_000).room), (TTL_S, 600));
        assert_eq!(before_end(19_999).ttl_s, 9);
        assert_eq!(before_end(2_000).ttl_s, 1);
        let none = before_end(1_999);
        assert_eq!((none.ttl_s, none.room, none.wait_ns), (0, 0, 1_999_000_000));
        assert_eq!(before_end(60_000).slack, 30);
    }
}
