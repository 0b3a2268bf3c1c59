//! Names of tiers and classes as numbers of bounded range, stable over reloads.

use std::sync::{Mutex, PoisonError};

use tollgate_catalog::snapshot::Snapshot;

pub(super) const OUTCOMES: [&str; 4] = ["allowed", "denied", "would_deny", "over_soft"];
pub(super) const ALLOWED: usize = 0;
pub(super) const DENIED: usize = 1;
pub(super) const WOULD_DENY: usize = 2;
pub(super) const OVER_SOFT: usize = 3;

/// By breadth, after `none` for decisions that no limit brought about.
pub(super) const SCOPES: [&str; 10] = [
    "none",
    "global",
    "endpoint",
    "ip",
    "org",
    "app",
    "key",
    "user",
    "descriptor",
    "composite",
];

/// Names that are told apart.
const NAMED: usize = 32;
/// The number of every further name.
const OTHER: usize = NAMED;
const TIERS: usize = NAMED + 1;
/// One more for requests of no class.
const CLASSES: usize = NAMED + 2;

pub(super) const CELLS: usize = OUTCOMES.len() * SCOPES.len() * TIERS * CLASSES;

#[derive(Debug, Default)]
pub(super) struct Labels {
    tiers: Mutex<Vec<String>>,
    classes: Mutex<Vec<String>>,
}

/// The numbers of one snapshot's tiers and classes.
#[derive(Debug, Default)]
pub(super) struct Slots {
    tiers: Vec<usize>,
    classes: Vec<usize>,
}

impl Labels {
    pub(super) fn slots(&self, snapshot: &Snapshot) -> Slots {
        let tiers = snapshot
            .tiers()
            .iter()
            .map(|tier| number(&self.tiers, &tier.name));
        let classes = snapshot
            .classes()
            .iter()
            .map(|class| number(&self.classes, class));
        Slots {
            tiers: tiers.collect(),
            classes: classes.collect(),
        }
    }

    /// The names, by number.
    pub(super) fn names(&self) -> (Vec<String>, Vec<String>) {
        let copy = |names: &Mutex<Vec<String>>| names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (copy(&self.tiers), copy(&self.classes))
    }
}

fn number(names: &Mutex<Vec<String>>, name: &str) -> usize {
    let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().position(|known| known == name) {
        return known;
    }
    if names.len() == NAMED {
        return OTHER;
    }
    names.push(name.to_owned());
    names.len() - 1
}

impl Slots {
    /// The cell of a decision.
    pub(super) fn cell(&self, outcome: usize, scope: usize, tier: u32, class: Option<u32>) -> usize {
        let slot = |slots: &[usize], number: u32| slots.get(number as usize).copied().unwrap_or(OTHER);
        let tier = slot(&self.tiers, tier);
        let class = class.map_or(0, |class| 1 + slot(&self.classes, class));
        ((outcome * SCOPES.len() + scope) * TIERS + tier) * CLASSES + class
    }
}

/// Outcome, scope, tier and class of a cell.
pub(super) fn parts(cell: usize) -> (usize, usize, usize, usize) {
    let (rest, class) = (cell / CLASSES, cell % CLASSES);
    let (rest, tier) = (rest / TIERS, rest % TIERS);
    (rest / SCOPES.len(), rest % SCOPES.len(), tier, class)
}
