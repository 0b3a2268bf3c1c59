//! The ledger's side of durable quotas: what this node holds of each, and who waits for more (docs/ledger.md).
//!
//! The engine says which quotas of a stack are short or run low; [`keeper`] asks the database in the background, one
//! transaction for all that is due. Nothing here is on the path of a request that has what it needs.

mod account;
mod accounts;
mod census;
mod decide;
mod estate;
mod keeper;
mod keeping;
#[cfg(test)]
mod model;
mod plant;
mod size;
mod terms;
#[cfg(test)]
mod tests;
mod usage;
mod wait;
mod will;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::timeout;
use tollgate_catalog::model::Accuracy;
use tollgate_catalog::repository::{Refund, Replaced, Repository};
use tollgate_core::{Algorithm, Decision, Former, KeySeed, Timestamp};
use tollgate_counters::MemoryStore;
use tollgate_counters::shared::node::Details;

use crate::names::Names;
use account::{Account, Subject};
use accounts::Accounts;
use census::Census;
use plant::{Bug, is_planted};
use terms::{Asker, InForce, Terms};

pub use estate::{Estates, Journals};
pub use keeping::Keeping;
pub use usage::{Tallies, Used};
pub use wait::{Answer, Wait};
pub use will::Wills;

/// Requests that may wait for one counter.
const MOST_WAITING: usize = 1_024;
/// How often a node that was refused asks whether others have given something back.
const ASK_AGAIN_NS: u64 = 1_000_000_000;

/// What the ledger has done, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) exchanged: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) granted: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) waited: AtomicU64,
    pub(crate) crowded: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) let_off: AtomicU64,
    /// What runs had left that ended without giving back.
    pub(crate) recovered: AtomicU64,
}

/// Why nobody can wait for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWait {
    /// It can't be reached.
    Away,
    /// As many wait as may.
    Crowded,
}

/// This node's part of the ledger.
pub struct Ledger {
    repository: Repository,
    store: Arc<MemoryStore>,
    region: String,
    /// Of this run alone, as a number and as the ledger knows it.
    run: u64,
    node: String,
    accounts: Mutex<Accounts>,
    /// What was not used of what other nodes spent, and the ledger was not told yet.
    refunds: Mutex<Vec<Refund>>,
    wake: Notify,
    away: AtomicBool,
    /// Nodes to reckon with that use the same ledger.
    nodes: AtomicU64,
    census: Mutex<Census>,
    /// From which parts of a quota on somebody is told, in percent.
    alerts: Vec<u8>,
    /// What orgs used and the database was not told yet.
    pub(crate) tallies: Tallies,
    pub(crate) counts: Counts,
    /// Whether what runs before this one have left is settled.
    settled: watch::Sender<bool>,
}

impl Ledger {
    /// A ledger in a database, for the quotas of a store. `run` is another number each time. What outlives the process is
    /// kept in the directory.
    pub fn new(
        repository: Repository,
        store: Arc<MemoryStore>,
        seed: KeySeed,
        (region, run): (&str, u64),
        directory: Option<&Path>,
        alerts: Vec<u8>,
    ) -> Self {
        let census = Census::open(directory);
        let nodes = if repository.is_shared() { census.nodes() } else { 1 };
        Self {
            repository,
            store,
            region: region.to_owned(),
            run,
            node: format!("{run:016x}"),
            accounts: Mutex::default(),
            refunds: Mutex::default(),
            wake: Notify::new(),
            away: AtomicBool::new(false),
            nodes: AtomicU64::new(nodes),
            census: Mutex::new(census),
            alerts,
            tallies: Tallies::new(seed),
            counts: Counts::default(),
            settled: watch::Sender::new(false),
        }
    }

