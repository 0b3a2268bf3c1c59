//! What the contract says in so many words, and the odd cases by name.

use jiff::tz::TimeZone;
use tollgate_core::{
    Algorithm, BillingAnchor, Calendar, Cell, CounterKey, KeySeed, Level, Mode, Period, Rule, Timestamp,
    stack,
};

fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().expect("a time");
    Timestamp::from_nanos(u64::try_from(at.as_nanosecond()).expect("after the epoch"))
}

fn period(zone: &str, anchor: BillingAnchor, period: Period, now: &str) -> (Timestamp, Timestamp) {
    let zone = if zone == "UTC" {
        TimeZone::UTC
    } else {
        jiff::tz::db().get(zone).expect("a zone")
    };
    Calendar {
        zone: &zone,
        anchor: &anchor,
    }
    .period(period, at(now))
}

fn date(text: &str) -> BillingAnchor {
    BillingAnchor::Date(text.parse().expect("a date"))
}

#[test]
fn a_first_call_five_to_midnight_has_300_seconds() {
    let rule = Rule::new(Algorithm::Quota(Period::Day), 100, None, Period::Day.nominal_ns());
    let now = at("2024-07-14T23:55:00Z");
    let level = Level {
        rule: &rule,
        calendar: Calendar::utc(),
        mode: Mode::Enforce,
        cost: 1,
        key: CounterKey::new(KeySeed::new(1, 2).id(b"org")),
        home: 0,
    };
    let decision = stack::decide(&[level], [Cell::default()].into_iter(), now);
    assert!(decision.allowed);
    assert_eq!(decision.outcomes[0].reset(&level, now), 300 * 1_000_000_000);
    assert_eq!(decision.outcomes[0].remaining, 99);
}

#[test]
fn an_anchor_on_the_31st_is_the_last_day_of_shorter_months() {
    let anchor = date("2024-01-31");
    let month = |now| period("UTC", anchor, Period::BillingMonth, now);
    let leap = (at("2024-02-29T00:00:00Z"), at("2024-03-31T00:00:00Z"));
    assert_eq!(month("2024-03-15T12:00:00Z"), leap);
    assert_eq!(month("2024-02-28T23:59:59Z").1, leap.0);
    let common = (at("2023-01-31T00:00:00Z"), at("2023-02-28T00:00:00Z"));
    assert_eq!(month("2023-02-27T23:59:59Z"), common);
    assert_eq!(month("2024-04-30T00:00:00Z").0, at("2024-04-30T00:00:00Z"));
}

#[test]
fn an_instant_keeps_its_time_of_day() {
    let anchor = BillingAnchor::Instant("2024-01-31T09:30:00Z".parse().expect("a time"));
    let whole = period("UTC", anchor, Period::BillingMonth, "2024-02-29T09:29:59Z");
    assert_eq!(whole, (at("2024-01-31T09:30:00Z"), at("2024-02-29T09:30:00Z")));
    // In New York it is 4:30, also after the change to summer time.
    let whole = period(
        "America/New_York",
        anchor,
        Period::BillingMonth,
        "2024-04-01T00:00:00Z",
    );
    assert_eq!(whole, (at("2024-03-31T08:30:00Z"), at("2024-04-30T08:30:00Z")));
}

#[test]
fn a_zone_resets_at_its_own_midnight() {
    let tokyo = period(
        "Asia/Tokyo",
        BillingAnchor::First,
        Period::Day,
        "2024-07-14T15:30:00Z",
    );
    assert_eq!(tokyo, (at("2024-07-14T15:00:00Z"), at("2024-07-15T15:00:00Z")));
    // The day on which New York sets its clocks ahead has 23 hours.
    let spring = period(
        "America/New_York",
        BillingAnchor::First,
        Period::Day,
        "2024-03-10T12:00:00Z",
    );
    assert_eq!(spring, (at("2024-03-10T05:00:00Z"), at("2024-03-11T04:00:00Z")));
}

/// Samoa had no 30 December 2011: the 29th was followed by the 31st.
#[test]
fn a_day_that_a_zone_skipped_is_no_period() {
    let before = period(
        "Pacific/Apia",
        BillingAnchor::First,
        Period::Day,
        "2011-12-30T09:59:59Z",
    );
    assert_eq!(before, (at("2011-12-29T10:00:00Z"), at("2011-12-30T10:00:00Z")));
    let after = period(
        "Pacific/Apia",
        BillingAnchor::First,
        Period::Day,
        "2011-12-30T10:00:00Z",
    );
    assert_eq!(after, (at("2011-12-30T10:00:00Z"), at("2011-12-31T10:00:00Z")));
}

/// Lebanon sets its clocks ahead at midnight: the day begins at 1:00.
#[test]
fn a_midnight_that_a_zone_skipped_is_where_it_skipped_it() {
    let day = period(
        "Asia/Beirut",
        BillingAnchor::First,
        Period::Day,
        "2024-03-31T12:00:00Z",
    );
    assert_eq!(day, (at("2024-03-30T22:00:00Z"), at("2024-03-31T21:00:00Z")));
}

/// In New York 2:30 of 10 March 2024 was skipped: it is half an hour past the change all the same.
#[test]
fn an_anchor_in_a_skipped_hour_is_as_late_as_it_would_have_been() {
    let anchor = BillingAnchor::Instant("2024-01-10T07:30:00Z".parse().expect("a time"));
    let month = |now| period("America/New_York", anchor, Period::BillingMonth, now);
    let march = at("2024-03-10T07:30:00Z");
    assert_eq!(month("2024-03-10T07:15:00Z").1, march);
    assert_eq!(month("2024-03-10T07:30:00Z").0, march);
}

/// In New York 1:30 of 3 November 2024 came twice: the month began with the first.
#[test]
fn an_anchor_in_a_repeated_hour_is_its_first() {
    let anchor = BillingAnchor::Instant("2024-01-03T06:30:00Z".parse().expect("a time"));
    let november = at("2024-11-03T05:30:00Z");
    for now in [
        "2024-11-03T05:30:00Z",
        "2024-11-03T06:15:00Z",
        "2024-11-03T06:30:00Z",
    ] {
        let month = period("America/New_York", anchor, Period::BillingMonth, now);
        assert_eq!(month.0, november, "at {now}");
    }
}

/// Newfoundland used to set its clocks back at 0:01, so that the 23rd hour of the old day came again.
#[test]
fn a_day_that_has_begun_does_not_end_when_clocks_show_yesterday() {
    let zone = "America/St_Johns";
    let today = (at("2010-11-07T02:30:00Z"), at("2010-11-08T03:30:00Z"));
    for now in [
        "2010-11-07T02:30:00Z",
        "2010-11-07T02:45:00Z",
        "2010-11-07T03:45:00Z",
    ] {
        assert_eq!(
            period(zone, BillingAnchor::First, Period::Day, now),
            today,
            "at {now}"
        );
    }
}
