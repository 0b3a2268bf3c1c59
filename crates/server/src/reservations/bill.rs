//! What a request was charged, and what that comes to once it is known what it cost.

use tollgate_catalog::Request;
use tollgate_catalog::repository::LedgerName;
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{Timestamp, Whence};
use tollgate_counters::shared::node::Details;
use tollgate_counters::{Held, MemoryStore};

use super::request::Kept;
use crate::engine::Checked;
use crate::names::{Names, Whose};

/// What a request really cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actual {
    /// In place of its cost.
    pub cost: u64,
    /// In place of some of its costs in other units.
    pub costs: Vec<(Box<str>, u64)>,
}

/// A charge, by the request that it was for.
#[derive(Debug)]
pub struct Bill {
    request: Kept,
    at: Timestamp,
    class: (Option<u32>, Option<Box<str>>),
    lines: Box<[Line]>,
}

/// What one counter was charged.
#[derive(Debug)]
struct Line {
    held: Held,
    unit: Unit,
    /// What the ledger calls it, if it is a quota.
    quota: Option<LedgerName>,
}

/// In what a counter was charged.
#[derive(Debug)]
enum Unit {
    Cost,
    Other(Box<str>),
    /// It only stood in for another, and is given nothing back.
    Unknown,
}

impl Bill {
    /// The bill of a request that was decided and held.
    pub fn of(checked: &Checked<'_>, request: &Request<'_>, snapshot: &Snapshot) -> Self {
        let stack = &checked.stack;
        let names = Names {
            only: None,
            stack,
            whose: Whose::One(request),
            revision: 0,
        };
        let held = checked.held.iter().flat_map(|held| held.iter());
        let lines = held.map(|held| {
            let limit = stack.limits.get(held.place);
            let quota = limit.filter(|limit| limit.rule.is_quota());
            Line {
                held: *held,
                unit: match limit.map(|limit| limit.unit.clone()) {
                    Some(None) => Unit::Cost,
                    Some(Some(unit)) => Unit::Other(unit),
                    None => Unit::Unknown,
                },
                quota: quota.map(|_| names.name(held.place).0),
            }
        });
        let class = stack
            .class
            .and_then(|class| snapshot.classes().get(class as usize));
        Self {
            request: Kept::of(request),
            at: checked.now,
            class: (stack.class, class.map(|class| (**class).into())),
            lines: lines.collect(),
        }
    }

    /// The request.
    pub fn request(&self) -> Request<'_> {
        self.request.request()
    }

    /// When it was decided.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// What it was charged.
    pub fn cost(&self) -> u64 {
        self.request.cost
    }

    /// The class of its endpoint, by number and name.
    pub fn class(&self) -> (Option<u32>, Option<&str>) {
        (self.class.0, self.class.1.as_deref())
    }

    /// Whether something of it can be given back.
    pub fn is_held(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether it was charged in a unit.
    pub fn has_unit(&self, unit: &str) -> bool {
        self.request.costs.iter().any(|(known, _)| &**known == unit)
    }

    /// The same request for what it cost beyond what it was charged, if it did.
    pub fn extra(&self, actual: &Actual) -> Option<Request<'_>> {
        let mut request = self.request();
        request.cost = actual.cost.saturating_sub(request.cost);
        for (unit, cost) in &mut request.costs {
            *cost = actual
                .in_unit(unit)
                .map_or(0, |actual| actual.saturating_sub(*cost));
        }
        let more = request.cost > 0 || request.costs.iter().any(|(_, cost)| *cost > 0);
        more.then_some(request)
    }

    /// Gives back what was charged and not used, where it still counts.
    pub fn give_back(&self, actual: &Actual, store: &MemoryStore, now: Timestamp) {
        let backs: Vec<(Held, u64)> = self
            .lines
            .iter()
            .map(|line| {
                let used = match &line.unit {
                    Unit::Cost => Some(actual.cost),
                    Unit::Other(unit) => actual.in_unit(unit),
                    Unit::Unknown => None,
                };
                let back = used.map_or(0, |used| line.held.cost.saturating_sub(used));
                (line.held, back)
            })
            .collect();
        store.release(&backs, now);
    }

    /// Leaves it charged in full, for good.
    pub fn leave(&self, store: &MemoryStore, now: Timestamp) {
        let backs: Vec<(Held, u64)> = self.lines.iter().map(|line| (line.held, 0)).collect();
        store.release(&backs, now);
    }

    /// What it has of quotas: which, until when they run, and how much.
    pub fn quotas(&self) -> impl Iterator<Item = (LedgerName, u64, u64)> {
        self.lines.iter().filter_map(|line| match line.held.whence {
            Whence::Window { end } => Some((line.quota?, end, line.held.cost)),
            _ => None,
        })
    }
}

impl Actual {
    fn in_unit(&self, unit: &str) -> Option<u64> {
        let known = self.costs.iter().find(|(known, _)| &**known == unit);
        known.map(|(_, cost)| *cost)
    }
}
