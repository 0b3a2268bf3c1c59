//! How much of a quota is taken ahead.

/// Worth of how many seconds of what was lately spent a chunk is.
const SECONDS: u64 = 2;
/// What is taken ahead of a counter whose rate is not known yet.
const FIRST: u64 = 8;
/// The most of a small quota: of a larger one it is a hundredth.
const SMALL: u64 = 16;

/// How much a node should hold of a quota, at so much spent in a second.
pub(super) fn target(rate: u64, limit: u64, exact: bool) -> u64 {
    if exact {
        return 0;
    }
    let most = most(limit);
    rate.saturating_mul(SECONDS).clamp(FIRST.min(most), most)
}

/// The largest chunk of a quota.
pub(super) fn most(limit: u64) -> u64 {
    (limit / 100).max((limit / 20).min(SMALL)).max(1)
}

/// The power of two, at most half of a chunk, at which it is time to take more.
pub(super) fn low(target: u64) -> u8 {
    u8::try_from((target / 2).max(1).ilog2()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_rate_within_a_hundredth() {
        assert_eq!(target(0, 1_000_000, false), 8);
        assert_eq!(target(100, 1_000_000, false), 200);
        assert_eq!(target(1_000_000, 1_000_000, false), 10_000);
        assert_eq!(target(u64::MAX, 1_000, false), 16);
        assert_eq!(target(50, 100, false), 5);
        assert_eq!(target(50, 1, false), 1);
        assert_eq!(target(50, 100, true), 0);
    }

    #[test]
    fn more_is_taken_before_half_is_gone() {
        assert_eq!(low(10_000), 12);
        assert_eq!(low(16), 3);
        assert_eq!((low(1), low(0)), (0, 0));
    }
}
