//! How much an Envoy is assigned.

use super::REPORT_NS;

/// The most that is assigned at once. Envoy keeps its tokens as a floating point number, which is exact to a token for
/// several times as many.
const MOST: u64 = 10_000_000;

/// The shortest time that a rate is taken from: a report may follow another at once.
const SHORTEST_NS: u64 = 1_000_000_000;

/// What will be asked for until the next report, if it goes on as it was since the last one.
pub(super) fn expected(asked: u64, elapsed_ns: u64) -> u64 {
    let elapsed = elapsed_ns.clamp(SHORTEST_NS, REPORT_NS);
    let until_next = u128::from(asked) * u128::from(REPORT_NS) / u128::from(elapsed);
    u64::try_from(until_next).unwrap_or(u64::MAX).max(asked)
}

/// How many requests to assign: what is expected and half as much again, of which no more than `spare` may turn out to be too many.
/// Who is new gets all of that, since nothing is known yet.
pub(super) fn wanted(expected: u64, spare: u64, new: bool) -> u64 {
    let surplus = if new {
        spare
    } else {
        spare.min(expected.div_ceil(2))
    };
    expected.saturating_add(surplus).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_as_much_again_is_assigned_unless_too_much_would_lie_unused() {
        assert_eq!(wanted(100, 500, false), 150);
        assert_eq!(wanted(100, 20, false), 120);
        assert_eq!(wanted(0, 0, false), 1);
        assert_eq!(wanted(1, 500, true), 501);
        assert_eq!(wanted(u64::MAX, 5, true), MOST);
    }

    #[test]
    fn a_short_time_is_scaled_up() {
        assert_eq!(expected(100, REPORT_NS), 100);
        assert_eq!(expected(100, REPORT_NS / 2), 200);
        assert_eq!(expected(100, 1), 500);
        assert_eq!(expected(100, 10 * REPORT_NS), 100);
    }
}
