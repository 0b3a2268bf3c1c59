//! What the clocks of a zone show: a list of offsets, each good from some instant on.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::{DAY, SECOND};

/// Before the epoch by more than any period that holds it.
const FIRST: i128 = -70 * DAY;
/// In the year 2041.
const LAST: i128 = 25_980 * DAY;
/// No clock is further from UTC.
const FARTHEST: i128 = 26 * 3_600 * SECOND;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offsets {
    /// From when, and by how much local time is ahead.
    spans: Vec<(i128, i128)>,
}

impl Offsets {
    pub(crate) fn of(zone: &TimeZone) -> Self {
        let first = instant(FIRST);
        let nanos = |offset: jiff::tz::Offset| i128::from(offset.seconds()) * SECOND;
        let mut spans = vec![(i128::MIN, nanos(zone.to_offset(first)))];
        let changes = zone
            .following(first)
            .map(|change| (change.timestamp().as_nanosecond(), nanos(change.offset())));
        for (at, offset) in changes.take_while(|(at, _)| *at < LAST) {
            // Some changes only rename the time.
            if spans.last().is_some_and(|(_, before)| *before != offset) {
                spans.push((at, offset));
            }
        }
        Self { spans }
    }

    /// The instants at which clocks change.
    pub(crate) fn changes(&self) -> impl Iterator<Item = i128> {
        self.spans.iter().skip(1).map(|(at, _)| *at)
    }

    /// What a clock shows, as nanoseconds since the first of 1970 by that clock.
    pub(crate) fn local(&self, at: i128) -> i128 {
        at + self.spans[self.spans.partition_point(|(from, _)| *from <= at) - 1].1
    }

    /// The first instant at which a clock shows this or, if clocks skip it, would have shown it had they
    /// not changed.
    pub(crate) fn showing(&self, local: i128) -> i128 {
        let skipped = self.spans.partition_point(|(from, _)| *from <= local - FARTHEST) - 1;
        let mut before = self.spans[skipped].1;
        for (place, (from, offset)) in self.spans.iter().enumerate().skip(skipped) {
            let at = local - offset;
            if at < *from {
                return local - before;
            }
            if self.spans.get(place + 1).is_none_or(|(until, _)| at < *until) {
                return at;
            }
            before = *offset;
        }
        unreachable!("the last offset is good for ever")
    }
}

pub(crate) fn instant(nanos: i128) -> Timestamp {
    Timestamp::from_nanosecond(nanos).expect("within jiff's time")
}
