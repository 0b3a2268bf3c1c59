//! Who talks to the database: in the background, about everything that is due at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;
use tollgate_catalog::repository::{Ask, Done, Exchange, Refund, RepositoryError, Told, Unsettled, Usage};
use tollgate_core::{Cell, CounterKey, Timestamp};
use tollgate_counters::memory::Journal;

use super::Ledger;
use super::account::{Draft, Why};
use super::estate::Estates;
use super::plant::{Bug, is_planted};
use super::usage::Untold;
use super::wait::Answer;
use crate::clock;
use crate::engine::Engine;

/// Counters in one transaction.
const MOST: usize = 10_000;
/// How many slices of all accounts are looked at, each account about once a second.
const SLICES: usize = 10;
const MOST_LOOKED_AT: usize = 20_000;
/// Lines of refused usage that are logged one by one after an exchange.
const MAX_REPORTED: usize = 10;
/// How often what was used is told.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long the database may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to leave it alone after it did not answer.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a node says that it is alive and looks who else uses the ledger, and how often it is tidied.
const COUNT_EVERY: Duration = Duration::from_secs(5);
const TIDY_EVERY: Duration = Duration::from_hours(1);

/// What is said to the ledger at once, and who waits for it.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) number: i64,
    pub(super) drafts: Vec<(CounterKey, Draft)>,
    pub(super) usage: Vec<Usage>,
    pub(super) refunds: Vec<Refund>,
    /// What was granted for counters that there was no room for.
    pub(super) unsettled: Vec<Unsettled>,
    waiting: Vec<oneshot::Sender<Answer>>,
}

impl Batch {
    /// Whether it says nothing.
    fn is_empty(&self) -> bool {
        self.drafts.is_empty()
            && self.usage.is_empty()
            && self.refunds.is_empty()
            && self.unsettled.is_empty()
    }
}

/// The keeper of a ledger.
pub(super) struct Keeper {
    pub(super) ledger: Arc<Ledger>,
    /// Whose policies say what limits the counters.
    engine: Arc<Engine>,
    number: i64,
    /// The last exchange that is known to be done.
    pub(super) heard: i64,
    /// A batch of which nobody knows whether it was done.
    unknown: Option<Batch>,
    paused_until: Option<Instant>,
    pub(super) untold: Untold,
    told: Option<Instant>,
    /// What was granted for counters that there was no room for, until the ledger has it back.
    pub(super) unplaced: Vec<Unsettled>,
    estates: Estates,
}

impl Keeper {
    pub(super) fn new(ledger: Arc<Ledger>, engine: Arc<Engine>, estates: Estates) -> Self {
        ledger.settled.send_replace(estates.is_empty());
        Self {
            ledger,
            engine,
            number: 0,
            heard: 0,
            unknown: None,
            paused_until: None,
            untold: Untold::default(),
            told: None,
            unplaced: Vec::new(),
            estates,
        }
    }

    /// Asks about all that is due.
    pub(super) async fn serve(&mut self) {
        loop {
            let due = self.ledger.lock().take_due(MOST);
            let gives_back = !self.ledger.refunds().is_empty() || !self.unplaced.is_empty();
            if due.is_empty() && !gives_back || !self.exchange(&due, Why::Asked).await {
                return;
            }
            if !self.ledger.lock().has_due() {
                return;
            }
        }
    }

    /// Looks at a slice of all accounts: tells what was spent of them, takes more, and forgets what is over.
    pub(super) async fn look(&mut self) {
        let slice = self.slice();
        self.exchange(&slice, Why::Look).await;
        self.forget(&slice, clock::now());
    }

    /// The next accounts to be looked at.
    pub(super) fn slice(&self) -> Vec<CounterKey> {
        let mut accounts = self.ledger.lock();
        let most = accounts.len().div_ceil(SLICES).min(MOST_LOOKED_AT);
        accounts.slice(most)
    }

