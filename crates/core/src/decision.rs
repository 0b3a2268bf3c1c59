//! The answer on a whole stack: allowed or not, which level binds, how long to wait.

use crate::cell::Cell;
use crate::rule::Algorithm;
use crate::stack::{Level, Mode, Outcome, Outcomes};
use crate::time::{Nanos, Timestamp};

/// When the same request would be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After this time, if nothing else comes. Zero for an allowed request.
    After(Nanos),
    /// Never: waiting does not help.
    Never,
}

/// A decision on a stack.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Whether the request may go on.
    pub allowed: bool,
    /// Whether every level had room, also those that refuse nothing. Filled in by [`Self::sum_up`].
    pub all_fit: bool,
    /// The level that keeps the caller out the longest, by its place in the stack; on a tie the broadest.
    pub binding: Option<usize>,
    /// The least that is left of any enforced level.
    pub remaining: Option<u64>,
    /// When the same request would be allowed.
    pub retry: Retry,
    /// How long to hold an admitted request back.
    pub delay: Nanos,
    /// Every level, in the stack's order.
    pub outcomes: Outcomes,
}

impl Decision {
    /// A decision that is yet to be made.
    pub fn pending() -> Self {
        Self {
            allowed: true,
            all_fit: false,
            binding: None,
            remaining: None,
            retry: Retry::After(0),
            delay: 0,
            outcomes: Outcomes::new(),
        }
    }

    /// Yet to be made again.
    #[inline]
    pub fn renew(&mut self) {
        self.allowed = true;
        self.all_fit = false;
        self.binding = None;
        self.remaining = None;
        self.retry = Retry::After(0);
        self.delay = 0;
        self.outcomes.clear();
    }

    /// Looks whether the next level has room.
    pub fn look(&mut self, level: &Level<'_>, cell: Cell, now: Timestamp) {
        let outcome = Outcome::of(level, cell, now);
        self.allowed &= outcome.passes(level);
        self.outcomes.push(outcome);
    }

    /// Charges every level that has room, or is soft, if the stack is allowed.
    #[inline]
    pub fn charge(&mut self, levels: &[Level<'_>], now: Timestamp) {
        if self.allowed {
            for (level, outcome) in levels.iter().zip(&mut self.outcomes) {
                outcome.charge(level, now);
            }
        }
    }

    /// Sums up a decided stack, whose levels stand from broad to narrow. It divides, so a store calls it after
    /// letting go of its locks.
    #[inline]
    pub fn sum_up(&mut self, levels: &[Level<'_>], now: Timestamp) {
        if self.outcomes.iter().any(|outcome| !outcome.charged) {
            self.share(levels);
        }
        // No counter has so much left.
        let mut least = u64::MAX;
        let (mut all_fit, mut queues) = (true, false);
        for (level, outcome) in levels.iter().zip(&mut self.outcomes) {
            outcome.remaining = level.rule.remaining(outcome.cell, now);
            all_fit &= outcome.fits;
            queues |= level.rule.algorithm == Algorithm::LeakyBucket;
            if level.mode == Mode::Enforce {
                least = least.min(outcome.remaining);
            }
        }
        self.remaining = (least < u64::MAX).then_some(least);
        self.all_fit = all_fit;
        if queues || !all_fit {
            self.sum_up_waits(levels, now);
        }
    }

    /// Shows levels that were not charged what others charged to a count that they have in common.
    #[inline(never)]
    fn share(&mut self, levels: &[Level<'_>]) {
        for place in 0..self.outcomes.len() {
            let same =
                |(other, level): (&Outcome, &Level<'_>)| other.charged && level.key == levels[place].key;
            let charged = self.outcomes.iter().zip(levels).position(same);
            if let Some(charged) = charged.filter(|_| !self.outcomes[place].charged) {
                self.outcomes[place].cell = self.outcomes[charged].cell;
            }
        }
    }

    /// How long to wait: before the same request again, or before this one goes on.
    #[inline(never)]
    fn sum_up_waits(&mut self, levels: &[Level<'_>], now: Timestamp) {
        for (place, (level, outcome)) in levels.iter().zip(&self.outcomes).enumerate() {
            if level.rule.algorithm == Algorithm::LeakyBucket && level.mode != Mode::Shadow {
                self.delay = self.delay.max(outcome.delay(level, now));
            }
            if level.mode != Mode::Enforce || outcome.fits {
                continue;
            }
            let retry = outcome.wait(level, now).map_or(Retry::Never, Retry::After);
            if self.binding.is_none() || retry > self.retry {
                self.binding = Some(place);
                self.retry = retry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::{BillingAnchor, Calendar};
    use crate::key::{CounterKey, KeySeed};
    use crate::rule::{Anchor, Rule};
    use crate::stack::decide;

    #[test]
    fn a_level_that_is_not_charged_shows_what_another_charged_to_its_count() {
        let window = 60_000_000_000;
        let rule = |limit| Rule::new(Algorithm::FixedWindow(Anchor::Epoch), limit, None, window);
        let (hard, trial) = (rule(8), rule(1));
        let calendar = Calendar {
            zone: &jiff::tz::TimeZone::UTC,
            anchor: &BillingAnchor::First,
        };
        let level = |rule, mode| Level {
            rule,
            calendar,
            mode,
            cost: 3,
            key: CounterKey::new(KeySeed::new(1, 2).id(b"count")),
            home: 0,
        };
        let levels = [level(&trial, Mode::Shadow), level(&hard, Mode::Enforce)];
        let decision = decide(
            &levels,
            [Cell::default(); 2].into_iter(),
            Timestamp::from_nanos(1),
        );
        assert!(decision.allowed && !decision.outcomes[0].charged);
        let remaining: Vec<u64> = decision
            .outcomes
            .iter()
            .map(|outcome| outcome.remaining)
            .collect();
        assert_eq!(remaining, [0, 5]);
    }
}
