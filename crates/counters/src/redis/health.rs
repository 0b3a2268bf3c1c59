//! How the primaries are, for metrics.

use std::time::Instant;

use super::trouble::Trouble;

/// How a primary is.
#[derive(Debug, Clone)]
pub struct Health {
    /// Its host and port.
    pub server: String,
    /// There is a connection.
    pub connected: bool,
    /// Calls under way.
    pub in_flight: usize,
    /// Since when no calls are sent there, if that is so.
    pub open_since: Option<Instant>,
    /// Why none are sent.
    pub trouble: Option<Trouble>,
    /// It may evict keys, whether or not that is allowed.
    pub evicts: bool,
}