    /// Lines up for quotas of a stack of which there is not enough here. What was waited for is then decided anew.
    pub(crate) fn ask(
        &self,
        names: &Names<'_, '_, '_>,
        short: &[usize],
        now: Timestamp,
    ) -> Result<Wait, NoWait> {
        if self.is_away() {
            return Err(NoWait::Away);
        }
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        let mut accounts = self.lock();
        for place in short {
            let held = self.account(&mut accounts, names, *place, now);
            if held.waiting.len() >= MOST_WAITING {
                self.counts.crowded.fetch_add(1, Ordering::Relaxed);
                return Err(NoWait::Crowded);
            }
            let level = &names.levels()[*place];
            held.account.needs = held.account.needs.saturating_add(level.cost);
            held.account.wanted = true;
            // They all go into the same transaction, so that one is enough to wait for.
            held.waiting.extend(sender.take());
            accounts.is_due(level.key);
        }
        drop(accounts);
        self.counts.waited.fetch_add(1, Ordering::Relaxed);
        self.wake.notify_one();
        Ok(Wait(receiver))
    }

    /// Has more of some quotas taken, before they are used up.
    #[cold]
    pub(crate) fn run_low(&self, names: &Names<'_, '_, '_>, low: &[usize], now: Timestamp) {
        let mut accounts = self.lock();
        for place in low {
            self.account(&mut accounts, names, *place, now).account.wanted = true;
            accounts.is_due(names.levels()[*place].key);
        }
        drop(accounts);
        self.wake.notify_one();
    }

    /// Has quotas that were used up looked at now and then, as long as somebody asks for them: other nodes may give
    /// back what they hold.
    pub(crate) fn denied(&self, names: &Names<'_, '_, '_>, decision: &Decision, now: Timestamp) {
        if !self.repository.is_shared() {
            return;
        }
        let levels = names.levels().iter().zip(&decision.outcomes).enumerate();
        for (place, (level, outcome)) in levels {
            if outcome.fits || !level.rule.is_quota() {
                continue;
            }
            let mut accounts = self.lock();
            let account = &mut self.account(&mut accounts, names, place, now).account;
            if now.nanos().abs_diff(account.heard.nanos()) > ASK_AGAIN_NS {
                accounts.is_due(level.key);
                self.wake.notify_one();
            }
        }
    }

    /// Has the ledger told, as soon as it answers, what quotas are about to be charged without it, even if nobody asks for
    /// them again.
    pub(crate) fn will_owe(&self, names: &Names<'_, '_, '_>, places: &[usize], now: Timestamp) {
        if is_planted(Bug::FallbackUntold) {
            return;
        }
        let mut accounts = self.lock();
        for place in places {
            self.account(&mut accounts, names, *place, now).account.touch(now);
        }
    }

    /// Has quotas that were charged for nothing given back at once, where nothing may lie unused.
    pub(crate) fn gave_up(&self, names: &Names<'_, '_, '_>, now: Timestamp) {
        let exact = |place: &usize| names.limit(*place).accuracy == Accuracy::Exact;
        for place in (0..names.levels().len()).filter(exact) {
            let mut accounts = self.lock();
            self.account(&mut accounts, names, place, now);
            accounts.is_due(names.levels()[place].key);
            self.wake.notify_one();
        }
    }

    /// Has the ledger told what of quotas that another node spent was not used after all.
    pub(crate) fn refund(&self, refunds: Vec<Refund>) {
        if !refunds.is_empty() {
            self.refunds().extend(refunds);
            self.wake.notify_one();
        }
    }

    fn refunds(&self) -> MutexGuard<'_, Vec<Refund>> {
        self.refunds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the ledger all that was spent of an org's quotas, and hears what was, before somebody looks at it.
    pub async fn refresh(&self, org: &str) {
        self.be_settled().await;
        if let Some(wait) = self.tell_of(org) {
            let _ = wait.answer(true).await;
        }
    }

    /// Waits until what runs before this one have left is settled, for as long as requests wait for the ledger.
    pub async fn be_settled(&self) {
        let mut settled = self.settled.subscribe();
        let _ = timeout(wait::PATIENCE, settled.wait_for(|settled| *settled)).await;
    }

