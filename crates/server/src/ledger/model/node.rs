//! A node: an engine with its ledger, and a keeper that says to the database what one says in a server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tollgate_catalog::Request;
use tollgate_catalog::model::PolicySet;
use tollgate_catalog::repository::{LedgerName, Repository};
use tollgate_core::{Allowance, CounterKey, KeySeed, Timestamp};
use tollgate_counters::Commit;

use super::database::{ALERTS, Database};
use super::judge::Judge;
use crate::engine::{Engine, Heard, Undecided, Wait};
use crate::ledger::account::Why;
use crate::ledger::estate::Estates;
use crate::ledger::keeper::{Batch, Keeper};
use crate::ledger::plant::{Bug, is_planted};
use crate::ledger::will::Will;
use crate::ledger::{Answer, Ledger};

/// How often a node says that it is alive, and counts the others.
const COUNT_EVERY_NS: u64 = 5_000_000_000;
/// What is added to a run's number for whoever tells what it has left.
const HEIR: u64 = 1 << 32;
/// Requests wait no more often.
const MAX_WAITS: usize = 4;

/// What becomes of what is said to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It never came.
    Lost,
    /// It was done, but the answer never came.
    Unheard,
}

/// What was answered to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// Let through, in the period that ends then, and perhaps without the ledger.
    Allowed {
        end: u64,
        fallback: bool,
    },
    Denied,
    /// 503.
    Unavailable,
}

pub(super) struct Node {
    /// Of this run alone.
    pub(super) run: u64,
    engine: Arc<Engine>,
    ledger: Arc<Ledger>,
    keeper: Keeper,
    number: i64,
    unknown: Option<Batch>,
    counted: Option<u64>,
    /// What runs before it have left to be told.
    pub(super) wills: Vec<Will>,
}

/// What surrounds a node at an instant.
pub(super) struct Around<'a> {
    pub(super) database: &'a mut Database,
    pub(super) judge: &'a mut Judge,
    pub(super) fate: Fate,
    pub(super) now: Timestamp,
}

impl Node {
    pub(super) fn start(run: u64, set: &PolicySet, directory: &Path, wills: Vec<Will>) -> Self {
        let engine = Engine::new(set, KeySeed::new(run, 1), 100_000, false).unwrap();
        let engine = Arc::new(engine);
        let repository = Repository::later("postgres://127.0.0.1:1/nobody").unwrap();
        let ledger = Arc::new(Ledger::new(
            repository,
            engine.store.clone(),
            engine.seed(),
            ("local", run),
            Some(directory),
            ALERTS.to_vec(),
        ));
        engine.keep_quotas(ledger.clone());
        let keeper = Keeper::new(ledger.clone(), engine.clone(), Estates::default());
        Self {
            run,
            engine,
            ledger,
            keeper,
            number: 0,
            unknown: None,
            counted: None,
            wills,
        }
    }

    pub(super) fn install(&self, set: &PolicySet) {
        self.engine.install(self.engine.compile(set).unwrap());
    }

