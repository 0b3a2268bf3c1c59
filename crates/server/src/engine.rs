//! The engine: a snapshot that resolves, a store that decides.
//!
//! Everything that asks for a decision comes through here: the data plane, the simulator of `tollgate
//! simulate`, tests and benchmarks.

mod apart;
mod checked;
mod fleet;
mod lease;
mod throttle;
mod together;
mod wait;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use tollgate_catalog::Request;
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::snapshot::{Snapshot, Stack};
use tollgate_core::{CounterKey, Decision, Former, KeySeed, Level, Mode, Timestamp};
use tollgate_counters::shared::SharedStore;
use tollgate_counters::{Commit, Holds, MemoryStore, OfLedger, StoreFull, Within};

use crate::clock;
use crate::ledger::{self, Ledger};
use crate::names::{Names, Whose};
use crate::reservations::{Actual, Bill, Records};

pub use apart::Held;
pub(crate) use apart::Selection;
pub use checked::Checked;
pub use throttle::{Throttling, Unthrottled};
pub(crate) use together::Joined;
pub use together::{Part, Resumed, Together};
pub use wait::{DeskWait, Done, Heard, Patience, Undecided, Wait};

/// Counters held at most unless configured: about 730 MB.
pub const DEFAULT_MAX_COUNTERS: usize = 10_000_000;

/// A request that has to wait more often does without. It may have to once for each counter that spans orgs, since each
/// lives by itself.
pub(crate) const MOST_WAITS: u32 = 64;

/// The snapshot in force and the counters.
pub struct Engine {
    seed: KeySeed,
    /// What the keys of throttles have in common.
    throttles: CounterKey,
    snapshot: ArcSwap<Snapshot>,
    /// The catalogue's revision that the snapshot is of; 0 without one.
    revision: AtomicU64,
    /// How often a snapshot was put in force that may say something else.
    changes: AtomicU64,
    /// The counters, or while a shared store is away those that are kept here meanwhile.
    pub store: Arc<MemoryStore>,
    /// The counters of a fleet.
    shared: OnceLock<Arc<SharedStore>>,
    /// What the fleet has on record of charges.
    pub(crate) records: OnceLock<Records>,
    /// What keeps the counters of quotas.
    pub(crate) ledger: OnceLock<Arc<Ledger>>,
    /// Nothing is refused, everything reported.
    pub(crate) shadow_all: bool,
}

/// Where a decision goes, and what it charges if that may be given back.
pub(crate) struct Deciding<'a> {
    pub(crate) decision: &'a mut Decision,
    pub(crate) held: Option<&'a mut Holds>,
}

