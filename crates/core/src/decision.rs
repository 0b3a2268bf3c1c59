//! The answer on a whole stack: allowed or not, which level binds, how long to wait.

use crate::rule::Algorithm;
use crate::stack::{Level, Mode, Outcomes};
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
    /// Sums up a decided stack, whose levels stand from broad to narrow. It divides, so a store calls it after
    /// letting go of its locks.
    #[inline]
    pub fn of(levels: &[Level<'_>], allowed: bool, outcomes: Outcomes, now: Timestamp) -> Self {
        let mut decision = Self {
            allowed,
            binding: None,
            remaining: None,
            retry: Retry::After(0),
            delay: 0,
            outcomes,
        };
        for (place, (level, outcome)) in levels.iter().zip(&mut decision.outcomes).enumerate() {
            outcome.remaining = level.rule.remaining(outcome.cell, now);
            if level.mode != Mode::Shadow && level.rule.algorithm == Algorithm::LeakyBucket {
                decision.delay = decision.delay.max(outcome.delay(level, now));
            }
            if level.mode != Mode::Enforce {
                continue;
            }
            let least = decision.remaining.unwrap_or(u64::MAX);
            decision.remaining = Some(least.min(outcome.remaining));
            if outcome.fits {
                continue;
            }
            let retry = outcome.wait(level, now).map_or(Retry::Never, Retry::After);
            if decision.binding.is_none() || retry > decision.retry {
                decision.binding = Some(place);
                decision.retry = retry;
            }
        }
        decision
    }
}