    /// Forgets accounts whose period is over and that nobody uses, and their cells with them: what was counted in a cell
    /// says nothing to an account that is made later. What was let through in the present period is to be told first.
    pub(super) fn forget(&self, keys: &[CounterKey], now: Timestamp) {
        let mut accounts = self.ledger.lock();
        for key in keys {
            let Some(home) = accounts.unused(*key, now) else {
                continue;
            };
            let mut over = false;
            let _ = self.ledger.store.amend(*key, home, now, |cell| {
                over = cell.is_none_or(|cell| cell.0[0] <= now.nanos());
                if let Some(journal) = self.journal().filter(|_| over) {
                    journal.forget(*key);
                }
                let blank = over && !is_planted(Bug::OldCellOwed);
                cell.filter(|_| blank).map(|_| Cell::default())
            });
            if over {
                accounts.forget(*key);
            }
        }
    }

    /// Says whether the database has heard it all.
    pub(super) async fn give_all(&mut self) -> bool {
        self.paused_until = None;
        let all = self.ledger.lock().all();
        let mut heard = true;
        for part in all.chunks(MOST) {
            heard &= self.exchange(part, Why::Ending).await;
        }
        // What was used is told even where no quota is.
        heard &= self.exchange(&[], Why::Ending).await;
        while heard && !self.untold.is_empty() {
            heard = self.exchange(&[], Why::Ending).await;
        }
        heard
    }

    /// Leaves what the ledger was not told to the next run. Says whether nothing is missing.
    pub(super) fn leave(&mut self) -> bool {
        let Some(path) = self.estates.own().cloned() else {
            return false;
        };
        let unknown = self.unknown.take();
        let will = self.will(unknown.as_ref(), self.number, clock::now());
        if will.is_empty() {
            return true;
        }
        match will.write(&path) {
            Ok(()) => {
                let file = path.display();
                tracing::warn!(
                    "the quota ledger does not answer: what it was not told is in {file}, and is told when this server starts again"
                );
                true
            }
            Err(error) => {
                tracing::warn!("{}: {error}", path.display());
                false
            }
        }
    }

    /// Settles what runs before this one have left. What the database does not answer is tried again later.
    pub(super) async fn settle(&mut self) {
        if self.estates.is_empty() || self.paused_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        match self.estates.settle(&self.ledger).await {
            Ok(()) => _ = self.ledger.settled.send_replace(true),
            Err(error) => self.fail(&error),
        }
    }

    pub(super) fn journal(&self) -> Option<&Journal> {
        self.ledger.store.journal()
    }

    /// One transaction about some accounts. Says whether the database answered.
    async fn exchange(&mut self, keys: &[CounterKey], why: Why) -> bool {
        // Also while the database is unavailable: a limit that was raised meanwhile, and lowered again, is not missed.
        self.ledger.renew(&self.engine, keys, why, clock::now());
        if self.paused_until.is_some_and(|until| Instant::now() < until) {
            self.put_off(keys, why);
            return false;
        }
        if let Err(error) = self.find_out().await {
            self.put_off(keys, why);
            self.fail(&error);
            return false;
        }
        // Before anything is noted of what this exchange will tell.
        if let Some(journal) = self.journal() {
            journal.begin(self.number + 1);
        }
        let mut batch = self.batch(keys, why, clock::now());
        let telling = |keeper: &mut Self| !keeper.untold.is_empty() || is_time(&mut keeper.told, TELL_EVERY);
        if why == Why::Ending || why == Why::Look && telling(self) {
            batch.usage = self.untold.take(&self.ledger.tallies);
        }
        batch.refunds = std::mem::take(&mut *self.ledger.refunds());
        batch.unsettled = std::mem::take(&mut self.unplaced);
        if batch.is_empty() && !self.ledger.is_away() {
            return true;
        }
        self.number += 1;
        batch.number = self.number;
        let sent = send(&self.ledger, self.unknown.insert(batch)).await;
        match sent {
            Ok(told) => {
                self.report_refused_usage();
                if let Some(batch) = self.unknown.take() {
                    self.hear(batch, &told, clock::now());
                }
                true
            }
            Err(error) => {
                for waiter in self.unknown.iter_mut().flat_map(|batch| batch.waiting.drain(..)) {
                    let _ = waiter.send(Answer::Away);
                }
                self.put_off(keys, why);
                self.fail(&error);
                false
            }
        }
    }