/// When a store decided, and whether a fallback did.
#[derive(Clone, Copy)]
struct Said {
    at: Timestamp,
    degraded: bool,
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
            throttles: throttle::world(seed),
            snapshot: ArcSwap::from_pointee(snapshot),
            revision: AtomicU64::new(0),
            changes: AtomicU64::new(1),
            store: Arc::new(MemoryStore::new(max_counters)),
            shared: OnceLock::new(),
            records: OnceLock::new(),
            ledger: OnceLock::new(),
            shadow_all,
        })
    }

    /// From now on counts where a fleet does.
    pub fn share(&self, shared: Arc<SharedStore>) {
        let _ = self.shared.set(shared);
    }

    /// From now on has charges that may be given back on record where a fleet does.
    pub fn keep_records(&self, records: Records) {
        let _ = self.records.set(records);
    }

    /// Has the statement say what a request really cost.
    pub(crate) fn correct(&self, bill: &Bill, actual: &Actual) {
        if let Some(ledger) = self.ledger.get() {
            let more = i128::from(actual.cost) - i128::from(bill.cost());
            let more = i64::try_from(more).unwrap_or(0);
            ledger
                .tallies
                .correct(&bill.request(), bill.class(), bill.at(), more);
        }
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
        self.reinstall(snapshot);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Puts a snapshot in force that says the same as the one before.
    pub fn reinstall(&self, snapshot: Snapshot) {
        self.store.heed(snapshot.slowings());
        self.snapshot.store(Arc::new(snapshot));
    }

    /// The number of changes of policies so far; never 0.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Decides a request.
    pub fn check<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = Checked::blank(snapshot, now);
        self.check_into(snapshot, request, commit, &mut checked)?;
        Ok(checked)
    }

    /// The same into a blank one, where it is asked for so often that each move of it shows.
    #[inline]
    pub fn check_into<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        checked: &mut Checked<'s>,
    ) -> Result<(), Undecided> {
        self.resolve(snapshot, request, checked)?;
        self.begin(checked, Whose::One(request), commit)
    }

    /// Decides the next of several requests, by the snapshot that the one before was decided by.
    #[inline]
    pub fn check_next<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
        checked: &mut Checked<'s>,
    ) -> Result<(), Undecided> {
        checked.renew(now);
        snapshot.resolve_next(request, now, &mut checked.stack);
        self.look_over(&mut checked.stack)?;
        self.begin(checked, Whose::One(request), commit)
    }

    /// Decides what was resolved, where the counters are.
    #[inline]
    fn begin<'s>(
        &self,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
    ) -> Result<(), Undecided> {
        match (self.shared.get(), self.ledger.get()) {
            (None, None) if checked.held.is_none() => self.decide_plainly(checked, commit),
            (None, None) => self.decide_here(checked, commit),
            (None, Some(ledger)) => self.check_within(ledger, checked, whose, commit, true),
            (Some(shared), None) => self.check_shared(shared, checked, whose, commit),
            (Some(shared), Some(ledger)) => self.check_apart((shared, ledger), checked, whose, commit, true),
        }
    }

    /// Decides by counters in this process what is not to be given back.
    #[inline]
    fn decide_plainly(&self, checked: &mut Checked<'_>, commit: Commit) -> Result<(), Undecided> {
        let (stack, now) = (&checked.stack, checked.now);
        let decided = self
            .store
            .decide(&stack.levels, &stack.formers, now, commit, &mut checked.decision);
        match decided {
            Ok(()) => Ok(()),
            Err(full) => self.decide_without_room(checked, full),
        }
    }

    /// The kill switch refuses nothing, not even what there is no room to count.
    #[cold]
    fn decide_without_room(&self, checked: &mut Checked<'_>, full: StoreFull) -> Result<(), Undecided> {
        if !self.shadow_all {
            return Err(full.into());
        }
        let (stack, now) = (&checked.stack, checked.now);
        checked.decision = Decision::pending();
        let (levels, formers) = (&stack.levels, &stack.formers);
        self.store
            .decide(levels, formers, now, Commit::DryRun, &mut checked.decision)?;
        Ok(())
    }

    /// Decides by counters in this process.
    fn decide_here(&self, checked: &mut Checked<'_>, commit: Commit) -> Result<(), Undecided> {
        let Checked {
            stack,
            decision,
            now,
            held,
            ..
        } = checked;
        let mut deciding = Deciding {
            decision,
            held: held.as_deref_mut(),
        };
        let parts = (&*stack.levels, &*stack.formers);
        match self.decide_in_store(parts, *now, commit, None, &mut deciding) {
            Ok(_) => Ok(()),
            Err(full) => self.decide_without_room(checked, full),
        }
    }

    /// Has the store decide a stack: within what a ledger allows if it keeps the quotas, and with what is charged held if
    /// it may be given back.
    #[inline]
    pub(crate) fn decide_in_store(
        &self,
        (levels, formers): (&[Level<'_>], &[Former<'_>]),
        now: Timestamp,
        commit: Commit,
        quotas: Option<&mut OfLedger<'_>>,
        deciding: &mut Deciding<'_>,
    ) -> Result<Within, StoreFull> {
        let decision = &mut *deciding.decision;
        match (&mut deciding.held, quotas) {
            (Some(holds), quotas) if commit == Commit::Charge => {
                self.store
                    .decide_held((levels, formers), now, decision, quotas, holds)
            }
            (_, Some(quotas)) => self
                .store
                .decide_within(levels, formers, now, commit, decision, quotas),
            (_, None) => {
                self.store.decide(levels, formers, now, commit, decision)?;
                Ok(Within::Decided)
            }
        }
    }

    /// Decides and charges a request so that it may be given back, perhaps after it had to wait.
    pub fn check_held<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        now: Timestamp,
        heard: Option<Heard>,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = Checked::blank(snapshot, now);
        self.resolve(snapshot, request, &mut checked)?;
        checked.held = Some(Box::default());
        checked.charges = self.shared.get().map(|_| Box::default());
        match heard {
            None => self.begin(&mut checked, Whose::One(request), Commit::Charge)?,
            Some(heard) => self.go_on(&mut checked, Whose::One(request), Commit::Charge, heard)?,
        }
        Ok(checked)
    }

    /// The same, waiting if that must be.
    pub async fn check_held_in_time<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut checked = self.check_held(snapshot, request, now, None);
        let mut patience = Patience::default();
        while !patience.is_over() {
            match checked {
                Err(Undecided::Waits(wait)) => {
                    let heard = wait.answer(&mut patience).await;
                    checked = self.check_held(snapshot, request, now, Some(heard));
                }
                decided => return decided,
            }
        }
        checked
    }

    /// Whether a fleet counts.
    pub fn is_shared(&self) -> bool {
        self.shared.get().is_some()
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
        let mut checked = Checked::blank(snapshot, now);
        self.resolve(snapshot, request, &mut checked)?;
        self.go_on(&mut checked, Whose::One(request), commit, heard)?;
        Ok(checked)
    }

    fn go_on<'s>(
        &self,
        checked: &mut Checked<'s>,
        whose: Whose<'_, 's, '_>,
        commit: Commit,
        heard: Heard,
    ) -> Result<(), Undecided> {
        match (heard, self.shared.get(), self.ledger.get()) {
            (Heard::Ledger(answer), shared, Some(ledger)) => {
                let may_wait = answer == ledger::Answer::Again;
                match shared {
                    None => self.check_within(ledger, checked, whose, commit, may_wait),
                    Some(shared) => self.check_apart((shared, ledger), checked, whose, commit, may_wait),
                }
            }
            (Heard::Shared(answer, Some(held)), Some(shared), _) => {
                self.go_on_apart(shared, checked, whose, commit, answer, *held)
            }
            (Heard::Shared(answer, None), Some(shared), _) => {
                let Checked {
                    stack,
                    decision,
                    charges,
                    ..
                } = checked;
                let names = Names {
                    charges: charges.as_deref(),
                    ..self.names(stack, None, whose)
                };
                let said = self.hear(shared, &names, commit, answer, decision)?;
                checked.was_said(said);
                Ok(())
            }
            (Heard::Ledger(_), _, None) => Err(Undecided::LedgerAway),
            (Heard::Shared(..), None, _) | (Heard::Desk(_), ..) => Err(Undecided::StoreAway),
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
        match self.check(snapshot, request, commit, now) {
            Err(Undecided::Waits(wait)) => self.check_after(wait, snapshot, request, commit, now).await,
            decided => decided,
        }
    }

    /// Decides a request that has to wait first.
    pub async fn check_after<'s>(
        &self,
        mut wait: Wait,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        commit: Commit,
        now: Timestamp,
    ) -> Result<Checked<'s>, Undecided> {
        let mut patience = Patience::default();
        while !patience.is_over() {
            let heard = wait.answer(&mut patience).await;
            match self.resume(snapshot, request, commit, now, heard) {
                Err(Undecided::Waits(again)) => wait = again,
                decided => return decided,
            }
        }
        Err(Undecided::Waits(wait))
    }

    /// What applies to a request.
    #[inline]
    fn resolve<'s>(
        &self,
        snapshot: &'s Snapshot,
        request: &Request<'_>,
        checked: &mut Checked<'s>,
    ) -> Result<(), Undecided> {
        snapshot.resolve(request, checked.now, &mut checked.stack);
        self.look_over(&mut checked.stack)
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

    /// What is asked about of a stack, by the policies in force.
    fn names<'a, 's, 'r>(
        &self,
        stack: &'a Stack<'s>,
        only: Option<&'a Selection<'s>>,
        whose: Whose<'a, 's, 'r>,
    ) -> Names<'a, 's, 'r> {
        Names {
            stack,
            only,
            whose,
            revision: self.revision.load(Ordering::Relaxed),
            charges: None,
        }
    }
}

/// A seed nobody can guess, so that nobody can make ids whose counters meet.
pub fn random_seed() -> Result<KeySeed, getrandom::Error> {
    Ok(KeySeed::new(getrandom::u64()?, getrandom::u64()?))
}
