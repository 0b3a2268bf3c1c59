//! How long a sliding window counter lasts under a steady load. What came in a window counts on in the next, fading, so
//! that a load which is just at the limit is refused though no window has more than that.

use tollgate_core::MAX_LIMIT;

use super::lasting::{DAY, Load, first};

/// So many windows are looked at, and so many days: by then a load has shown all that it does.
const WINDOWS: u128 = 100_000;
const DAYS: u128 = 800;

/// A sliding window counter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fading {
    pub(super) limit: u128,
    pub(super) window: u128,
}

impl Fading {
    /// The least limit that never refuses a request of a load that has so many in a window at most.
    pub(super) fn needed(self, load: Load, most: u128) -> u128 {
        // There is no such limit, and it would be more than can be reckoned with.
        if most > MAX_LIMIT.into() {
            return most;
        }
        let just = Self { limit: most, ..self };
        most + u128::from(just.first_refused(load, most).is_some())
    }

    /// The first request of a load that finds no room.
    pub(super) fn first_refused(self, load: Load, most: u128) -> Option<u128> {
        // Neither what came before nor what has come is ever more, and what came before has begun to fade.
        if self.limit > most {
            return None;
        }
        let windows = (DAYS * DAY / self.window + 2).min(WINDOWS);
        (0..windows).find_map(|number| self.refused_in(load, number))
    }

    fn refused_in(self, load: Load, number: u128) -> Option<u128> {
        let (start, end) = (number * self.window, (number + 1) * self.window);
        let came = load.before_instant(start);
        let before = came - load.before_instant(start.saturating_sub(self.window));
        let refused = |request: u128| {
            let at = load.at(request);
            let faded = at.moved_to(at.nanos - start).times(before);
            let used = (before + request - came + 1).saturating_mul(self.window);
            used > self.limit * self.window + faded
        };
        // While work goes on, each request is nearer to the limit than the one before, or each is farther from it.
        let mut days = start / DAY..=(end - 1) / DAY;
        days.find_map(|day| {
            let from = load.before_instant(start.max(day * DAY));
            let to = load.before_instant(end.min((day + 1) * DAY));
            match to.checked_sub(1) {
                Some(last) if last >= from => {
                    let soonest = refused(from).then_some(from);
                    soonest.or_else(|| refused(last).then(|| first(from..to, refused))?)
                }
                _ => None,
            }
        })
    }
}
