//! What orgs use, added up in memory until the ledger is told: for statements, never for decisions.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tollgate_catalog::Request;
use tollgate_catalog::repository::{SLOT_MS, Usage};
use tollgate_core::{IdHash, KeySeed, Timestamp};

use crate::engine::Checked;

const SHARDS: u64 = 64;
/// Kinds of usage that a shard holds until they are told; what there is no room for is counted as lost.
const MOST: usize = 16_384;

/// Who used what, when: all that is told apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    org: IdHash,
    app: Option<IdHash>,
    class: Option<u32>,
    test: bool,
    slot: u64,
}

/// Usage that was not told yet.
pub struct Tallies {
    seed: KeySeed,
    shards: Vec<Mutex<HashMap<Kind, Usage>>>,
    lost: AtomicU64,
}

/// What decisions came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    allowed: u64,
    denied: u64,
    cost: i64,
}

impl Used {
    /// By one decision on a request.
    pub fn of(checked: &Checked<'_>, request: &Request<'_>) -> Self {
        let allowed = checked.decision.allowed;
        Self {
            allowed: allowed.into(),
            denied: (!allowed).into(),
            cost: if allowed { signed(request.cost_in(None)) } else { 0 },
        }
    }

    /// By requests that others decided on and reported.
    pub fn reported(allowed: u64, denied: u64) -> Self {
        Self {
            allowed,
            denied,
            cost: 0,
        }
    }

    /// By what was charged for requests that are reported apart; below 0 for what is given back.
    pub fn charged(cost: i64) -> Self {
        Self {
            cost,
            ..Self::default()
        }
    }

    /// And by others.
    pub fn add(&mut self, other: Self) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.denied = self.denied.saturating_add(other.denied);
        self.cost = self.cost.saturating_add(other.cost);
    }
}

impl Tallies {
    /// Nothing was used yet.
    pub fn new(seed: KeySeed) -> Self {
        Self {
            seed,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            lost: AtomicU64::new(0),
        }
    }

    /// Corrects what a request cost that was allowed at an instant.
    pub fn correct(
        &self,
        request: &Request<'_>,
        class: (Option<u32>, Option<&str>),
        at: Timestamp,
        more: i64,
    ) {
        if more != 0 {
            let used = Used {
                cost: more,
                ..Used::default()
            };
            self.add(request, class, at, used);
        }
    }

    /// Adds what requests like this one used at an instant, if it is one of an org.
    pub fn add(
        &self,
        request: &Request<'_>,
        (class, endpoint): (Option<u32>, Option<&str>),
        at: Timestamp,
        more: Used,
    ) {
        let Some(org) = request.org else { return };
        let slot = at.millis() / SLOT_MS;
        let kind = Kind {
            org: self.seed.id(org.as_bytes()),
            app: request.app.map(|app| self.seed.id(app.as_bytes())),
            class,
            test: request.test,
            slot,
        };
        let place = usize::try_from(kind.org.short() % SHARDS).unwrap_or(0);
        let mut shard = self.shards[place].lock().unwrap_or_else(PoisonError::into_inner);
        if shard.len() >= MOST && !shard.contains_key(&kind) {
            self.lose(more.allowed, more.denied);
            return;
        }
        let used = shard.entry(kind).or_insert_with(|| Usage {
            org: org.to_owned(),
            app: request.app.unwrap_or_default().to_owned(),
            endpoint: endpoint.unwrap_or_default().to_owned(),
            test: request.test,
            at_ms: slot * SLOT_MS,
            ..Usage::default()
        });
        used.allowed = used.allowed.saturating_add(more.allowed);
        used.denied = used.denied.saturating_add(more.denied);
        used.cost = used.cost.saturating_add(more.cost);
    }

    /// Counts decisions that no statement will have.
    pub(super) fn lose(&self, allowed: u64, denied: u64) {
        self.lost
            .fetch_add(allowed.saturating_add(denied), Ordering::Relaxed);
    }

    /// Takes out what was not told yet.
    pub fn take(&self) -> Vec<Usage> {
        let shards = self.shards.iter();
        let taken = shards.flat_map(|shard| {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *shard).into_values()
        });
        taken.collect()
    }

    /// Decisions that are in no statement: there was no room to count them, or the database refused them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// What the database is to be told, each kind once.
#[derive(Default)]
pub(super) struct Untold {
    usage: BTreeMap<(String, String, String, bool, u64), Usage>,
}

/// Kinds of usage that are kept for a database that is away.
const MOST_UNTOLD: usize = 262_144;
/// Kinds of usage in one exchange. More would take the database longer than requests that wait for a quota can.
pub(super) const MAX_TOLD: usize = 5_000;

impl Untold {
    /// Takes out what is untold, as much as one exchange may tell.
    pub(super) fn take(&mut self, tallies: &Tallies) -> Vec<Usage> {
        self.gather(tallies);
        let told = std::iter::from_fn(|| self.usage.pop_first());
        told.take(MAX_TOLD).map(|(_, used)| used).collect()
    }

    /// All that is untold.
    pub(super) fn all(&mut self, tallies: &Tallies) -> Vec<Usage> {
        self.gather(tallies);
        self.usage.values().cloned().collect()
    }

    fn gather(&mut self, tallies: &Tallies) {
        for used in tallies.take() {
            if !self.add(&used) {
                tallies.lose(used.allowed, used.denied);
            }
        }
    }

    /// Whether something is left that the last exchange had no room for.
    pub(super) fn is_empty(&self) -> bool {
        self.usage.is_empty()
    }

    /// Takes back what was not told after all.
    pub(super) fn put_back(&mut self, usage: &[Usage]) {
        for used in usage {
            self.add(used);
        }
    }

    fn add(&mut self, used: &Usage) -> bool {
        let room = self.usage.len() < MOST_UNTOLD;
        let kind = (
            used.org.clone(),
            used.app.clone(),
            used.endpoint.clone(),
            used.test,
            used.at_ms,
        );
        if let Some(known) = self.usage.get_mut(&kind) {
            known.allowed = known.allowed.saturating_add(used.allowed);
            known.denied = known.denied.saturating_add(used.denied);
            known.cost = known.cost.saturating_add(used.cost);
        } else if room {
            self.usage.insert(kind, used.clone());
        } else {
            return false;
        }
        true
    }
}

fn signed(cost: u64) -> i64 {
    i64::try_from(cost).unwrap_or(i64::MAX)
}
