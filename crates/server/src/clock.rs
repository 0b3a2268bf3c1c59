//! The only reader of the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::Timestamp;

/// The present. A clock set before 1970 reads as the epoch.
#[expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
