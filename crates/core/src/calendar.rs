//! Calendar periods: where a quota's day, week or month begins and ends in a time zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use crate::time::Timestamp;

const DAY_NS: u64 = 86_400 * 1_000_000_000;

static UTC: TimeZone = TimeZone::UTC;

/// The length of a quota's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the 1st to the 1st.
    Month,
    /// From the billing anchor's day of one month to that of the next.
    BillingMonth,
}

impl Period {
    /// The longest the period can be, for sizing and for what has no calendar at hand.
    pub fn nominal_ns(self) -> u64 {
        match self {
            Self::Day => DAY_NS,
            Self::Week => 7 * DAY_NS,
            Self::Month | Self::BillingMonth => 31 * DAY_NS,
        }
    }
}

/// The day (and perhaps the time) on which a billing month begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BillingAnchor {
    /// None was given: the 1st.
    #[default]
    First,
    /// Midnight of this date, in the quota's zone.
    Date(Date),
    /// This very instant, and the same time of day in later months.
    Instant(jiff::Timestamp),
}

/// A zone and an anchor: all that a period's bounds depend on besides the time.
#[derive(Debug, Clone, Copy)]
pub struct Calendar<'a> {
    /// The zone whose midnight counts.
    pub zone: &'a TimeZone,
    /// Where billing months begin.
    pub anchor: BillingAnchor,
}

impl Calendar<'static> {
    /// UTC, with billing months from the 1st.
    pub fn utc() -> Self {
        Self {
            zone: &UTC,
            anchor: BillingAnchor::First,
        }
    }
}

impl Calendar<'_> {
    /// The start and the end of the period that holds `now`.
    pub fn period(&self, period: Period, now: Timestamp) -> (Timestamp, Timestamp) {
        let utc = *self.zone == TimeZone::UTC;
        match period {
            Period::Day if utc => aligned(now, DAY_NS, 0),
            // The epoch was a Thursday: Mondays are 4 days past multiples of 7.
            Period::Week if utc => aligned(now, 7 * DAY_NS, 4 * DAY_NS),
            _ => self.civil_period(period, now),
        }
    }

    fn civil_period(&self, period: Period, now: Timestamp) -> (Timestamp, Timestamp) {
        let local = civil(now, self.zone);
        let (start, end) = match period {
            Period::Day => (midnight(local.date()), midnight(next_day(local.date()))),
            Period::Week => {
                let back = i64::from(local.date().weekday().to_monday_zero_offset());
                let monday = shifted(local.date(), -back);
                (midnight(monday), midnight(shifted(monday, 7)))
            }
            Period::Month => {
                let first = local.date().first_of_month();
                (midnight(first), midnight(next_month(first)))
            }
            Period::BillingMonth => self.billing_month(local),
        };
        (instant(start, self.zone), instant(end, self.zone))
    }

    fn billing_month(&self, local: DateTime) -> (DateTime, DateTime) {
        let anchor = match self.anchor {
            BillingAnchor::First => Date::constant(1970, 1, 1).to_datetime(Time::midnight()),
            BillingAnchor::Date(date) => date.to_datetime(Time::midnight()),
            BillingAnchor::Instant(at) => self.zone.to_datetime(at),
        };
        let this = billing_start(local.date().first_of_month(), anchor);
        // Where a clock change moves the start past `local`'s own reading, the order of civil times still
        // decides; instants follow from them in one place.
        if local < this {
            let last = local.date().first_of_month();
            let last = shifted(last, -1).first_of_month();
            (billing_start(last, anchor), this)
        } else {
            let next = next_month(local.date().first_of_month());
            (this, billing_start(next, anchor))
        }
    }
}

/// The billing month's start in the month that begins on `first`: a day the month lacks becomes its last.
fn billing_start(first: Date, anchor: DateTime) -> DateTime {
    let day = anchor.day().min(first.days_in_month());
    shifted(first, i64::from(day) - 1).to_datetime(anchor.time())
}

fn aligned(now: Timestamp, length: u64, offset: u64) -> (Timestamp, Timestamp) {
    let into = (now.nanos() % length + length - offset) % length;
    let start = now.nanos().saturating_sub(into);
    let end = now.nanos().saturating_add(length - into);
    (Timestamp::from_nanos(start), Timestamp::from_nanos(end))
}

fn midnight(date: Date) -> DateTime {
    date.to_datetime(Time::midnight())
}

fn next_day(date: Date) -> Date {
    shifted(date, 1)
}

fn next_month(first: Date) -> Date {
    shifted(first, i64::from(first.days_in_month()))
}

/// Timestamps end in 2554 and dates in 9999, so this stays far from the edge.
fn shifted(date: Date, days: i64) -> Date {
    date.saturating_add(jiff::Span::new().days(days))
}

fn civil(now: Timestamp, zone: &TimeZone) -> DateTime {
    zone.to_datetime(to_jiff(now))
}

/// The first instant that shows this civil time or, where a clock change skips it, a later one.
fn instant(at: DateTime, zone: &TimeZone) -> Timestamp {
    let nanos = zone
        .to_ambiguous_timestamp(at)
        .compatible()
        .map_or(0, jiff::Timestamp::as_nanosecond);
    Timestamp::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
}

/// The same instant for the calendar library.
pub fn to_jiff(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_nanosecond(i128::from(at.nanos())).unwrap_or(jiff::Timestamp::MAX)
}
