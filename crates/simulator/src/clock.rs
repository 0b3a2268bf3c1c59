//! A node's clock, which runs a little fast or slow.

use tollgate_counters::shared::node::Mono;

/// A clock that never goes back.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    born: u64,
    first: Mono,
    /// Parts per million by which it is fast.
    drift: i64,
}

impl Clock {
    /// A clock that shows `first` now.
    pub fn new(now: u64, first: Mono, drift: i64) -> Self {
        Self {
            born: now,
            first,
            drift,
        }
    }

    /// What it shows.
    pub fn read(&self, now: u64) -> Mono {
        let passed = i128::from(now) - i128::from(self.born);
        let passed = passed + passed * i128::from(self.drift) / 1_000_000;
        u64::try_from(i128::from(self.first) + passed).unwrap_or(self.first)
    }
}
