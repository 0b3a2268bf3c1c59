//! A limit's window: a length of time, or a calendar period.

use std::fmt;

use tollgate_core::{MAX_WINDOW_NS, Period};

/// A limit's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// So many nanoseconds.
    Length(u64),
    /// A calendar period, for quotas.
    Calendar(Period),
}

const UNITS: [(&str, u64); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

const PERIODS: [(&str, Period); 4] = [
    ("day", Period::Day),
    ("week", Period::Week),
    ("month", Period::Month),
    ("billing_month", Period::BillingMonth),
];

impl Window {
    /// Reads `90s`, `15m`, `month` and the like.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, period)) = PERIODS.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Calendar(*period));
        }
        Self::parse_length(text).map(Self::Length).map_err(|problem| {
            let near = crate::document::suggestion(text, PERIODS.map(|(name, _)| name));
            format!("{problem}{near}")
        })
    }

    /// Reads a length of time in nanoseconds.
    pub fn parse_length(text: &str) -> Result<u64, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit);
        let (Some((_, unit)), false) = (unit, number.is_empty() || number.starts_with('0')) else {
            return Err(format!(
                "`{text}` is not a length of time: write a whole number and ms, s, m, h or d, such as 90s"
            ));
        };
        let length = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*unit));
        length
            .filter(|length| *length <= MAX_WINDOW_NS)
            .ok_or_else(|| format!("`{text}` is longer than 366d"))
    }

    /// Its length; of a calendar period the longest it can be.
    pub fn nanos(self) -> u64 {
        match self {
            Self::Length(nanos) => nanos,
            Self::Calendar(period) => period.nominal_ns(),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calendar(period) => {
                let known = PERIODS.iter().find(|(_, named)| named == period);
                f.write_str(known.map_or("", |(name, _)| name))
            }
            Self::Length(nanos) => {
                let unit = UNITS.iter().rev().find(|(_, unit)| nanos.is_multiple_of(*unit));
                match unit {
                    Some((name, unit)) => write!(f, "{}{name}", nanos / unit),
                    None => write!(f, "{nanos}ns"),
                }
            }
        }
    }
}