    /// Decides a request, and waits for the ledger if that must be.
    pub(super) fn check(&mut self, request: &Request<'_>, around: &mut Around<'_>) -> Answered {
        let (engine, now) = (self.engine.clone(), around.now);
        let snapshot = engine.snapshot_full();
        let mut checked = engine.check(&snapshot, request, Commit::Charge, now);
        for waits in 1..=MAX_WAITS {
            if !matches!(checked, Err(Undecided::Waits(Wait::Ledger(_)))) {
                break;
            }
            let heard = self.serve(around) && waits < MAX_WAITS;
            let answer = if heard { Answer::Again } else { Answer::Away };
            checked = engine.resume(&snapshot, request, Commit::Charge, now, Heard::Ledger(answer));
        }
        match checked {
            Ok(checked) if checked.decision.allowed => {
                let cell = checked.decision.outcomes[0].cell;
                let covered = Allowance::of(cell).is_some_and(|allowance| allowance.covers(cell.count(), 0));
                Answered::Allowed {
                    end: cell.0[0],
                    fallback: !covered,
                }
            }
            Ok(_) => Answered::Denied,
            Err(Undecided::LedgerAway) => Answered::Unavailable,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Asks about all that is due. Says whether the database answered.
    fn serve(&mut self, around: &mut Around<'_>) -> bool {
        let due = self.ledger.lock().take_due(usize::MAX);
        due.is_empty() || self.exchange(&due, Why::Asked, around)
    }

    /// What a keeper does again and again.
    pub(super) fn tick(&mut self, around: &mut Around<'_>) {
        self.serve(around);
        let slice = self.keeper.slice();
        self.exchange(&slice, Why::Look, around);
        self.keeper.forget(&slice, around.now);
        let now = around.now.nanos();
        let due = self
            .counted
            .is_none_or(|counted| now.saturating_sub(counted) >= COUNT_EVERY_NS);
        if due && around.database.available && !self.ledger.is_away() {
            self.counted = Some(now);
            if !is_planted(Bug::QuietNodesGone) {
                around.database.note_alive(self.run, around.now);
            }
            self.ledger.note_nodes(around.database.count(around.now));
        }
    }

    /// The counters that it has heard of, and the ends of their periods.
    pub(super) fn known(&self) -> Vec<(LedgerName, u64)> {
        let mut accounts = self.ledger.lock();
        let all = accounts.all();
        let known = |key| {
            let account = &accounts.get(key)?.account;
            Some((account.subject.name, account.end))
        };
        all.into_iter().filter_map(known).collect()
    }

    /// Forgets cells that are over.
    pub(super) fn sweep(&self, now: Timestamp) {
        for _ in 0..256 {
            self.engine.store.sweep(4_096, now);
        }
    }

    /// Gives everything back. Says whether the database has heard it all.
    pub(super) fn end(&mut self, around: &mut Around<'_>) -> bool {
        let all = self.ledger.lock().all();
        self.exchange(&all, Why::Ending, around) && self.unknown.is_none()
    }

    /// Leaves to the next run what it could not tell, as a file has it.
    pub(super) fn leave(&mut self, now: Timestamp) -> Vec<Will> {
        let unknown = self.unknown.take();
        let will = self.keeper.will(unknown.as_ref(), self.number, now);
        let text = serde_json::to_string(&will).unwrap();
        self.wills.push(serde_json::from_str(&text).unwrap());
        std::mem::take(&mut self.wills)
    }

    /// Tells what runs before it have left. Says whether that is done, as far as it knows.
    fn settle(&mut self, around: &mut Around<'_>) -> bool {
        if self.wills.is_empty() {
            return true;
        }
        if !around.database.available || around.fate == Fate::Lost {
            return false;
        }
        for will in &self.wills {
            let run = will.run();
            let heir = run + HEIR;
            let told = around.database.last(heir).number;
            let parts = will.parts(&around.database.last(run));
            for (part, number) in parts.iter().zip(1..).filter(|(_, number)| *number > told) {
                let database = &mut *around.database;
                database.tell(heir, number, part, around.now, around.judge);
            }
        }
        let heard = around.fate == Fate::Answered;
        if heard {
            self.wills.clear();
        }
        heard
    }

    fn exchange(&mut self, keys: &[CounterKey], why: Why, around: &mut Around<'_>) -> bool {
        let now = around.now;
        self.ledger.renew(&self.engine, keys, why, now);
        if !self.settle(around) {
            self.keeper.put_off(keys, why);
            self.ledger.away.store(true, Ordering::Relaxed);
            return false;
        }
        if let Some(batch) = self.unknown.take() {
            if !around.database.available {
                self.unknown = Some(batch);
                self.keeper.put_off(keys, why);
                return false;
            }
            let last = around.database.last(self.run);
            self.keeper.found(&batch, &last, now);
        }
        let mut batch = self.keeper.batch(keys, why, now);
        if batch.drafts.is_empty() && !self.ledger.is_away() {
            return true;
        }
        self.number += 1;
        batch.number = self.number;
        let lost = !around.database.available || around.fate == Fate::Lost;
        if !lost {
            let asks = batch.drafts.iter().map(|(_, draft)| draft.ask.clone());
            let told = around
                .database
                .exchange(self.run, batch.number, asks, now, around.judge);
            if around.fate == Fate::Answered {
                self.keeper.hear(batch, &told, now);
                return true;
            }
            for ((_, draft), told) in batch.drafts.iter().zip(&told) {
                around.judge.unheard(&draft.ask, &told.row);
            }
        }
        self.unknown = Some(batch);
        self.keeper.put_off(keys, why);
        self.ledger.away.store(true, Ordering::Relaxed);
        false
    }
}
