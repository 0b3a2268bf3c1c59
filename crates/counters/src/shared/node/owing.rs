//! What was let through without the store and has not been reported to it.

use tollgate_core::{Level, Timestamp};

use super::super::call::{MOST, Micros, Name, Settlement, Terms};
use super::drain::Drain;
use super::{Asked, Mono};

/// Tokens of one counter that a fallback let through. They are charged when the store is back, once.
#[derive(Debug, Clone)]
pub(super) struct Owing {
    cost: u64,
    /// The limit that let them through.
    pub(super) terms: Terms,
    /// From then on they make no difference.
    pub(super) until: Timestamp,
    /// The charge may be the first that the store hears of the counter, so it carries what the counter replaces.
    pub(super) predecessors: Predecessors,
    /// Of a bucket: what has drained of them since.
    drain: Option<Drain>,
}

/// When something is let through.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    /// In the store's time, as far as the node knows it.
    pub(super) at: Timestamp,
    /// The same, no later than it is.
    pub(super) since: Micros,
    /// On the node's clock.
    pub(super) now: Mono,
}

impl Owing {
    /// Nothing yet.
    pub(super) fn new(terms: Terms, predecessors: Predecessors) -> Self {
        Self {
            cost: 0,
            terms,
            until: Timestamp::EPOCH,
            predecessors,
            drain: None,
        }
    }

    /// Adds what a level let through that so many nodes share. What was let through in a window that is over is
    /// forgotten with it.
    pub(super) fn add(&mut self, level: &Level<'_>, terms: Terms, nodes: u64, when: When) {
        let When { at, since, now } = when;
        if at >= self.until {
            (self.cost, self.drain) = (0, None);
        }
        self.cost = self.cost.saturating_add(level.cost).min(MOST);
        if terms.kind.is_bucket() {
            let fits = |drain: &Drain| drain.is_of(&terms, nodes);
            // Of one that drained by other numbers nothing counts as drained.
            let owed = self.cost - level.cost.min(self.cost);
            let drain = match self.drain.take().filter(fits) {
                Some(drain) => drain,
                None => Drain::new(&terms, nodes, owed, since, now),
            };
            self.drain.insert(drain).add(level.cost, now);
        }
        self.terms = terms;
        // Whatever else it owed may drain first.
        let empty = level.rule.opened_with(0, level.calendar, at);
        let charged = level.rule.charge(empty, self.cost, at);
        self.until = level.rule.forgettable_at(charged, at);
    }

    /// Adds what was let through since this was taken to the store, which did not count it.
    pub(super) fn join(&mut self, since: &Self) {
        self.drain = match (self.drain.take(), &since.drain) {
            (Some(old), Some(new)) => old.join(new),
            _ => None,
        };
        self.cost = self.cost.saturating_add(since.cost).min(MOST);
        self.terms = since.terms;
        self.until = self.until.max(since.until);
    }

    /// What the store is told, of the call's subject with this limit. If that is another than let it through, nothing counts
    /// as drained.
    pub(super) fn settlement(&self, subject: usize, terms: &Terms, now: Mono) -> Settlement {
        let Some(drain) = self.drain.as_ref().filter(|drain| drain.fits(terms)) else {
            return Settlement {
                subject,
                owed: self.cost,
                drained: 0,
                since: 0,
                age: 0,
                nodes: 1,
            };
        };
        let owed = drain.owed(now).min(self.cost);
        Settlement {
            subject,
            owed,
            drained: self.cost - owed,
            since: drain.since,
            age: drain.age(now),
            nodes: drain.nodes,
        }
    }

    /// Whether it would make a difference to the store.
    pub(super) fn matters(&self, at: Timestamp) -> bool {
        self.cost > 0 && at < self.until
    }
}

/// Counters that another one replaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Predecessors {
    /// Those in the same slot, of which the store knows what they have left.
    pub(super) known: Vec<(Name, Terms)>,
    /// When the latest of the others was left; 0 if there is none. Everything counts as used up then.
    pub(super) left: Micros,
}

impl Predecessors {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.left == 0
    }
}

impl Asked<'_> {
    /// Returns what a level's counter replaces. With `parts_are_whole`, a planted mistake, counters of a part of what is
    /// counted are taken for all of it.
    pub(super) fn predecessors(&self, place: usize, at: Timestamp, parts_are_whole: bool) -> Predecessors {
        let mut all = Predecessors::default();
        let own = &self.levels[place];
        let replaced = self.formers.iter().enumerate();
        for (number, former) in replaced.filter(|(_, former)| former.level == place) {
            if former.home != own.home || !(former.whole || parts_are_whole) {
                // No earlier than it was.
                all.left = all.left.max(former.left.nanos().div_ceil(1_000));
                continue;
            }
            let level = Level {
                rule: former.rule,
                calendar: former.calendar,
                ..*own
            };
            let terms = Terms::of(&level, self.revision, at);
            all.known.push((self.details.former(number), terms));
        }
        all
    }
}
