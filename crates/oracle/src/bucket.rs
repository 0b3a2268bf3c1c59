//! Token bucket and leaky bucket.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::limit::{Kind, Level, Mode};

/// What was taken and has not come back, or what has joined the queue and not drained.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    owed: BigRational,
    /// When something was last charged. No earlier time counts as earlier.
    at: u128,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        Self {
            owed: whole(0),
            at: 0,
        }
    }

    pub(crate) fn fits(&self, level: &Level, time: u128) -> bool {
        let burst = whole(level.limit.capacity());
        let cost = whole(level.cost);
        if level.limit.kind == Kind::TokenBucket {
            let tokens = burst - self.owed(level, time);
            tokens >= cost
        } else {
            let queued = self.owed(level, time);
            queued + cost <= burst
        }
    }

    pub(crate) fn take(&mut self, level: &Level, time: u128) {
        self.owed = self.owed(level, time) + whole(level.cost);
        self.at = self.at.max(time);
    }

    pub(crate) fn take_less(&mut self, back: u64) {
        self.owed -= whole(back);
    }

    pub(crate) fn remaining(&self, level: &Level, time: u128) -> u64 {
        let room = whole(level.limit.capacity()) - self.owed(level, time);
        u64::try_from(room.floor().to_integer()).unwrap_or(0)
    }

    /// The time until nothing is owed: the token bucket full, the leaky bucket empty. For a request that
    /// joins the queue now, what is ahead of it divided by the drain rate. With no rate there is no such
    /// time, and 0 stands for it.
    pub(crate) fn drained_in(&self, level: &Level, time: u128) -> u128 {
        if level.limit.limit == 0 {
            return 0;
        }
        let drain = self.owed(level, time) / rate(level);
        // The clock must first catch up with the time of the last charge.
        let behind = self.at.saturating_sub(time);
        u128::try_from(drain.ceil().to_integer()).map_or(u128::MAX, |drain| behind + drain)
    }

    fn owed(&self, level: &Level, time: u128) -> BigRational {
        let mut owed = self.owed.clone();
        // A burst that was lowered below what is owed leaves an enforced bucket just empty. Only a soft
        // one goes into debt.
        if level.mode != Mode::Soft {
            owed = owed.min(whole(level.limit.capacity()));
        }
        let idle = whole(time.saturating_sub(self.at));
        (owed - rate(level) * idle).max(whole(0))
    }
}

/// In tokens a nanosecond.
fn rate(level: &Level) -> BigRational {
    BigRational::new(level.limit.limit.into(), level.limit.window_ns.into())
}

fn whole(number: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(number.into())
}
