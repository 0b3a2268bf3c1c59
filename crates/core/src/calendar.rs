//! Calendar periods: where a quota's day, week or month begins and ends in a time zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use crate::time::Timestamp;

const DAY_NS: u64 = 86_400 * 1_000_000_000;

const END_OF_TIME: Timestamp = Timestamp::from_nanos(u64::MAX);

static UTC: TimeZone = TimeZone::UTC;
static FIRST: BillingAnchor = BillingAnchor::First;

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
    /// How long the period is if no clock is set back or ahead, in the longest month: for sizing and for what has no
    /// calendar at hand.
    pub fn nominal_ns(self) -> u64 {
        match self {
            Self::Day => DAY_NS,
            Self::Week => 7 * DAY_NS,
            Self::Month | Self::BillingMonth => 31 * DAY_NS,
        }
    }

    /// No period is longer than that. Clocks are set back by an hour each autumn, by up to seven when a place joins
    /// another zone, and by a day where it comes to be on the other side of the date line.
    pub fn longest_ns(self) -> u64 {
        self.nominal_ns() + DAY_NS
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
    pub anchor: &'a BillingAnchor,
}

impl Calendar<'static> {
    /// UTC, with billing months from the 1st.
    pub fn utc() -> Self {
        Self {
            zone: &UTC,
            anchor: &FIRST,
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

    /// The date that a clock shows says where to look, instants decide: a billing month may begin later in
    /// its month, and a clock that is set back past midnight shows yesterday when today has begun.
    fn civil_period(&self, period: Period, now: Timestamp) -> (Timestamp, Timestamp) {
        let mut head = head(period, civil(now, self.zone).date());
        let mut start = self.beginning(period, head);
        while now < start {
            head = preceding(period, head);
            start = self.beginning(period, head);
        }
        loop {
            head = following(period, head);
            let end = self.beginning(period, head);
            if now < end || end == END_OF_TIME {
                return (start, end);
            }
            start = end;
        }
    }

    /// When the period begins that has this head.
    fn beginning(&self, period: Period, head: Date) -> Timestamp {
        let at = match period {
            Period::Day | Period::Week | Period::Month => midnight(head),
            Period::BillingMonth => billing_start(head, self.billing_anchor()),
        };
        instant(at, self.zone)
    }

    fn billing_anchor(&self) -> DateTime {
        match *self.anchor {
            BillingAnchor::First => midnight(Date::constant(1970, 1, 1)),
            BillingAnchor::Date(date) => midnight(date),
            BillingAnchor::Instant(at) => self.zone.to_datetime(at),
        }
    }
}

/// The first day of the day, week or month that a date is in.
fn head(period: Period, date: Date) -> Date {
    match period {
        Period::Day => date,
        Period::Week => shifted(date, -i64::from(date.weekday().to_monday_zero_offset())),
        Period::Month | Period::BillingMonth => date.first_of_month(),
    }
}

fn preceding(period: Period, head: Date) -> Date {
    self::head(period, shifted(head, -1))
}

fn following(period: Period, head: Date) -> Date {
    match period {
        Period::Day => shifted(head, 1),
        Period::Week => shifted(head, 7),
        Period::Month | Period::BillingMonth => shifted(head, i64::from(head.days_in_month())),
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

/// Timestamps end in 2554 and dates in 9999, so this stays far from the edge.
fn shifted(date: Date, days: i64) -> Date {
    date.saturating_add(jiff::Span::new().days(days))
}

fn civil(now: Timestamp, zone: &TimeZone) -> DateTime {
    zone.to_datetime(to_jiff(now))
}

/// The first instant that shows this civil time or, where a clock change skips it, the one that would have
/// shown it had the clock not changed. A midnight that is skipped is always the first moment that is.
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
