//! The answer on a whole stack: allowed or not, which level binds, how long to wait.

use smallvec::SmallVec;

use crate::reading::Reading;
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
    pub readings: SmallVec<[Reading; 4]>,
}

impl Decision {
    /// Sums up a decided stack, whose levels stand from broad to narrow.
    pub fn of(levels: &[Level<'_>], allowed: bool, outcomes: &Outcomes, now: Timestamp) -> Self {
        let readings: SmallVec<[Reading; 4]> = levels
            .iter()
            .zip(outcomes)
            .map(|(level, outcome)| Reading::of(level, outcome, now))
            .collect();
        let mut decision = Self {
            allowed,
            binding: None,
            remaining: None,
            retry: Retry::After(0),
            delay: 0,
            readings,
        };
        for (place, (level, reading)) in levels.iter().zip(&decision.readings).enumerate() {
            if level.mode != Mode::Shadow {
                decision.delay = decision.delay.max(reading.delay);
            }
            if level.mode != Mode::Enforce {
                continue;
            }
            let least = decision.remaining.unwrap_or(u64::MAX);
            decision.remaining = Some(least.min(reading.remaining));
            if allowed || !reading.violated {
                continue;
            }
            let retry = reading.wait.map_or(Retry::Never, Retry::After);
            if decision.binding.is_none() || retry > decision.retry {
                decision.binding = Some(place);
                decision.retry = retry;
            }
        }
        decision
    }
}
