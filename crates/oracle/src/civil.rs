//! The civil calendar in UTC, counted out from the rule for leap years.

const DAY_NS: u128 = 86_400 * 1_000_000_000;

/// The end of the day that holds `time`.
pub fn end_of_day(time: u128) -> u128 {
    (day_of(time) + 1) * DAY_NS
}

/// The end of the week that holds `time`. Weeks begin on Monday, and day 0 was a Thursday.
pub fn end_of_week(time: u128) -> u128 {
    let since_monday = (day_of(time) + 3) % 7;
    (day_of(time) + 7 - since_monday) * DAY_NS
}

/// The end of the month that holds `time`.
pub fn end_of_month(time: u128) -> u128 {
    let (year, month, _) = date_of(day_of(time));
    let (year, month) = if month == 12 {
        (year + 1, 1)
    } else {
        (year, month + 1)
    };
    days_before(year, month, 1) * DAY_NS
}

/// The year, month and day of the day that is so many days after the epoch.
pub fn date_of(day: u128) -> (u32, u32, u32) {
    let (mut year, mut month, mut left) = (1970, 1, day);
    while left >= days_in_year(year) {
        left -= days_in_year(year);
        year += 1;
    }
    while left >= days_in_month(year, month) {
        left -= days_in_month(year, month);
        month += 1;
    }
    (year, month, u32::try_from(left).map_or(0, |left| left + 1))
}

/// How many days after the epoch a date is; 1970 and later.
pub fn days_before(year: u32, month: u32, day: u32) -> u128 {
    let years: u128 = (1970..year).map(days_in_year).sum();
    let months: u128 = (1..month).map(|month| days_in_month(year, month)).sum();
    years + months + u128::from(day) - 1
}

/// How many days a month has.
pub fn days_in_month(year: u32, month: u32) -> u128 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

fn days_in_year(year: u32) -> u128 {
    if is_leap(year) { 366 } else { 365 }
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn day_of(time: u128) -> u128 {
    time / DAY_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates_are_where_the_almanac_has_them() {
        assert_eq!(date_of(0), (1970, 1, 1));
        assert_eq!(date_of(19_782), (2024, 2, 29));
        assert_eq!(days_before(2000, 3, 1), 11_017);
        assert_eq!(days_before(2100, 3, 1) - days_before(2100, 2, 1), 28);
        // 2024-07-15 was a Monday.
        let monday = days_before(2024, 7, 15) * DAY_NS;
        assert_eq!(end_of_week(monday - 1), monday);
        assert_eq!(end_of_week(monday), monday + 7 * DAY_NS);
    }
}
