//! What nodes report of a fallback to a counter that was replaced meanwhile.
//!
//! A counter that replaces another begins with what that one has left. A node may report to the old one later than that, of
//! requests that it let through while it could not ask. So a counter notes how much it was ever charged of fallbacks, and
//! one that replaces it takes over what it has not seen of that, whenever a call names both.

use super::super::call::{Kind, MOST, Micros, Name};
use super::Bug;
use super::counter::{Counter, GRACE};

/// All that a counter was charged of fallbacks since it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reported {
    /// When it was first charged of one. It tells apart what was known of the counter before it was forgotten.
    since: Micros,
    total: u64,
}

/// What a counter has taken over of one that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TakenOver {
    name: Name,
    reported: Reported,
    /// From when on it may be forgotten: the other is by then.
    until: Micros,
}

impl Counter {
    /// Notes what it was charged of a fallback.
    pub(super) fn report(&mut self, charged: u64, now: Micros) {
        if charged == 0 {
            return;
        }
        let reported = self.reported.get_or_insert(Reported { since: now, total: 0 });
        reported.total = (reported.total + charged).min(MOST);
    }

    /// What it was charged of fallbacks, for a counter that replaces it.
    pub(super) fn reported(&self, name: Name, now: Micros) -> Option<TakenOver> {
        Some(TakenOver {
            name,
            reported: self.reported?,
            until: self.expires.max(now + self.terms.window) + GRACE,
        })
    }

    /// Takes over what those were charged of fallbacks that it replaces. One that is untouched was narrowed by it already.
    pub(super) fn take_over(&mut self, all: &[TakenOver], untouched: bool, now: Micros) {
        let mut late: u64 = 0;
        for other in all {
            let known = self.taken_over.iter_mut().find(|taken| taken.is_of(other));
            let before = match known {
                Some(known) => std::mem::replace(known, *other).reported.total,
                None => {
                    self.taken_over.push(*other);
                    0
                }
            };
            late = (late + (other.reported.total - before)).min(MOST);
        }
        // A window that begins with its first request has not begun: what came before is not in it.
        let unopened = self.terms.kind == Kind::First && self.numbers[1] == 0;
        if late > 0 && !untouched && !unopened && self.bug != Some(Bug::LateUnheard) {
            self.charge_anyway(late, now);
        }
    }
}

impl TakenOver {
    /// Whether it matters after this instant.
    pub(super) fn is_kept(&self, now: Micros) -> bool {
        now < self.until
    }

    fn is_of(&self, other: &Self) -> bool {
        self.name == other.name && self.reported.since == other.reported.since
    }
}
