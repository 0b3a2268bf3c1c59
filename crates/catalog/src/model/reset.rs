//! Counters that were emptied.

use tollgate_core::Timestamp;

use super::overrides::Who;

/// What was emptied. Counters are not searched for: from here on they are others, and the old ones run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// The policy whose counters it was; `None` for all of the org's own.
    pub policy: Option<String>,
    /// Whose.
    pub who: Who,
    /// True if quotas were emptied, too, and not rates alone.
    pub quotas: bool,
    /// Which reset it was: another one for each.
    pub epoch: u64,
    /// When; the epoch if nobody knows.
    pub at: Timestamp,
}