    /// Logs and counts usage that the database refused. Whoever it is of, it is in no statement.
    fn report_refused_usage(&self) {
        for (number, refused) in self.ledger.repository.take_refused_usage().iter().enumerate() {
            let (used, error) = (&refused.used, &refused.error);
            self.ledger.tallies.lose(used.allowed, used.denied);
            if number < MAX_REPORTED {
                tracing::error!(
                    "the database refuses usage of org {:?}, which will be in no statement: {} allowed, {} denied, cost \
                     {}: {error}",
                    used.org,
                    used.allowed,
                    used.denied,
                    used.cost
                );
            }
        }
    }

    pub(super) fn batch(&self, keys: &[CounterKey], why: Why, now: Timestamp) -> Batch {
        let mut batch = Batch::default();
        let mut accounts = self.ledger.lock();
        for key in keys {
            let Some(held) = accounts.get(*key) else { continue };
            let mut draft = None;
            let account = &mut held.account;
            let home = account.subject.home;
            let place = batch.drafts.len();
            let _ = self.ledger.store.amend(*key, home, now, |cell| {
                let (drafted, changed) = account.draft(cell, now, why)?;
                if let Some(journal) = self.journal() {
                    let telling = Some(drafted.telling(place));
                    journal.write(*key, &account.note(changed.or(cell), telling));
                }
                draft = Some(drafted);
                changed
            });
            if let Some(draft) = draft {
                batch.waiting.append(&mut held.waiting);
                batch.drafts.push((*key, draft));
            }
        }
        batch
    }

    pub(super) fn hear(&mut self, batch: Batch, told: &[Told], now: Timestamp) {
        let ledger = self.ledger.clone();
        let counts = &ledger.counts;
        self.heard = batch.number;
        let mut accounts = ledger.lock();
        for ((key, draft), told) in batch.drafts.iter().zip(told) {
            let Some(held) = accounts.get(*key) else { continue };
            let account = &mut held.account;
            let home = account.subject.home;
            let change = |cell| {
                let heard = account.hear(draft, told, cell, now);
                if let Some(journal) = ledger.store.journal() {
                    // A cell that is ahead of the ledger can't be given back to it.
                    let same = heard.filter(|cell| cell.0[0] == told.row.ends);
                    journal.write(*key, &account.note(same, None));
                }
                heard
            };
            if ledger.store.amend(*key, home, now, change).is_err() {
                // There was room when it was asked for. Nobody can spend what was granted, so it goes back.
                if let Some(journal) = ledger.store.journal() {
                    journal.forget(*key);
                }
                self.unplaced.extend(account.lose_cell(told));
            }
            counts.granted.fetch_add(told.granted, Ordering::Relaxed);
            counts.returned.fetch_add(draft.ask.gives, Ordering::Relaxed);
        }
        drop(accounts);
        counts.exchanged.fetch_add(1, Ordering::Relaxed);
        if ledger.away.swap(false, Ordering::Relaxed) {
            tracing::info!("the quota ledger answers again");
        }
        self.paused_until = None;
        for waiter in batch.waiting {
            let _ = waiter.send(Answer::Again);
        }
    }

    /// Finds out whether a batch was done whose answer was lost, if there is one.
    async fn find_out(&mut self) -> Result<(), RepositoryError> {
        if self.unknown.is_none() {
            return Ok(());
        }
        let ledger = &self.ledger;
        let now = clock::now();
        let last = timeout(PATIENCE, ledger.repository.last_exchange(&ledger.node, now)).await;
        let last = last.unwrap_or(Err(RepositoryError::Late))?;
        if let Some(batch) = self.unknown.take() {
            self.found(&batch, &last, clock::now());
        }
        Ok(())
    }

