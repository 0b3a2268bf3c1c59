//! The only reader of clocks that decisions depend on.

use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::Timestamp;

/// Nanoseconds on a clock that never goes back and counts the time that the machine sleeps.
pub fn steady() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}

/// The present. A clock set before 1970 reads as the epoch.
#[expect(clippy::disallowed_methods, reason = "this is the place where time comes in")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
