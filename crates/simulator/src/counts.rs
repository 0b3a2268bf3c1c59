//! How much happened in a run.

use std::fmt;

/// Counts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Requests that went through.
    pub allowed: u64,
    /// Of those, decided on the node alone.
    pub local: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Requests for which some limit's fallback spoke.
    pub fallback: u64,
    /// Requests that got no answer.
    pub away: u64,
    /// Calls that were run.
    pub calls: u64,
    /// Tokens that were lent.
    pub lent: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.local += other.local;
        self.denied += other.denied;
        self.fallback += other.fallback;
        self.away += other.away;
        self.calls += other.calls;
        self.lent += other.lent;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            allowed,
            local,
            denied,
            fallback,
            away,
            calls,
            lent,
        } = self;
        write!(
            f,
            "{allowed} allowed ({local} from leases), {denied} denied, {fallback} by fallback, \
             {away} without an answer, {calls} calls, {lent} tokens lent"
        )
    }
}
