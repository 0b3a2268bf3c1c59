//! What a request was charged, and what that comes to once it is known what it cost.

use std::sync::atomic::{AtomicBool, Ordering};

use tollgate_catalog::Request;
use tollgate_catalog::repository::{LedgerName, Refund};
use tollgate_catalog::snapshot::Snapshot;
use tollgate_core::{Timestamp, Whence};
use tollgate_counters::shared::call::{Micros, Terms};
use tollgate_counters::shared::node::Details;
use tollgate_counters::shared::record::Back;
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
    pub(super) request: Kept,
    pub(super) at: Timestamp,
    pub(super) class: (Option<u32>, Option<Box<str>>),
    pub(super) lines: Box<[Line]>,
    /// The generation of the shared store that was charged.
    pub(super) began: Option<Micros>,
    /// The fleet has it on record, or may have, so that it is given back by that alone.
    pub(super) recorded: AtomicBool,
}

/// What one counter was charged.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) cost: u64,
    pub(super) unit: Unit,
    pub(super) lies: Lies,
}

/// Where a charge lies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lies {
    /// In this process; and what the ledger calls it, if it is a quota.
    Here(Held, Option<LedgerName>),
    /// In the store that a fleet shares.
    Shared(Back),
    /// In the chunk of a quota that another node held, in the period that ends then.
    Ledger(LedgerName, u64),
}

/// In what a counter was charged.
#[derive(Debug)]
pub(super) enum Unit {
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
            charges: None,
        };
        let unit = |place: usize| match stack.limits.get(place).map(|limit| limit.unit.clone()) {
            Some(None) => Unit::Cost,
            Some(Some(unit)) => Unit::Other(unit),
            None => Unit::Unknown,
        };
        let held = checked.held.iter().flat_map(|held| held.iter());
        let here = held.map(|held| {
            let limit = stack.limits.get(held.place);
            let quota = limit.filter(|limit| limit.rule.is_quota());
            let quota = quota.map(|_| names.name(held.place).0);
            Line {
                cost: held.cost,
                unit: unit(held.place),
                lies: Lies::Here(*held, quota),
            }
        });
        let charges = checked.charges.as_ref().map(|charges| charges.borrow());
        let charges = charges.as_ref().map_or(&[][..], |charges| charges);
        let began = charges.first().map(|charge| charge.began);
        // Counters that span orgs live elsewhere, and what was charged before a loss is no longer known.
        let own = charges.iter().filter(|charge| {
            Some(charge.began) == began && request.org.is_some() && stack.is_within_org(charge.place)
        });
        let shared = own.map(|charge| {
            let level = &stack.levels[charge.place];
            let terms = Terms::of(level, 0, checked.now);
            Line {
                cost: level.cost,
                unit: unit(charge.place),
                lies: Lies::Shared(Back {
                    name: names.name(charge.place),
                    kind: terms.kind,
                    window: terms.window,
                    end: charge.end,
                    amount: level.cost,
                }),
            }
        });
        let class = stack
            .class
            .and_then(|class| snapshot.classes().get(class as usize));
        Self {
            request: Kept::of(request),
            at: checked.now,
            class: (stack.class, class.map(|class| (**class).into())),
            lines: here.chain(shared).collect(),
            began,
            recorded: AtomicBool::new(false),
        }
    }

    /// Notes that the fleet has it on record, or may have.
    pub fn is_on_record(&self) {
        self.recorded.store(true, Ordering::Relaxed);
    }

    /// Whether it has.
    pub fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Relaxed)
    }

    /// The generation of the shared store that was charged, if something can be given back there.
    pub fn began(&self) -> Option<Micros> {
        self.began
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

    /// Gives back what was charged in this process and not used, where it still counts.
    pub fn give_back(&self, actual: &Actual, store: &MemoryStore, now: Timestamp) {
        let backs: Vec<(Held, u64)> = self
            .lines
            .iter()
            .filter_map(|line| match line.lies {
                Lies::Here(held, _) => Some((held, line.unused(actual))),
                _ => None,
            })
            .collect();
        store.release(&backs, now);
    }

    /// What was charged in the shared store and not used.
    pub fn backs(&self, actual: &Actual) -> Vec<Back> {
        let backs = self.lines.iter().filter_map(|line| match line.lies {
            Lies::Shared(back) => Some(Back {
                amount: line.unused(actual),
                ..back
            }),
            _ => None,
        });
        backs.filter(|back| back.amount > 0).collect()
    }

    /// What was charged to quotas on another node and not used.
    pub fn refunds(&self, actual: &Actual) -> Vec<Refund> {
        let refunds = self.lines.iter().filter_map(|line| match line.lies {
            Lies::Ledger(name, ends) => Some(Refund {
                name,
                ends,
                amount: line.unused(actual),
            }),
            _ => None,
        });
        refunds.filter(|refund| refund.amount > 0).collect()
    }

    /// Leaves it charged in full, for good.
    pub fn leave(&self, store: &MemoryStore, now: Timestamp) {
        let held = self.lines.iter().filter_map(|line| match line.lies {
            Lies::Here(held, _) => Some((held, 0)),
            _ => None,
        });
        store.release(&held.collect::<Vec<_>>(), now);
    }

    /// What it has of quotas: which, until when they run, and how much.
    pub fn quotas(&self) -> impl Iterator<Item = (LedgerName, u64, u64)> {
        self.lines.iter().filter_map(|line| match line.lies {
            Lies::Here(held, quota) => match held.whence {
                Whence::Window { end } => Some((quota?, end, line.cost)),
                _ => None,
            },
            Lies::Ledger(name, end) => Some((name, end, line.cost)),
            Lies::Shared(_) => None,
        })
    }

    /// What it comes to if nothing was used.
    pub fn nothing(&self) -> Actual {
        let costs = self.request.costs.iter();
        Actual {
            cost: 0,
            costs: costs.map(|(unit, _)| (unit.clone(), 0)).collect(),
        }
    }
}

impl Line {
    /// What of it was not used.
    fn unused(&self, actual: &Actual) -> u64 {
        let used = match &self.unit {
            Unit::Cost => Some(actual.cost),
            Unit::Other(unit) => actual.in_unit(unit),
            Unit::Unknown => None,
        };
        used.map_or(0, |used| self.cost.saturating_sub(used))
    }
}

impl Actual {
    fn in_unit(&self, unit: &str) -> Option<u64> {
        let known = self.costs.iter().find(|(known, _)| &**known == unit);
        known.map(|(_, cost)| *cost)
    }
}
