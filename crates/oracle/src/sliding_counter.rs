//! Sliding window counter.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::limit::Level;

/// The counts of the epoch-aligned window that was last charged, and of the one before it.
#[derive(Debug, Clone)]
pub(crate) struct SlidingCounter {
    start: u128,
    previous: u128,
    current: u128,
}

impl SlidingCounter {
    pub(crate) fn new() -> Self {
        Self {
            start: 0,
            previous: 0,
            current: 0,
        }
    }

    pub(crate) fn fits(&self, level: &Level, time: u128) -> bool {
        self.estimate(level, time) + whole(level.cost) <= whole(level.limit.limit)
    }

    pub(crate) fn take(&mut self, level: &Level, time: u128) {
        *self = self.rolled(level, time);
        self.current += u128::from(level.cost);
    }

    pub(crate) fn take_less(&mut self, back: u64) {
        self.current -= u128::from(back);
    }

    pub(crate) fn remaining(&self, level: &Level, time: u128) -> u64 {
        let left = whole(level.limit.limit) - self.estimate(level, time);
        u64::try_from(left.floor().to_integer()).unwrap_or(0)
    }

    /// The end of the current window.
    pub(crate) fn end(&self, level: &Level, time: u128) -> u128 {
        self.rolled(level, time).start + u128::from(level.limit.window_ns)
    }

    /// `previous × (window − elapsed) / window + current`
    fn estimate(&self, level: &Level, time: u128) -> BigRational {
        let now = self.rolled(level, time);
        let window = u128::from(level.limit.window_ns);
        // A clock behind the window's start counts as being at its start.
        let elapsed = time.saturating_sub(now.start);
        let share = BigRational::new((window - elapsed).into(), window.into());
        whole(now.previous) * share + whole(now.current)
    }

    /// The counts as they stand in the window that holds `time`.
    fn rolled(&self, level: &Level, time: u128) -> Self {
        let window = u128::from(level.limit.window_ns);
        let start = time / window * window;
        if start <= self.start {
            self.clone()
        } else if start == self.start + window {
            Self {
                start,
                previous: self.current,
                current: 0,
            }
        } else {
            Self { start, ..Self::new() }
        }
    }
}

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}
