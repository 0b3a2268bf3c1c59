//! Buckets that refill more slowly than they did.

use crate::time::{Nanos, Timestamp};

/// From an instant on, some buckets refill more slowly. What one owed then lasts longer than was foreseen when it was
/// last charged, so that a store must not forget it at the time that it noted down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slowing {
    /// Since when.
    pub since: Timestamp,
    /// How long those buckets took to refill before, so that what would have mattered longer is none of them.
    pub reach: Nanos,
    /// How many times as long they take now.
    pub factor: u64,
}

impl Slowing {
    /// Until when a counter may matter of which it was foreseen that it would until `end`.
    pub fn end(&self, end: Timestamp) -> Timestamp {
        let left = Nanos::from(end.nanos().saturating_sub(self.since.nanos()));
        if left == 0 || left > self.reach {
            return end;
        }
        let longer = left.saturating_mul(Nanos::from(self.factor));
        self.since.saturating_add(longer)
    }

    /// Whether no counter matters any more for it.
    pub fn is_over(&self, now: Timestamp) -> bool {
        let longest = self.reach.saturating_mul(Nanos::from(self.factor));
        self.since.saturating_add(longest) <= now
    }

    /// This and a later one as one, by which no counter is forgotten earlier than by both.
    #[must_use]
    pub fn and(&self, later: &Self) -> Self {
        let between = Nanos::from(later.since.nanos().saturating_sub(self.since.nanos()));
        Self {
            since: self.since,
            reach: self.reach.max(between.saturating_add(later.reach)),
            factor: self.factor.saturating_mul(later.factor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn slowing(since: u64, reach: u64, factor: u64) -> Slowing {
        Slowing {
            since: at(since),
            reach: Nanos::from(at(reach).nanos()),
            factor,
        }
    }

    #[test]
    fn what_was_left_at_the_time_lasts_so_many_times_as_long() {
        let slowing = slowing(100, 10, 5);
        assert_eq!(slowing.end(at(99)), at(99), "over before");
        assert_eq!(slowing.end(at(100)), at(100));
        assert_eq!(slowing.end(at(103)), at(115));
        assert_eq!(slowing.end(at(110)), at(150));
        assert_eq!(slowing.end(at(111)), at(111), "none of these buckets");
        assert!(!slowing.is_over(at(149)) && slowing.is_over(at(150)));
    }

    #[test]
    fn two_as_one_forget_nothing_earlier_than_both() {
        for (first, second) in [
            (slowing(100, 10, 5), slowing(120, 50, 3)),
            (slowing(100, 50, 2), slowing(105, 100, 7)),
        ] {
            let both = first.and(&second);
            for end in 90..200 {
                let end = at(end);
                assert!(both.end(end) >= second.end(first.end(end)), "{end:?}: {both:?}");
            }
        }
    }
}
