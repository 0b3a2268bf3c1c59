//! Days, weeks and months in every zone, around every change of its clocks.

use jiff::tz::TimeZone;
use tollgate_core::{Algorithm, BillingAnchor, Calendar, Period, Rule};

use crate::reckoning::{Reckoning, asked, assert_whole};
use crate::{DAY, HOUR, MINUTE, SECOND};

const PERIODS: [Period; 3] = [Period::Day, Period::Week, Period::Month];
/// 2041 begins on this day.
const FIRST_OF_2041: i128 = 25_933 * DAY;

/// Every zone, once for all names that have the same clocks.
fn zones() -> Vec<(String, TimeZone, Reckoning)> {
    let mut zones: Vec<(String, TimeZone, Reckoning)> = Vec::new();
    for name in jiff::tz::db().available() {
        let zone = jiff::tz::db().get(name.as_str()).expect("a zone that is there");
        let reckoning = Reckoning::of(&zone);
        if zones
            .iter()
            .all(|(_, _, other)| other.offsets != reckoning.offsets)
        {
            zones.push((name.as_str().to_owned(), zone, reckoning));
        }
    }
    assert!(zones.len() > 200, "the bundled database is missing");
    zones
}

/// Moments from a day before a change of clocks to a day after it.
fn moments_around(change: i128) -> impl Iterator<Item = i128> {
    let quarters = (-96..=96).map(|quarter| quarter * HOUR / 4);
    let minutes = [1, 20, 29, 31, 40, 59, 61, 119, 121].map(|minute| minute * MINUTE);
    let near = [0, 1, SECOND].into_iter().chain(minutes);
    let fine = near.flat_map(|after| [after, -after, after - 1, -after - 1]);
    let mut moments: Vec<i128> = quarters.chain(fine).map(|moment| change + moment).collect();
    moments.sort_unstable();
    moments.dedup();
    moments.into_iter().filter(|moment| *moment >= 0)
}

fn check_changes(name: &str, zone: &TimeZone, reckoning: &Reckoning) {
    let calendar = Calendar {
        zone,
        anchor: &BillingAnchor::First,
    };
    for change in reckoning
        .offsets
        .changes()
        .filter(|change| *change < FIRST_OF_2041)
    {
        for period in PERIODS {
            let mut last = (0, 0);
            for now in moments_around(change) {
                let whole = asked(&calendar, period, now);
                assert_eq!(
                    whole,
                    reckoning.period(period, now),
                    "{period:?} in {name} at {now}"
                );
                if whole == last {
                    continue;
                }
                assert!(last.1 <= whole.0, "{period:?} in {name} goes back at {now}");
                assert_whole(&calendar, period, now, whole);
                assert_begins_at_midnight(name, reckoning, period, whole.0);
                last = whole;
            }
        }
    }
}

/// A period begins when clocks show midnight or, where they skip that, when they skip it.
fn assert_begins_at_midnight(name: &str, reckoning: &Reckoning, period: Period, start: i128) {
    let shown = reckoning.offsets.local(start);
    let midnight = shown.div_euclid(DAY) * DAY;
    let skipped = reckoning.offsets.local(start - 1) < midnight;
    assert!(
        shown == midnight || skipped || start == 0,
        "{period:?} in {name} begins at {start}"
    );
}

/// From 1970 to 2041 period follows on period, none missing and none twice.
fn check_chain(name: &str, zone: &TimeZone, reckoning: &Reckoning) {
    let calendar = Calendar {
        zone,
        anchor: &BillingAnchor::First,
    };
    for period in [Period::Week, Period::Month] {
        let mut now = 0;
        while now < FIRST_OF_2041 {
            let whole = asked(&calendar, period, now);
            assert_eq!(
                whole,
                reckoning.period(period, now),
                "{period:?} in {name} at {now}"
            );
            assert_eq!(whole.0, now, "{period:?} in {name}");
            now = whole.1;
        }
    }
}

fn on_all_zones(check: fn(&str, &TimeZone, &Reckoning)) {
    let zones = zones();
    let (some, others) = zones.split_at(zones.len() / 2);
    std::thread::scope(|scope| {
        for part in [some, others] {
            scope.spawn(move || {
                for (name, zone, reckoning) in part {
                    check(name, zone, reckoning);
                }
            });
        }
    });
}

#[test]
fn every_change_of_clocks_leaves_days_weeks_and_months_whole() {
    on_all_zones(check_changes);
}

#[test]
fn weeks_and_months_follow_each_other_in_every_zone() {
    on_all_zones(check_chain);
}

/// Zones that skipped a day, changed at midnight or just past it, or by odd amounts.
#[test]
fn days_follow_each_other_in_the_oddest_zones() {
    for name in crate::billing::ODD_ZONES {
        let zone = jiff::tz::db().get(name).expect("a zone");
        let reckoning = Reckoning::of(&zone);
        let calendar = Calendar {
            zone: &zone,
            anchor: &BillingAnchor::First,
        };
        let mut now = 0;
        while now < FIRST_OF_2041 {
            let whole = asked(&calendar, Period::Day, now);
            assert_eq!(whole, reckoning.period(Period::Day, now), "in {name} at {now}");
            assert_eq!(whole.0, now, "in {name}");
            now = whole.1;
        }
    }
}

/// What was used in a period matters until its end, however long clocks make it.
#[test]
fn no_period_is_longer_than_its_counter_is_said_to_matter() {
    let anchors = ["1970-01-01", "2020-03-29", "2020-10-25", "2019-12-31"];
    let anchors = anchors.map(|date| BillingAnchor::Date(date.parse().expect("a date")));
    for (name, zone, reckoning) in zones() {
        let changes = reckoning.offsets.changes();
        for change in changes.filter(|change| (0..FIRST_OF_2041).contains(change)) {
            for (period, anchor) in PERIODS
                .map(|period| (period, &BillingAnchor::First))
                .into_iter()
                .chain(anchors.iter().map(|anchor| (Period::BillingMonth, anchor)))
            {
                let calendar = Calendar { zone: &zone, anchor };
                let rule = Rule::new(Algorithm::Quota(period), 1, None, period.nominal_ns());
                let (start, end) = asked(&calendar, period, change);
                let horizon = i128::try_from(rule.horizon_ns()).expect("a few weeks");
                assert!(end - start <= horizon, "{period:?} in {name} around {change}");
            }
        }
    }
}
