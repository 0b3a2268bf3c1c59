//! What the model says of a request.

use crate::limit::{Level, Mode};

/// The answer on a whole stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Every enforced level had room.
    pub allowed: bool,
    /// The violated enforced level with the longest wait, by its place; the first of equals. `None` when
    /// allowed.
    pub binding: Option<usize>,
    /// The least that is left of any enforced level.
    pub remaining: Option<u64>,
    /// When the same request would be allowed: 0 when it was, `None` for never.
    pub retry_ns: Option<u128>,
    /// How long to hold an admitted request back: the longest turn of the levels that clients see.
    pub delay_ns: u128,
    /// Every level, in the stack's order.
    pub levels: Vec<LevelVerdict>,
}

/// The answer on one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelVerdict {
    /// It had no room for its cost.
    pub violated: bool,
    /// Its cost was counted.
    pub charged: bool,
    /// What is left after the decision, rounded down.
    pub remaining: u64,
    /// The time to the window's end, or until a bucket has recovered, after the decision.
    pub reset_ns: u128,
    /// When its cost would fit: 0 when it did or was let past, `None` for never.
    pub wait_ns: Option<u128>,
    /// How long a leaky bucket holds the request back that it admitted.
    pub delay_ns: u128,
}

impl Verdict {
    pub(crate) fn of(stack: &[Level], allowed: bool, levels: Vec<LevelVerdict>) -> Self {
        let enforced = || {
            let both = stack.iter().zip(&levels).enumerate();
            both.filter(|(_, (level, _))| level.mode == Mode::Enforce)
                .map(|(place, (_, verdict))| (place, verdict))
        };
        let mut binding: Option<(usize, Option<u128>)> = None;
        for (place, verdict) in enforced().filter(|(_, verdict)| verdict.violated) {
            if binding.is_none_or(|(_, longest)| outlasts(verdict.wait_ns, longest)) {
                binding = Some((place, verdict.wait_ns));
            }
        }
        let shown = stack
            .iter()
            .zip(&levels)
            .filter(|(level, _)| level.mode != Mode::Shadow);
        Self {
            allowed,
            binding: binding.map(|(place, _)| place),
            remaining: enforced().map(|(_, verdict)| verdict.remaining).min(),
            retry_ns: binding.map_or(Some(0), |(_, wait)| wait),
            delay_ns: shown.map(|(_, verdict)| verdict.delay_ns).max().unwrap_or(0),
            levels,
        }
    }
}

/// Never outlasts every wait.
fn outlasts(wait: Option<u128>, other: Option<u128>) -> bool {
    match (wait, other) {
        (Some(wait), Some(other)) => wait > other,
        (None, Some(_)) => true,
        (_, None) => false,
    }
}
