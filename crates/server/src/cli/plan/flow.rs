//! Requests in a time, exact whatever the numbers.

use tollgate_core::Nanos;

use crate::answer::grouped;

const SECOND: u128 = 1_000_000_000;

/// Requests in a time, as a fraction in lowest terms: exact, and a number only when it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    requests: u128,
    nanos: u128,
}

impl Flow {
    /// So many requests in so long a time, which is not 0.
    pub(super) fn new(requests: u128, nanos: u128) -> Self {
        let common = greatest_common_divisor(requests, nanos);
        Self {
            requests: requests / common,
            nanos: nanos / common,
        }
    }

    pub(super) fn per_second(requests: u64) -> Self {
        Self::new(requests.into(), SECOND)
    }

    pub(super) fn times(self, factor: u64) -> Self {
        Self::new(self.requests * u128::from(factor), self.nanos)
    }

    pub(super) fn over(self, parts: u64) -> Self {
        Self::new(self.requests, self.nanos * u128::from(parts))
    }

    pub(super) fn min(self, other: Self) -> Self {
        // Only keys that are many make a product too large, and then it is the larger one.
        let (own, others) = (
            self.requests.saturating_mul(other.nanos),
            other.requests.saturating_mul(self.nanos),
        );
        if others < own { other } else { self }
    }

    /// Requests in a length of time that begins with one: rounded up.
    pub(super) fn in_nanos(self, length: u128) -> u128 {
        let (whole, rest) = multiplied(length, self.requests, self.nanos);
        whole.saturating_add(u128::from(rest > 0))
    }

    /// When a request comes, the first of which is number 0 and comes at once.
    pub(super) fn at(self, request: u128) -> Moment {
        // Where none come, the first would come at once, too.
        let parts = self.requests.max(1);
        let (nanos, passed) = multiplied(request, self.nanos, parts);
        Moment { nanos, passed, parts }
    }

    /// Requests a second as a JSON number.
    #[expect(clippy::cast_precision_loss, reason = "JSON's numbers are floats")]
    pub(super) fn number(self) -> f64 {
        self.requests as f64 * SECOND as f64 / self.nanos as f64
    }

    /// Requests a second, with as many decimals as it takes, up to three; of less than one, the first three digits.
    pub(super) fn shown(self) -> String {
        let (whole, mut rest) = multiplied(SECOND, self.requests, self.nanos);
        let Ok(number) = u64::try_from(whole) else {
            return format!("{:.2e}", self.number());
        };
        let mut shown = format!("{}.", grouped(number));
        let mut left = 3;
        let mut begun = number > 0;
        while rest > 0 && left > 0 {
            let (digit, after) = multiplied(10, rest, self.nanos);
            shown.push_str(&digit.to_string());
            begun |= digit > 0;
            left -= u8::from(begun);
            rest = after;
        }
        shown.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A point in time, exact between two nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    /// The nanosecond that has begun.
    pub(super) nanos: Nanos,
    /// How many of `parts` have passed of it.
    passed: u128,
    parts: u128,
}

impl Moment {
    /// The same part of another nanosecond.
    pub(super) fn moved_to(self, nanos: Nanos) -> Self {
        Self { nanos, ..self }
    }

    /// What adds up until then of something that comes so many times a nanosecond, rounded down.
    pub(super) fn times(self, factor: u128) -> u128 {
        factor * self.nanos + multiplied(factor, self.passed, self.parts).0
    }
}

/// `a * b / by`, and the remainder, also where the product is too large for a number: it is added up by doubling, and
/// divided at each step. A quotient that is too large is the largest there is. `by` is below 2^126.
fn multiplied(a: u128, b: u128, by: u128) -> (u128, u128) {
    if let Some(product) = a.checked_mul(b) {
        return (product / by, product % by);
    }
    let (mut quotient, mut rest) = (0_u128, 0);
    for bit in (0..u128::BITS).rev() {
        quotient = quotient.saturating_mul(2);
        rest *= 2;
        if a >> bit & 1 == 1 {
            quotient = quotient.saturating_add(b / by);
            rest += b % by;
        }
        quotient = quotient.saturating_add(rest / by);
        rest %= by;
    }
    (quotient, rest)
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_is_rare_and_what_is_more_than_a_number_holds() {
        for (requests, nanos, shown) in [
            (2_000, SECOND, "2,000"),
            (1, 3 * SECOND, "0.333"),
            (100, 3 * SECOND, "33.333"),
            (3, 2 * SECOND, "1.5"),
            (1_000, 7 * 86_400 * SECOND, "0.00165"),
            (1, 86_400 * SECOND, "0.0000115"),
            (1_000_001, 1_000_000 * SECOND, "1"),
            (u64::MAX.into(), SECOND, "18,446,744,073,709,551,615"),
            (10_u128.pow(33), 1_000_000, "1.00e36"),
        ] {
            assert_eq!(Flow::new(requests, nanos).shown(), shown);
        }
    }

    #[test]
    fn products_that_do_not_fit_are_divided_exactly() {
        let (large, by) = (u128::MAX / 7, 1_000_003);
        for a in [1, 2, 6, 7, 8, 1_000_003, 999_999_999_999, u128::MAX / 2] {
            let (quotient, rest) = multiplied(a, large, by);
            // The same by parts: large = by * whole + part.
            let (whole, part) = (large / by, large % by);
            let parts = (a % by) * part;
            assert_eq!(rest, parts % by, "{a}");
            let expected = a.checked_mul(whole).and_then(|product| {
                let more = (a / by) * part + parts / by;
                product.checked_add(more)
            });
            assert_eq!(quotient, expected.unwrap_or(u128::MAX), "{a}");
        }
        assert_eq!(multiplied(u128::MAX, by, by), (u128::MAX, 0));
    }
}
