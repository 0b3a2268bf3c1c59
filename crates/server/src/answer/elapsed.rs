//! Lengths of time that end at a known instant. A wait is told rounded up, so that it is long enough; this is told as
//! it is, so that it agrees with the instant.

use tollgate_core::Nanos;

const UNITS: [(u128, &str); 3] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min")];

/// A length of time in its two largest units, the seconds to the millisecond, rounded down.
pub fn elapsed(length: Nanos) -> String {
    let mut millis = length / 1_000_000;
    if millis < 1_000 {
        return format!("{millis} ms");
    }
    let mut parts = Vec::new();
    for (size, unit) in UNITS {
        if millis >= size {
            parts.push(format!("{} {unit}", millis / size));
            millis %= size;
        }
    }
    if millis > 0 {
        parts.push(format!("{} s", seconds(millis)));
    }
    parts.truncate(2);
    parts.join(" ")
}

fn seconds(millis: u128) -> String {
    let shown = format!("{}.{:03}", millis / 1_000, millis % 1_000);
    shown.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_no_more_than_has_passed() {
        for (millis, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1 s"),
            (9_090, "9.09 s"),
            (10_005, "10.005 s"),
            (59_999, "59.999 s"),
            (500_000, "8 min 20 s"),
            (509_990, "8 min 29.99 s"),
            (3_600_000, "1 h"),
            (3_600_500, "1 h 0.5 s"),
            (10_000_000, "2 h 46 min"),
            (175_600_000, "2 d 46 min"),
        ] {
            assert_eq!(elapsed(millis * 1_000_000), shown);
            assert_eq!(elapsed(millis * 1_000_000 + 999_999), shown);
        }
    }
}
