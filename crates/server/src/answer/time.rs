//! Lengths and points of time as they are told.

use tollgate_core::{Nanos, Timestamp};

use crate::engine::Checked;

/// Milliseconds, rounded up.
pub fn millis_up(length: Nanos) -> u128 {
    match u64::try_from(length) {
        Ok(length) => u128::from(length.div_ceil(1_000_000)),
        Err(_) => length.div_ceil(1_000_000),
    }
}

/// Seconds, rounded up.
pub fn seconds_up(length: Nanos) -> u128 {
    match u64::try_from(length) {
        Ok(length) => u128::from(length.div_ceil(1_000_000_000)),
        Err(_) => length.div_ceil(1_000_000_000),
    }
}

/// The `Retry-After` of a denial: whole seconds, at least 1; `None` if waiting never helps.
pub fn retry_after_seconds(checked: &Checked<'_>) -> Option<u128> {
    match checked.decision.retry {
        tollgate_core::Retry::Never => None,
        tollgate_core::Retry::After(wait) => {
            let binding = checked.decision.binding.map(|place| checked.stack.limits[place]);
            let spread = binding.map_or(0, |limit| limit.reset_jitter_ns);
            Some(seconds_up(wait + jitter(spread, checked)).max(1))
        }
    }
}

/// Some time up to `spread`, the same for one caller at one instant and unlike for others: that is all it
/// takes to keep clients from coming back together.
fn jitter(spread: u64, checked: &Checked<'_>) -> Nanos {
    if spread == 0 {
        return 0;
    }
    let caller = checked
        .stack
        .levels
        .iter()
        .fold(checked.now.nanos(), |mixed, level| {
            (mixed ^ level.key.home())
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        });
    Nanos::from(caller % (spread + 1))
}

/// The end of the year 9999.
const LAST_MILLI: u64 = 253_402_300_799_999;

/// An instant as RFC 3339 in UTC, with milliseconds only where there are some; times past the year 9999 show
/// as its end.
#[expect(clippy::cast_possible_truncation, reason = "days, and seconds of a day")]
pub fn rfc3339(at: Timestamp, extra: Nanos, out: &mut Vec<u8>) {
    let millis = millis_up(Nanos::from(at.nanos()) + extra);
    let Some(millis) = u64::try_from(millis).ok().filter(|millis| *millis <= LAST_MILLI) else {
        out.extend_from_slice(b"9999-12-31T23:59:59.999Z");
        return;
    };
    let (seconds, millis) = (millis / 1000, (millis % 1000) as u32);
    let (year, month, day) = civil_from_days((seconds / 86_400) as u32);
    let second = (seconds % 86_400) as u32;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (at, value) in [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, second / 3600),
        (14, second / 60 % 60),
        (17, second % 60),
    ] {
        text[at..at + 2].copy_from_slice(two_digits(value));
    }
    if millis == 0 {
        text[19] = b'Z';
        out.extend_from_slice(&text[..20]);
    } else {
        text[20..22].copy_from_slice(two_digits(millis / 10));
        text[22] = two_digits(millis % 10)[1];
        out.extend_from_slice(&text);
    }
}

/// The digits of each number below a hundred.
static TWO_DIGITS: [[u8; 2]; 100] = {
    let mut all = [[b'0'; 2]; 100];
    let mut at = 0_u8;
    while at < 100 {
        all[at as usize] = [b'0' + at / 10, b'0' + at % 10];
        at += 1;
    }
    all
};

#[inline]
fn two_digits(value: u32) -> &'static [u8; 2] {
    &TWO_DIGITS[(value % 100) as usize]
}

/// The date of a day since the epoch, by arithmetic on 400-year eras: cheaper than a calendar for every answer.
fn civil_from_days(days: u32) -> (u32, u32, u32) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + u32::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_calendar_library() {
        for step in 0..40_000_u64 {
            let at = Timestamp::from_nanos(step * 86_399_999_000_000 + step * 1_000_000);
            let mut shown = Vec::new();
            rfc3339(at, 0, &mut shown);
            let expected = tollgate_core::calendar::to_jiff(at).to_string();
            let shown = String::from_utf8(shown).unwrap();
            assert_eq!(
                shown.parse::<jiff::Timestamp>().unwrap(),
                expected.parse().unwrap(),
                "{shown}"
            );
        }
    }

    #[test]
    fn shows_milliseconds_only_where_there_are_some() {
        let mut shown = Vec::new();
        rfc3339(Timestamp::from_millis(1_721_001_600_000).unwrap(), 0, &mut shown);
        assert_eq!(shown, b"2024-07-15T00:00:00Z");
        shown.clear();
        rfc3339(Timestamp::from_millis(1_721_001_600_000).unwrap(), 1, &mut shown);
        assert_eq!(shown, b"2024-07-15T00:00:00.001Z");
        shown.clear();
        rfc3339(Timestamp::EPOCH, u128::MAX / 2, &mut shown);
        assert_eq!(shown, b"9999-12-31T23:59:59.999Z");
    }
}
