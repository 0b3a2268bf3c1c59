//! Points in time and lengths of time, as integers.

/// A length of time in nanoseconds. Wide, because a nearly empty bucket of 10^15 tokens that refills
/// once a year takes longer than 64 bits of nanoseconds to fill.
pub type Nanos = u128;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// A point in time: nanoseconds since the Unix epoch, good until the year 2554.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// A timestamp of so many nanoseconds since the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A timestamp of so many milliseconds since the epoch, or `None` past the year 2554.
    pub fn from_millis(millis: u64) -> Option<Self> {
        millis.checked_mul(NANOS_PER_MILLI).map(Self)
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    pub const fn millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// Seconds since the epoch, rounded down.
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The time that passes until `later`; nothing if it is not later.
    pub const fn until_nanos(self, later: u64) -> Nanos {
        later.saturating_sub(self.0) as Nanos
    }

    /// This point moved ahead, stopping at the end of representable time.
    #[must_use]
    #[inline]
    pub fn saturating_add(self, length: Nanos) -> Self {
        Self(self.0.saturating_add(u64::try_from(length).unwrap_or(u64::MAX)))
    }
}
