//! When periods begin and end, from the words of docs/algorithms.md: all beginnings around an instant are listed, and the
//! nearest ones are taken.

use tollgate_oracle::civil;

use crate::zones::Zone;

const DAY: i64 = 86_400;

/// A quota's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Day,
    Week,
    Month,
    Billing,
}

pub const WINDOWS: [Window; 4] = [Window::Day, Window::Week, Window::Month, Window::Billing];

impl Window {
    /// As a policy says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Billing => "billing_month",
        }
    }
}

/// An org's zone and the day and time, in seconds of that day, on which its billing months begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    pub zone: Zone,
    pub day: u32,
    pub time: i64,
}

impl Calendar {
    /// A zone whose billing months begin on the 1st.
    pub fn of(zone: Zone) -> Self {
        Self {
            zone,
            day: 1,
            time: 0,
        }
    }

    /// The start and the end of the period that holds an instant, in Unix seconds.
    pub fn period(&self, window: Window, at: i64) -> (i64, i64) {
        let today = (at + self.zone.offset(at)).div_euclid(DAY);
        let heads = (today - 40..today + 40).filter_map(|day| self.head(window, day));
        let mut beginnings: Vec<i64> = heads.map(|local| self.zone.instant(local)).collect();
        // A day that a zone leaves out begins and ends at once.
        beginnings.sort_unstable();
        beginnings.dedup();
        let after = beginnings.partition_point(|beginning| *beginning <= at);
        (beginnings[after - 1], beginnings[after])
    }

    /// The local time at which a period begins on this day, if one does.
    fn head(&self, window: Window, day: i64) -> Option<i64> {
        let (year, month, of_month) = civil::date_of(u128::try_from(day).unwrap());
        let last = u32::try_from(civil::days_in_month(year, month)).unwrap();
        let (begins, time) = match window {
            Window::Day => (true, 0),
            // Day 0 was a Thursday.
            Window::Week => ((day + 3) % 7 == 0, 0),
            Window::Month => (of_month == 1, 0),
            Window::Billing => (of_month == self.day.min(last), self.time),
        };
        begins.then_some(day * DAY + time)
    }

    /// The anchor as an org says it: a date, or an instant of some January that is long ago.
    pub fn anchor(&self) -> String {
        let local = i64::try_from(civil::days_before(2024, 1, self.day)).unwrap() * DAY + self.time;
        match self.time {
            0 => format!("2024-01-{:02}", self.day),
            _ => text(self.zone.instant(local)),
        }
    }
}

/// The year and month that local clocks show.
pub fn month(zone: &Zone, at: i64) -> (u32, u32) {
    let day = (at + zone.offset(at)).div_euclid(DAY);
    let (year, month, _) = civil::date_of(u128::try_from(day).unwrap());
    (year, month)
}

/// An instant of UTC.
pub fn utc(year: u32, month: u32, day: u32, seconds: i64) -> i64 {
    i64::try_from(civil::days_before(year, month, day)).unwrap() * DAY + seconds
}

/// An instant as text.
pub fn text(at: i64) -> String {
    let (year, month, day) = civil::date_of(u128::try_from(at.div_euclid(DAY)).unwrap());
    let second = at.rem_euclid(DAY);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!(
        "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
        second % 60
    )
}

/// Written out by Python's `zoneinfo`.
#[test]
fn the_calendar_agrees_with_pythons() {
    use crate::zones::{APIA, BEIRUT, BERLIN, CAIRO, CHATHAM, HAVANA, LORD_HOWE};
    let day = |zone, at| Calendar::of(zone).period(Window::Day, at);
    // No 30 December in Apia.
    assert_eq!(day(APIA, 1_325_239_199), (1_325_152_800, 1_325_239_200));
    assert_eq!(day(APIA, 1_325_239_200), (1_325_239_200, 1_325_325_600));
    // 23 and 25 hours in Havana; the midnight that comes twice counts the first time.
    assert_eq!(day(HAVANA, 1_710_046_800), (1_710_046_800, 1_710_129_600));
    assert_eq!(day(HAVANA, 1_730_606_400), (1_730_606_400, 1_730_696_400));
    let month = |zone, at| Calendar::of(zone).period(Window::Month, at);
    assert_eq!(month(CAIRO, 1_730_000_000), (1_727_730_000, 1_730_412_000));
    assert_eq!(month(BEIRUT, 1_711_836_000), (1_709_244_000, 1_711_918_800));
    assert_eq!(month(BERLIN, 1_711_836_000), (1_709_247_600, 1_711_922_400));
    let week = Calendar::of(LORD_HOWE).period(Window::Week, 1_712_415_600);
    assert_eq!(week, (1_711_890_000, 1_712_496_600));
    // The 31st of a billing month that begins at 02:30, in February of a leap year and over the change of April.
    let billing = Calendar {
        zone: CHATHAM,
        day: 31,
        time: 9_000,
    };
    assert_eq!(
        billing.period(Window::Billing, 1_709_000_000),
        (1_706_618_700, 1_709_124_300)
    );
    assert_eq!(
        billing.period(Window::Billing, 1_712_412_000),
        (1_711_802_700, 1_714_398_300)
    );
}
