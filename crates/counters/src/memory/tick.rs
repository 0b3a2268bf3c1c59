//! The unit in which expiry is kept: 2^33 nanoseconds, between eight and nine seconds, so that 32 bits reach past the end
//! of representable time.

use tollgate_core::Timestamp;

pub(super) const TICK_NS: u64 = 1 << 33;

/// The tick from which on something that ends at `nanos` may be forgotten: rounded up, never early.
#[inline]
pub(super) fn tick_after(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(TICK_NS)).unwrap_or(u32::MAX)
}

/// The tick of the present, rounded down.
pub(super) fn tick(now: Timestamp) -> u32 {
    u32::try_from(now.nanos() / TICK_NS).unwrap_or(u32::MAX)
}

/// When a tick begins.
pub(super) fn start_of(tick: u32) -> Timestamp {
    Timestamp::from_nanos(u64::from(tick).saturating_mul(TICK_NS))
}