    fn tell_of(&self, org: &str) -> Option<Wait> {
        let (sender, receiver) = oneshot::channel();
        let mut accounts = self.lock();
        let one = accounts.due_of(org)?;
        accounts.get(one)?.waiting.push(sender);
        drop(accounts);
        self.wake.notify_one();
        Some(Wait(receiver))
    }

    /// True if other nodes may count with it.
    pub(crate) fn is_shared(&self) -> bool {
        self.repository.is_shared()
    }

    /// The database.
    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The region whose quotas it keeps.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Whether the database does not answer.
    pub fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// How many nodes share the ledger, as far as is known.
    pub fn nodes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed).max(1)
    }

    /// Notes how many nodes were counted that share the ledger.
    fn note_nodes(&self, counted: u64) {
        let mut census = self.census.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = census.note(counted) {
            tracing::warn!("the number of nodes that share the quota ledger can't be kept: {error}");
        }
        self.nodes.store(census.nodes(), Ordering::Relaxed);
    }

    /// How many counters it is asked about.
    pub fn accounts(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a level, with the terms of this very stack.
    fn account<'a>(
        &self,
        accounts: &'a mut Accounts,
        names: &Names<'_, '_, '_>,
        place: usize,
        now: Timestamp,
    ) -> &'a mut accounts::Held {
        let level = &names.levels()[place];
        let shared = self.repository.is_shared();
        let held = accounts.entry(level.key, || {
            let subject = Subject {
                key: level.key,
                home: level.home,
                name: names.name(place).0,
                org: names.org(place).to_owned(),
                policy: names.limit(place).policy_id().to_owned(),
                label: names.label(place),
                asker: Some(Asker::of(names.request(place))),
            };
            let mut fresh = false;
            let _ = self.store.amend(level.key, level.home, now, |cell| {
                fresh = cell.is_none();
                None
            });
            Account::new(subject, self.terms(names, place, now), shared, fresh, now)
        });
        if !is_planted(Bug::TermsStay) {
            held.account.renew(InForce::of(names, place), now);
        }
        let policy = names.limit(place).policy_id();
        if held.account.subject.policy != policy {
            policy.clone_into(&mut held.account.subject.policy);
            held.account.subject.asker = Some(Asker::of(names.request(place)));
            held.account.subject.label = names.label(place);
            held.account.relabel = true;
        }
        held
    }

    /// Takes what this node holds of a counter that is replaced out of its cell.
    fn retire(&self, former: &Former<'_>, now: Timestamp) -> u64 {
        let mut held = 0;
        let _ = self.store.amend(former.key, former.home, now, |cell| {
            let cell = cell.filter(|cell| cell.0[0] > now.nanos())?;
            held = cell.unspent();
            if let Some(journal) = self.store.journal() {
                journal.take(former.key, held);
            }
            Some(cell.without(held))
        });
        held
    }

    fn terms(&self, names: &Names<'_, '_, '_>, place: usize, now: Timestamp) -> Terms {
        let level = &names.levels()[place];
        let formers = names.formers().iter().enumerate();
        let formers = formers.filter(|(_, former)| former.level == place);
        let period = match level.rule.algorithm {
            Algorithm::Quota(period) => period,
            _ => tollgate_core::Period::Day,
        };
        Terms {
            limit: level.rule.limit,
            period,
            zone: level.calendar.zone.clone(),
            anchor: *level.calendar.anchor,
            exact: names.limit(place).accuracy == Accuracy::Exact,
            room: self
                .store
                .room_left(level, formers.clone().map(|(_, former)| former), now),
            formers: formers
                .filter(|(_, former)| former.whole && former.rule.is_quota())
                .map(|(number, former)| Replaced {
                    name: names.former(number).0,
                    limit: former.rule.limit,
                    held: self.retire(former, now),
                })
                .collect(),
        }
    }
}
