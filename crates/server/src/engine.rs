//! The engine: a snapshot that resolves, a store that decides.
//!
//! Everything that asks for a decision comes through here: the data plane, the simulator of `tollgate
//! simulate`, tests and benchmarks.

mod together;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use tollgate_catalog::Request;
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::{FailMode, PolicySet};
use tollgate_catalog::snapshot::{Snapshot, Stack};
use tollgate_core::{Decision, KeySeed, Mode, Timestamp};
use tollgate_counters::shared::node::{Answer, Claim, Fail, Fallback};
use tollgate_counters::shared::{self, SharedStore, Taken};
use tollgate_counters::{Commit, MemoryStore, StoreFull};

use crate::clock;
use crate::ledger::{self, Ledger};
use crate::names::{Names, Whose};

pub(crate) use together::Joined;
pub use together::{Part, Resumed, Together};

/// Counters held at most unless configured: about 650 MB.
pub const DEFAULT_MAX_COUNTERS: usize = 10_000_000;

/// A request that has to wait more often does without.
pub(crate) const MOST_WAITS: u32 = 8;

/// The snapshot in force and the counters.
pub struct Engine {
    seed: KeySeed,
    snapshot: ArcSwap<Snapshot>,
    /// The catalogue's revision that the snapshot is of; 0 without one.
    revision: AtomicU64,
    /// The counters, or while a shared store is away those that are kept here meanwhile.
    pub store: Arc<MemoryStore>,
    /// The counters of a fleet.
    shared: OnceLock<Arc<SharedStore>>,
    /// What keeps the counters of quotas.
    pub(crate) ledger: OnceLock<Arc<Ledger>>,
    /// Nothing is refused, everything reported.
    pub(crate) shadow_all: bool,
}

/// What a request waits for.
#[derive(Debug)]
pub enum Wait {
    /// The store that a fleet shares.
    Shared(shared::Wait),
    /// The ledger of quotas.
    Ledger(ledger::Wait),
}

/// What it has heard.
#[derive(Debug)]
pub enum Heard {
    /// From the store that a fleet shares.
    Shared(Answer),
    /// From the ledger of quotas.
    Ledger(ledger::Answer),
}

impl Wait {
    /// What is said, or that nothing is. Whoever will not decide again says so.
    pub async fn answer(self, again: bool) -> Heard {
        match self {
            Self::Shared(wait) => Heard::Shared(wait.answer(again).await),
            Self::Ledger(wait) => Heard::Ledger(wait.answer(again).await),
        }
    }
}

/// Why a request can't be decided.
#[derive(Debug)]
pub enum Undecided {
    /// There is no room for its counters.
    StoreFull(StoreFull),
    /// What is known of its org can't be read from disk.
    OrgUnreadable,
    /// The shared store is away, and some limit wants nothing decided without it.
    StoreAway,
    /// The ledger is away, and some quota wants nothing decided without it.
    LedgerAway,
    /// As many requests of its org wait for the shared store as may.
    Crowded,
    /// Its org asks more often than it may.
    TooOften(u64),
    /// The shared store or the ledger has to be heard first. Then [`Engine::resume`] goes on.
    Waits(Wait),
}

