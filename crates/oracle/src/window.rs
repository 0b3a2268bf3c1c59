//! Fixed windows, and quotas, whose windows are the calendar's.

use crate::civil;
use crate::limit::{Kind, Level};

/// The window that was last charged. It is in progress until its end, wherever the clock goes meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    end: u128,
    count: u128,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self { end: 0, count: 0 }
    }

    pub(crate) fn fits(&self, level: &Level, time: u128) -> bool {
        self.count(time) + u128::from(level.cost) <= u128::from(level.limit.limit)
    }

    pub(crate) fn take(&mut self, level: &Level, time: u128) {
        *self = Self {
            count: self.count(time) + u128::from(level.cost),
            end: self.end(level, time),
        };
    }

    pub(crate) fn take_less(&mut self, back: u64) {
        self.count -= u128::from(back);
    }

    pub(crate) fn remaining(&self, level: &Level, time: u128) -> u64 {
        let left = u128::from(level.limit.limit).saturating_sub(self.count(time));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// The end of the window in progress; with none, of the one that a charge would open.
    pub(crate) fn end(&self, level: &Level, time: u128) -> u128 {
        if time < self.end {
            return self.end;
        }
        let window = u128::from(level.limit.window_ns);
        match level.limit.kind {
            Kind::FixedWindowFirst => time + window,
            Kind::QuotaDay => civil::end_of_day(time),
            Kind::QuotaWeek => civil::end_of_week(time),
            Kind::QuotaMonth => civil::end_of_month(time),
            _ => (time / window + 1) * window,
        }
    }

    fn count(&self, time: u128) -> u128 {
        if time < self.end { self.count } else { 0 }
    }
}
