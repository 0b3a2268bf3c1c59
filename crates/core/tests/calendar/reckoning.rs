//! Periods from first principles: the civil times at which they begin, and the instants at which clocks
//! show them.

use jiff::tz::TimeZone;
use tollgate_core::{Calendar, Period, Timestamp};

use crate::DAY;
use crate::offsets::Offsets;

/// A zone's periods, as they should be.
pub(crate) struct Reckoning {
    pub(crate) offsets: Offsets,
    months: Vec<Month>,
    /// Billing months begin on this day of the month, at this time of the day.
    pub(crate) anchor: (i128, i128),
}

/// A month by its first day, counted from the epoch's, and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Month {
    pub(crate) first: i128,
    pub(crate) days: i128,
}

impl Reckoning {
    pub(crate) fn of(zone: &TimeZone) -> Self {
        Self {
            offsets: Offsets::of(zone),
            months: months(2042),
            anchor: (1, 0),
        }
    }

    /// The period that holds `now`: from the last start that is not after it to the next.
    pub(crate) fn period(&self, period: Period, now: i128) -> (i128, i128) {
        let today = self.offsets.local(now).div_euclid(DAY);
        let civil: [i128; 6] = std::array::from_fn(|place| {
            let place = place as i128 - 2;
            match period {
                Period::Day => (today + place) * DAY,
                // Day 4 was a Monday.
                Period::Week => ((today - 4).div_euclid(7) * 7 + 4 + 7 * place) * DAY,
                Period::Month => self.month(today, place).first * DAY,
                Period::BillingMonth => {
                    let month = self.month(today, place);
                    (month.first + self.anchor.0.min(month.days) - 1) * DAY + self.anchor.1
                }
            }
        });
        let starts = civil.map(|local| self.offsets.showing(local));
        let start = starts.iter().filter(|start| **start <= now).max();
        let end = starts.iter().filter(|start| **start > now).min();
        // Nothing is before the epoch.
        (*start.expect("it has begun").max(&0), *end.expect("it will end"))
    }

    fn month(&self, day: i128, later: i128) -> Month {
        let this = self.months.partition_point(|month| month.first <= day) - 1;
        self.months[usize::try_from(this as i128 + later).unwrap_or(0)]
    }
}

/// Every month from September 1969 up to a year, by the rule for leap years.
pub(crate) fn months(until: i128) -> Vec<Month> {
    let (mut year, mut month, mut first) = (1969, 9, -122);
    let mut months = Vec::new();
    while year < until {
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let days = match month {
            2 => 28 + i128::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        months.push(Month { first, days });
        first += days;
        (year, month) = if month == 12 {
            (year + 1, 1)
        } else {
            (year, month + 1)
        };
    }
    months
}

/// The core's answer, in the reckoning's numbers.
pub(crate) fn asked(calendar: &Calendar<'_>, period: Period, now: i128) -> (i128, i128) {
    let now = Timestamp::from_nanos(u64::try_from(now).expect("after the epoch"));
    let (start, end) = calendar.period(period, now);
    (start.nanos().into(), end.nanos().into())
}

/// What holds for every period, whatever the calendar: it holds `now`, it is the same seen from its first
/// and its last moment, and the next one follows without a gap.
pub(crate) fn assert_whole(calendar: &Calendar<'_>, period: Period, now: i128, whole: (i128, i128)) {
    let (start, end) = whole;
    assert!(start <= now && now < end, "{period:?} at {now}: {whole:?}");
    assert_eq!(asked(calendar, period, start), whole, "{period:?} from its start");
    assert_eq!(asked(calendar, period, end - 1), whole, "{period:?} from its end");
    assert_eq!(asked(calendar, period, end).0, end, "{period:?} after {whole:?}");
}
