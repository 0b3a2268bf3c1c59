//! The engine: a snapshot that resolves, a store that decides.
//!
//! Everything that asks for a decision comes through here: the data plane, the simulator of `tollgate
//! simulate`, tests and benchmarks.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tollgate_catalog::Request;
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::snapshot::{Snapshot, Stack};
use tollgate_core::{Decision, KeySeed, Mode, Timestamp};
use tollgate_counters::{Commit, MemoryStore, StoreFull};

use crate::clock;

/// Counters held at most unless configured: about 650 MB.
pub const DEFAULT_MAX_COUNTERS: usize = 10_000_000;

/// The snapshot in force and the counters.
pub struct Engine {
    seed: KeySeed,
    snapshot: ArcSwap<Snapshot>,
    /// The counters.
    pub store: MemoryStore,
    /// Nothing is refused, everything reported.
    shadow_all: bool,
}

/// Why a request can't be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// There is no room for its counters.
    StoreFull(StoreFull),
    /// What is known of its org can't be read from disk.
    OrgUnreadable,
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StoreFull(full) => full.fmt(f),
            Self::OrgUnreadable => f.write_str("what is known of the org can't be read"),
        }
    }
}

impl From<StoreFull> for Undecided {
    fn from(full: StoreFull) -> Self {
        Self::StoreFull(full)
    }
}

/// A decided request.
pub struct Checked<'s> {
    /// What applied.
    pub stack: Stack<'s>,
    /// What was decided.
    pub decision: Decision,
    /// When.
    pub now: Timestamp,
}

impl Checked<'_> {
    /// The policy that refuses.
    pub fn binding_id(&self) -> Option<&str> {
        self.decision.binding.map(|place| &*self.stack.limits[place].id)
    }
}

impl Engine {
    /// An engine on a policy set.
    pub fn new(
        set: &PolicySet,
        seed: KeySeed,
        max_counters: usize,
        shadow_all: bool,
    ) -> Result<Self, Problems> {
        let snapshot = Snapshot::compile(set, seed, None)?;
        Ok(Self {
            seed,
            snapshot: ArcSwap::from_pointee(snapshot),
            store: MemoryStore::new(max_counters),
            shadow_all,
        })
    }

    /// What makes hashes of ids.
    pub fn seed(&self) -> KeySeed {
        self.seed
    }

    /// The snapshot in force.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// The snapshot in force, to be held across an await.
    pub fn snapshot_full(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Compiles a policy set as what would replace the snapshot in force.
    pub fn compile(&self, set: &PolicySet) -> Result<Snapshot, Problems> {
        let past = self.snapshot.load_full();
        Snapshot::compile(set, self.seed, Some((&past, clock::now())))
    }

    /// Puts a snapshot in force.
    pub fn install(&self, snapshot: Snapshot) {
        self.snapshot.store(Arc::new(snapshot));
    }

    /// Decides a request.
    pub fn check<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = Checked {
            stack: snapshot.blank(),
            decision: Decision::pending(),
            now,
        };
        let Checked { stack, decision, .. } = &mut checked;
        snapshot.resolve(request, now, stack);
        if stack.unreadable && !self.shadow_all {
            return Err(Undecided::OrgUnreadable);
        }
        if self.shadow_all {
            for level in &mut stack.levels {
                level.mode = Mode::Shadow;
            }
        }
        let decided = self
            .store
            .decide(&stack.levels, &stack.formers, now, commit, decision);
        if let Err(full) = decided {
            if !self.shadow_all {
                return Err(full.into());
            }
            // The kill switch refuses nothing, not even what there is no room to count.
            *decision = Decision::pending();
            self.store
                .decide(&stack.levels, &stack.formers, now, Commit::DryRun, decision)?;
        }
        Ok(checked)
    }
}

/// A seed nobody can guess, so that nobody can make ids whose counters meet.
pub fn random_seed() -> Result<KeySeed, getrandom::Error> {
    Ok(KeySeed(getrandom::u64()?, getrandom::u64()?))
}
