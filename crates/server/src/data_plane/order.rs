//! The order in which the checks of a batch are decided: a check that meets a counter of an earlier one which is not decided
//! yet comes after it. All others go at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use smallvec::SmallVec;
use tollgate_catalog::Request;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{CounterKey, Timestamp};

/// The maximum of checks of one org that wait at a time for one batch: as many as two calls to the shared store decide,
/// of which one is under way at a time for an org. More would only take places from the org's other requests.
const MAX_WAITING: usize = 64;

/// Checks of a batch that are not decided yet, by the counters that they meet.
pub(crate) struct Order<'s, 'b> {
    snapshot: &'s Snapshot,
    now: Timestamp,
    /// Counters of such checks, each with their text if all of them are the same: then it makes no difference which of
    /// them is decided first.
    counters: HashMap<CounterKey, Option<&'b [u8]>>,
    /// How many checks of an org wait.
    waiting: HashMap<Option<&'b str>, usize>,
    /// The text of the check that was last looked at, and its counters: the next one is often the same.
    last: Option<(&'b [u8], Counters)>,
}

/// The counters that a check meets, and those that they replace.
type Counters = SmallVec<[CounterKey; 8]>;

impl<'s, 'b> Order<'s, 'b> {
    /// A batch of which nothing waits, decided by a snapshot at an instant.
    pub(crate) fn new(snapshot: &'s Snapshot, now: Timestamp) -> Self {
        Self {
            snapshot,
            now,
            counters: HashMap::new(),
            waiting: HashMap::new(),
            last: None,
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a check can be decided now. One that can't holds up those after it that meet a counter of its own.
    pub(crate) fn admits(&mut self, check: &Request<'b>, text: &'b [u8]) -> bool {
        if self.is_empty() {
            return true;
        }
        let counters = self.counters_of(check, text);
        let is_free = |key: &CounterKey| self.counters.get(key).is_none_or(|known| *known == Some(text));
        let has_place = (self.waiting.get(&check.org)).is_none_or(|waiting| *waiting < MAX_WAITING);
        if has_place && counters.iter().all(is_free) {
            return true;
        }
        for key in counters {
            self.counters.insert(key, None);
        }
        false
    }

    /// Notes that a check which was admitted waits.
    pub(crate) fn waits(&mut self, check: &Request<'b>, text: &'b [u8]) {
        *self.waiting.entry(check.org).or_default() += 1;
        for key in self.counters_of(check, text) {
            match self.counters.entry(key) {
                Entry::Vacant(new) => {
                    new.insert(Some(text));
                }
                Entry::Occupied(mut known) if *known.get() != Some(text) => {
                    known.insert(None);
                }
                Entry::Occupied(_) => {}
            }
        }
    }

    fn counters_of(&mut self, check: &Request<'_>, text: &'b [u8]) -> Counters {
        if let Some((last, counters)) = &self.last
            && *last == text
        {
            return counters.clone();
        }
        let mut stack = self.snapshot.blank();
        self.snapshot.resolve(check, self.now, &mut stack);
        let own = stack.levels.iter().map(|level| level.key);
        let counters: Counters = own.chain(stack.formers.iter().map(|former| former.key)).collect();
        self.last = Some((text, counters.clone()));
        counters
    }
}