impl std::fmt::Display for Undecided {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StoreFull(full) => full.fmt(f),
            Self::OrgUnreadable => f.write_str("what is known of the org can't be read"),
            Self::StoreAway => f.write_str("the shared counters can't be reached"),
            Self::LedgerAway => f.write_str("the ledger of quotas can't be reached"),
            Self::Crowded => f.write_str("too many requests of this org wait already"),
            Self::TooOften(rate) => write!(f, "the org asks for more than {rate} decisions a second"),
            Self::Waits(_) => f.write_str("its counters have not answered"),
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
    /// A fallback decided, because the shared store is away.
    pub degraded: bool,
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
            revision: AtomicU64::new(0),
            store: Arc::new(MemoryStore::new(max_counters)),
            shared: OnceLock::new(),
            ledger: OnceLock::new(),
            shadow_all,
        })
    }

    /// From now on counts where a fleet does.
    pub fn share(&self, shared: Arc<SharedStore>) {
        let _ = self.shared.set(shared);
    }

    /// From now on has quotas kept by a ledger.
    pub fn keep_quotas(&self, ledger: Arc<Ledger>) {
        let _ = self.ledger.set(ledger);
    }

    /// Whether a request may have to wait: for a store that a fleet shares, or for the ledger.
    pub fn may_wait(&self) -> bool {
        self.shared.get().is_some() || self.ledger.get().is_some()
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

    /// Says of which revision of the catalogue the snapshot is that comes into force.
    pub fn set_revision(&self, revision: u64) {
        self.revision.store(revision, Ordering::Relaxed);
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
        let checked = self.resolve(snapshot, request, now)?;
        self.begin(checked, Whose::One(request), commit)
    }

    /// Decides what was resolved, where the counters are.
    #[inline]
    fn begin<'s>(
        &self,
        mut checked: Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
    ) -> Result<Checked<'s>, Undecided> {
        if let Some(shared) = self.shared.get() {
            return self.ask(shared, checked, whose, commit, Claim::default());
        }
        if let Some(ledger) = self.ledger.get() {
            return self.check_within(ledger, checked, whose, commit, true);
        }
        self.decide_here(&mut checked, commit)?;
        Ok(checked)
    }

    /// Decides by counters in this process.
    #[inline]
    fn decide_here(&self, checked: &mut Checked<'_>, commit: Commit) -> Result<(), Undecided> {
        let Checked {
            stack, decision, now, ..
        } = checked;
        let decided = self
            .store
            .decide(&stack.levels, &stack.formers, *now, commit, decision);
        if let Err(full) = decided {
            if !self.shadow_all {
                return Err(full.into());
            }
            // The kill switch refuses nothing, not even what there is no room to count.
            *decision = Decision::pending();
            self.store
                .decide(&stack.levels, &stack.formers, *now, Commit::DryRun, decision)?;
        }
        Ok(())
    }

    /// Goes on with a request that had to wait, by the snapshot and at the instant it began with.
    pub fn resume<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
        heard: Heard,
    ) -> Result<Checked<'s>, Undecided> {
        let checked = self.resolve(snapshot, request, now)?;
        self.go_on(checked, Whose::One(request), commit, heard)
    }

    fn go_on<'s>(
        &self,
        mut checked: Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        heard: Heard,
    ) -> Result<Checked<'s>, Undecided> {
        let answer = match (heard, self.ledger.get()) {
            (Heard::Shared(answer), _) => answer,
            (Heard::Ledger(answer), Some(ledger)) => {
                let waits = answer == ledger::Answer::Again;
                return self.check_within(ledger, checked, whose, commit, waits);
            }
            (Heard::Ledger(_), None) => return Err(Undecided::LedgerAway),
        };
        match (answer, self.shared.get()) {
            (Answer::Decided(settled), _) => {
                settled.fill(&checked.stack.levels, &mut checked.decision);
                checked.now = settled.at;
                Ok(checked)
            }
            (Answer::Again(claim), Some(shared)) => self.ask(shared, checked, whose, commit, claim),
            (Answer::Away, Some(shared)) => self.do_without(shared, checked, whose, commit),
            (_, None) => Err(Undecided::StoreAway),
        }
    }

    /// Decides a request, and waits for the shared store or the ledger if that must be.
    pub async fn check_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = self.check(snapshot, request, commit, now);
        for waits in 1..=MOST_WAITS {
            match checked {
                Err(Undecided::Waits(wait)) => {
                    let heard = wait.answer(waits < MOST_WAITS).await;
                    checked = self.resume(snapshot, request, commit, now, heard);
                }
                decided => return decided,
            }
        }
        checked
    }

    /// What applies to a request.
    #[inline]
    fn resolve<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = Checked {
            stack: snapshot.blank(),
            decision: Decision::pending(),
            now,
            degraded: false,
        };
        let stack = &mut checked.stack;
        snapshot.resolve(request, now, stack);
        self.look_over(stack)?;
        Ok(checked)
    }

    /// Refuses what can't be told, and with the kill switch nothing else.
    #[inline]
    fn look_over(&self, stack: &mut Stack<'_>) -> Result<(), Undecided> {
        if stack.unreadable && !self.shadow_all {
            return Err(Undecided::OrgUnreadable);
        }
        if self.shadow_all {
            for level in &mut stack.levels {
                level.mode = Mode::Shadow;
            }
        }
        Ok(())
    }

    fn ask<'s>(
        &self,
        shared: &Arc<SharedStore>,
        mut checked: Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        claim: Claim,
    ) -> Result<Checked<'s>, Undecided> {
        let Checked { stack, decision, .. } = &mut checked;
        let names = Names {
            stack,
            whose,
            revision: self.revision.load(Ordering::Relaxed),
        };
        match shared.decide(&names.asked(commit), claim, decision)? {
            Taken::Decided(at) => checked.now = at,
            Taken::Waits(wait) => return Err(Undecided::Waits(Wait::Shared(wait))),
            Taken::Crowded if !self.shadow_all => return Err(Undecided::Crowded),
            Taken::Away | Taken::Crowded => return self.do_without(shared, checked, whose, commit),
        }
        Ok(checked)
    }

    /// Decides while the shared store is away.
    #[cold]
    fn do_without<'s>(
        &self,
        shared: &SharedStore,
        mut checked: Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
    ) -> Result<Checked<'s>, Undecided> {
        let Checked { stack, decision, .. } = &mut checked;
        let fail = |place: usize| match stack.limits[place].fail_mode {
            FailMode::Open => Fail::Open,
            FailMode::Closed => Fail::Closed,
            FailMode::Local => Fail::Local,
        };
        let names = Names {
            stack,
            whose,
            revision: self.revision.load(Ordering::Relaxed),
        };
        *decision = Decision::pending();
        match shared.decide_away(&names.asked(commit), &fail, &self.store, decision)? {
            Fallback::Decided { at, without } => {
                checked.now = at;
                checked.degraded = !without.is_empty();
                Ok(checked)
            }
            Fallback::Closed => Err(Undecided::StoreAway),
        }
    }
}

/// A seed nobody can guess, so that nobody can make ids whose counters meet.
pub fn random_seed() -> Result<KeySeed, getrandom::Error> {
    Ok(KeySeed(getrandom::u64()?, getrandom::u64()?))
}