    /// Goes on with a batch whose answer was lost, knowing what was last done.
    pub(super) fn found(&mut self, batch: &Batch, last: &Done, now: Timestamp) {
        let ledger = &self.ledger;
        let done = last.number >= batch.number;
        self.heard = self.heard.max(last.number);
        let mut accounts = ledger.lock();
        for (place, (key, draft)) in batch.drafts.iter().enumerate() {
            if let Some(held) = accounts.get(*key) {
                let account = &mut held.account;
                let home = account.subject.home;
                let granted = last.granted.get(place).copied();
                let granted = done.then(|| granted.unwrap_or_else(|| account.granted_nothing()));
                let change = |cell| {
                    let found = account.find_out(draft, granted, cell);
                    if let Some(journal) = ledger.store.journal() {
                        journal.write(*key, &account.note(found.or(cell), None));
                    }
                    found
                };
                let _ = ledger.store.amend(*key, home, now, change);
            }
        }
        drop(accounts);
        if !done {
            // What the database refused was told to nobody either.
            drop(self.ledger.repository.take_refused_usage());
            self.untold.put_back(&batch.usage);
            self.ledger.refunds().extend(&batch.refunds);
            self.unplaced.extend(&batch.unsettled);
        }
        self.report_refused_usage();
    }

    /// What was due stays so; whoever waits has waited for nothing.
    pub(super) fn put_off(&self, keys: &[CounterKey], why: Why) {
        if why != Why::Asked {
            return;
        }
        let mut accounts = self.ledger.lock();
        for key in keys {
            if let Some(held) = accounts.get(*key) {
                held.account.wanted = true;
                held.account.needs = 0;
                for waiter in held.waiting.drain(..) {
                    let _ = waiter.send(Answer::Away);
                }
            }
            accounts.is_due(*key);
        }
    }

    fn fail(&mut self, error: &RepositoryError) {
        self.ledger.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.paused_until = Some(Instant::now() + PAUSE);
        if !self.ledger.away.swap(true, Ordering::Relaxed) {
            tracing::error!("the quota ledger can't be reached: {error}");
        }
    }

    /// Counts the nodes that share the ledger.
    pub(super) fn count(&self, counted: &mut Option<Instant>) {
        let ledger = &self.ledger;
        if ledger.is_away() || !is_time(counted, COUNT_EVERY) || !ledger.repository.is_shared() {
            return;
        }
        // Whoever waits for a quota must not wait for this.
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let count = async {
                let now = clock::now();
                if !is_planted(Bug::QuietNodesGone) {
                    ledger.repository.note_alive(&ledger.node, now).await?;
                }
                ledger.repository.ledger_nodes(now).await
            };
            if let Ok(Ok(nodes)) = timeout(PATIENCE, count).await {
                ledger.note_nodes(nodes);
            }
        });
    }

    pub(super) async fn tidy(&self, tidied: &mut Option<Instant>) {
        if !self.ledger.is_away() && is_time(tidied, TIDY_EVERY) {
            // Only housekeeping: what it leaves, the next one finds.
            let _ = timeout(PATIENCE, self.ledger.repository.tidy_ledger(clock::now())).await;
        }
    }
}

/// Says all that a batch has to say.
async fn send(ledger: &Ledger, batch: &Batch) -> Result<Vec<Told>, RepositoryError> {
    let asks: Vec<Ask> = batch.drafts.iter().map(|(_, draft)| draft.ask.clone()).collect();
    let exchange = Exchange {
        region: &ledger.region,
        node: &ledger.node,
        lives: true,
        number: batch.number,
        now: clock::now(),
        asks: &asks,
        usage: &batch.usage,
        refunds: &batch.refunds,
        unsettled: &batch.unsettled,
        alerts: &ledger.alerts,
    };
    let answer = timeout(PATIENCE, ledger.repository.exchange(&exchange)).await;
    answer.unwrap_or(Err(RepositoryError::Late))
}

/// Whether it is time again.
fn is_time(last: &mut Option<Instant>, every: Duration) -> bool {
    let due = last.is_none_or(|last| last.elapsed() >= every);
    if due {
        *last = Some(Instant::now());
    }
    due
}
