//! Days, weeks and months in UTC, on every day of 400 years: a whole cycle of the calendar.

use tollgate_core::{Calendar, Period};
use tollgate_oracle::civil;

use crate::DAY;
use crate::reckoning::{asked, assert_whole, months};

#[test]
fn every_day_of_400_years_is_in_its_day_week_and_month() {
    let calendar = Calendar::utc();
    for month in months(2370).into_iter().filter(|month| month.first >= 0) {
        for day in month.first..month.first + month.days {
            // Day 4 was a Monday; the epoch's own week began before there was time.
            let monday = (day - 4).div_euclid(7) * 7 + 4;
            let week = ((monday * DAY).max(0), (monday + 7) * DAY);
            for now in [day * DAY, day * DAY + DAY / 2, (day + 1) * DAY - 1] {
                assert_eq!(asked(&calendar, Period::Day, now), (day * DAY, (day + 1) * DAY));
                assert_eq!(asked(&calendar, Period::Week, now), week, "on day {day}");
                let whole = (month.first * DAY, (month.first + month.days) * DAY);
                assert_eq!(asked(&calendar, Period::Month, now), whole, "on day {day}");
                assert_eq!(asked(&calendar, Period::BillingMonth, now), whole, "on day {day}");
            }
        }
        for period in [Period::Day, Period::Week, Period::Month] {
            let now = month.first * DAY;
            assert_whole(&calendar, period, now, asked(&calendar, period, now));
        }
    }
}

/// The oracle's own calendar, on which the tests of quotas rely.
#[test]
fn the_oracle_knows_the_same_calendar() {
    for month in months(2370).into_iter().filter(|month| month.first >= 0) {
        for now in [month.first * DAY, (month.first + month.days) * DAY - 1] {
            let end = civil::end_of_month(now.unsigned_abs());
            assert_eq!(end, ((month.first + month.days) * DAY).unsigned_abs());
            let end = civil::end_of_week(now.unsigned_abs());
            assert_eq!(end, asked(&Calendar::utc(), Period::Week, now).1.unsigned_abs());
        }
    }
}

/// The last representable instants give an answer, too.
#[test]
fn the_end_of_time_is_survived() {
    let zone = jiff::tz::db().get("Pacific/Auckland").expect("a zone");
    let away = Calendar {
        zone: &zone,
        ..Calendar::utc()
    };
    for period in [Period::Day, Period::Week, Period::Month, Period::BillingMonth] {
        for calendar in [Calendar::utc(), away] {
            let (start, end) = asked(&calendar, period, u64::MAX.into());
            assert!(start <= end && end == u64::MAX.into());
        }
    }
}
