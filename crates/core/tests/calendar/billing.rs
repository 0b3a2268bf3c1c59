//! Billing months: from the anchor's day and time of one month to that of the next.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollgate_core::{BillingAnchor, Calendar, Period};

use crate::offsets::instant;
use crate::reckoning::{Month, Reckoning, asked, assert_whole, months};
use crate::{DAY, HOUR, MINUTE, SECOND};

const ANCHOR_DAYS: [i8; 6] = [1, 15, 28, 29, 30, 31];
/// A month of 31 days, in which every anchor's day is a date.
const ANCHOR_MONTH: (i16, i8) = (2024, 1);

/// Zones that skipped a day, changed at midnight or just past it, or by odd amounts.
pub(crate) const ODD_ZONES: [&str; 14] = [
    "America/New_York",
    "America/St_Johns",
    "America/Goose_Bay",
    "America/Havana",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
    "Antarctica/Troll",
    "Antarctica/Casey",
];

fn anchor_date(day: i8) -> Date {
    Date::new(ANCHOR_MONTH.0, ANCHOR_MONTH.1, day).expect("a day of January")
}

/// In UTC, every anchor in every month of 400 years, as a date and with a time of day.
#[test]
fn every_anchor_finds_its_day_or_the_last_in_every_month_of_400_years() {
    let months: Vec<Month> = months(2370)
        .into_iter()
        .filter(|month| month.first >= 0)
        .collect();
    for day in ANCHOR_DAYS {
        for time in [0, 13 * HOUR + 37 * MINUTE + 1, DAY - 1] {
            let midnight = anchor_date(day)
                .to_zoned(TimeZone::UTC)
                .expect("a date")
                .timestamp();
            let anchors = if time == 0 {
                vec![
                    BillingAnchor::Date(anchor_date(day)),
                    BillingAnchor::Instant(midnight),
                ]
            } else {
                let at = instant(midnight.as_nanosecond() + time);
                vec![BillingAnchor::Instant(at)]
            };
            let begins = |month: &Month| (month.first + i128::from(day).min(month.days) - 1) * DAY + time;
            for anchor in anchors {
                let calendar = Calendar {
                    anchor: &anchor,
                    ..Calendar::utc()
                };
                for pair in months.windows(2) {
                    let whole = (begins(&pair[0]), begins(&pair[1]));
                    for now in [
                        whole.0,
                        whole.0 + 1,
                        i128::midpoint(whole.0, whole.1),
                        whole.1 - 1,
                    ] {
                        assert_eq!(
                            asked(&calendar, Period::BillingMonth, now),
                            whole,
                            "{anchor:?} at {now}"
                        );
                    }
                }
            }
        }
    }
}

/// Around each change of clocks, anchored within the hours that it skips or repeats, and near them.
#[test]
fn anchors_within_changes_of_clocks_keep_billing_months_whole() {
    for name in ODD_ZONES {
        let zone = jiff::tz::db().get(name).expect("a zone");
        let mut reckoning = Reckoning::of(&zone);
        let changes: Vec<i128> = reckoning.offsets.changes().collect();
        for change in changes
            .into_iter()
            .filter(|change| (40 * DAY..25_900 * DAY).contains(change))
        {
            for from_change in [
                -25 * HOUR,
                -HOUR,
                -30 * MINUTE,
                -1,
                0,
                30 * MINUTE,
                HOUR,
                25 * HOUR,
            ] {
                // Anchored a month or two before, by a clock that shows the time just so.
                let local = reckoning.offsets.local(change - 1) + 1 + from_change;
                check_anchor(name, &zone, &mut reckoning, local - 59 * DAY, change);
                check_anchor(name, &zone, &mut reckoning, local - 31 * DAY, change);
            }
        }
    }
}

/// Every anchor's day at midnight and at times that clocks like to skip, through decades.
#[test]
fn anchors_on_every_day_keep_billing_months_whole_in_odd_zones() {
    for name in ODD_ZONES {
        let zone = jiff::tz::db().get(name).expect("a zone");
        for day in ANCHOR_DAYS {
            let mut reckoning = Reckoning::of(&zone);
            reckoning.anchor = (day.into(), 0);
            let anchor = BillingAnchor::Date(anchor_date(day));
            walk(name, &zone, &reckoning, anchor);
            for time in [90 * MINUTE, 150 * MINUTE, DAY - 1] {
                let midnight = anchor_date(day)
                    .to_zoned(zone.clone())
                    .expect("a date")
                    .timestamp();
                reckoning.anchor = (day.into(), time);
                let anchor = BillingAnchor::Instant(instant(midnight.as_nanosecond() + time));
                walk(name, &zone, &reckoning, anchor);
            }
        }
    }
}

fn walk(name: &str, zone: &TimeZone, reckoning: &Reckoning, anchor: BillingAnchor) {
    let calendar = Calendar {
        zone,
        anchor: &anchor,
    };
    let mut now = 70 * DAY;
    while now < 25_900 * DAY {
        let whole = asked(&calendar, Period::BillingMonth, now);
        let right = reckoning.period(Period::BillingMonth, now);
        assert_eq!(whole, right, "{anchor:?} in {name} at {now}");
        assert_whole(&calendar, Period::BillingMonth, now, whole);
        now = whole.1;
    }
}

/// Anchors at the first instant that shows `local`, and looks around `change`.
fn check_anchor(name: &str, zone: &TimeZone, reckoning: &mut Reckoning, local: i128, change: i128) {
    let at = reckoning.offsets.showing(local);
    let shown = reckoning.offsets.local(at);
    let date = jiff::civil::date(1970, 1, 1)
        .checked_add(jiff::Span::new().days(i64::try_from(shown.div_euclid(DAY)).expect("days")))
        .expect("a date");
    reckoning.anchor = (date.day().into(), shown.rem_euclid(DAY));
    let calendar = Calendar {
        zone,
        anchor: &BillingAnchor::Instant(instant(at)),
    };
    for around in [
        -26 * HOUR,
        -90 * MINUTE,
        -HOUR,
        -MINUTE,
        -1,
        0,
        SECOND,
        20 * MINUTE,
        59 * MINUTE,
        2 * HOUR,
        26 * HOUR,
    ] {
        let now = change + around;
        let whole = asked(&calendar, Period::BillingMonth, now);
        let right = reckoning.period(Period::BillingMonth, now);
        assert_eq!(whole, right, "from {shown} on in {name} at {now}");
        assert_whole(&calendar, Period::BillingMonth, now, whole);
    }
}
