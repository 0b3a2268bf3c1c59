//! How much of the limits lies unused in this node's leases, by how accurate they have to be.

use super::Mono;
use super::pool::Pool;
use super::size::BASIS;

/// Classes of accuracy: up to so many parts of [`BASIS`], and what they are called.
pub const CLASSES: [(u16, &str); 5] = [
    (0, "exact"),
    (100, "1%"),
    (500, "5%"),
    (1_000, "10%"),
    (u16::MAX, "more"),
];

/// What lies unused of the limits of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unused {
    /// Counters of which something is known.
    pub counters: u64,
    /// Tokens that are held.
    pub tokens: u64,
    /// What part of its limit is held of each counter, in parts of [`BASIS`], added up.
    pub parts: u64,
    /// What part is held of the one with the most.
    pub most_parts: u64,
}

impl Unused {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            counters: self.counters + other.counters,
            tokens: self.tokens.saturating_add(other.tokens),
            parts: self.parts.saturating_add(other.parts),
            most_parts: self.most_parts.max(other.most_parts),
        }
    }

    /// The part of a limit that is held, on average.
    pub fn average(&self) -> f64 {
        ratio(self.parts, self.counters.max(1).saturating_mul(BASIS))
    }

    /// The part that is held of the limit with the most.
    pub fn most(&self) -> f64 {
        ratio(self.most_parts, BASIS)
    }

    /// What of one pool lies unused.
    pub(super) fn of(pool: &Pool, now: Mono) -> Self {
        let tokens = pool.held(now);
        let parts = u128::from(tokens) * u128::from(BASIS) / u128::from(pool.rule.limit.max(1));
        let parts = u64::try_from(parts).unwrap_or(u64::MAX);
        Self {
            counters: 1,
            tokens,
            parts,
            most_parts: parts,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is shown, not counted with")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The class of an accuracy.
pub(super) fn class_of(accuracy: u16) -> usize {
    let class = CLASSES.iter().position(|(most, _)| accuracy <= *most);
    class.unwrap_or(CLASSES.len() - 1)
}
