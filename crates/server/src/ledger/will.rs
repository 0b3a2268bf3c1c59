//! What a run leaves to be told that ends while the ledger is unavailable: a file in the data directory, which the next
//! run takes up and tells once (docs/ledger.md).

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tollgate_catalog::repository::{Ask, Done, Exchange, Refund, RepositoryError, Unsettled, Usage};
use tollgate_core::{CounterKey, Timestamp};
use tollgate_counters::memory::Note;

use super::Ledger;
use super::account::Draft;
use super::estate::{Journals, last_exchange, unsettled};
use super::keeper::{Batch, Keeper};
use super::plant::{Bug, is_planted};
use super::usage::MAX_TOLD;
use crate::clock;

/// Counters in one transaction.
const MOST: usize = 1_000;
/// How long the database may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The wills of a ledger's runs in a data directory.
#[derive(Debug)]
pub struct Wills {
    directory: PathBuf,
    /// How their names begin: those of another ledger begin otherwise.
    prefix: String,
}

/// What a run has left to be told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Will {
    run: u64,
    /// The number of the exchange of which the run does not know whether it was done, or of its next.
    number: i64,
    /// The last that it knew to be done.
    heard: i64,
    /// What a journal would say of each quota.
    notes: Vec<Note>,
    /// What was let through of counters in periods that the ledger knew nothing of.
    owed: Vec<Owed>,
    /// What that exchange says besides, and what none has said.
    sent: Besides,
    rest: Besides,
}

/// What was let through of a counter, and how much of that the exchange says of which nobody knows whether it was done.
#[derive(Debug, Serialize, Deserialize)]
struct Owed {
    ask: Ask,
    sent: u64,
}

/// What an exchange says that is not about this run's counters.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Besides {
    usage: Vec<Usage>,
    refunds: Vec<Refund>,
    unsettled: Vec<Unsettled>,
}

/// What is told in one transaction.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) asks: Vec<Ask>,
    pub(super) usage: Vec<Usage>,
    pub(super) refunds: Vec<Refund>,
    pub(super) unsettled: Vec<Unsettled>,
}

impl Wills {
    /// Those of a ledger that is in this database, for a region.
    pub fn of(directory: &Path, database: &str, region: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            prefix: format!("ledger-will-{}", Journals::ledger(database, region)),
        }
    }

    /// Where a run leaves its own.
    pub(super) fn path(&self, run: u64) -> PathBuf {
        self.directory.join(format!("{}-{run:016x}.json", self.prefix))
    }

    /// What ended runs have left.
    pub(super) fn left(&self) -> Vec<(PathBuf, Will)> {
        let Ok(files) = std::fs::read_dir(&self.directory) else {
            return Vec::new();
        };
        let mut left = Vec::new();
        for path in files.filter_map(|file| Some(file.ok()?.path())) {
            let name = path.file_name().and_then(|name| name.to_str());
            if !name.is_some_and(|name| name.starts_with(&self.prefix)) {
                continue;
            }
            if path.extension().is_some_and(|extension| extension == "next") {
                // Whoever wrote it ended before it was whole.
                let _ = std::fs::remove_file(&path);
            } else {
                match Will::read(&path) {
                    Ok(will) => left.push((path, will)),
                    Err(error) => tracing::error!(
                        "{}: {error}. What a run before this one could not tell the quota ledger is not told",
                        path.display()
                    ),
                }
            }
        }
        left
    }
}

impl Will {
    fn read(path: &Path) -> Result<Self> {
        Ok(serde_json::from_slice(&std::fs::read(path)?)?)
    }

    /// Writes it to a file, whole or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let next = path.with_extension("next");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = BufWriter::new(file.open(&next)?);
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        std::fs::rename(&next, path)?;
        path.parent()
            .map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        let nothing = |besides: &Besides| {
            besides.usage.is_empty() && besides.refunds.is_empty() && besides.unsettled.is_empty()
        };
        self.notes.is_empty() && self.owed.is_empty() && nothing(&self.sent) && nothing(&self.rest)
    }

    /// Whose it is.
    pub(super) fn run(&self) -> u64 {
        self.run
    }

    /// What is to be told, knowing which exchange of the run was the last that was done: each part in a transaction of
    /// its own, in this order.
    pub(super) fn parts(&self, last: &Done) -> Vec<Part> {
        let done = last.number >= self.number;
        // Of what the last exchange said nobody knows any more whether it was done.
        let forgotten = last.number < self.heard;
        let notes = self.notes.iter();
        let notes = notes.filter(|note| note.telling.is_none() || !forgotten);
        let mut left: Vec<Unsettled> = notes
            .filter_map(|note| unsettled(note, done.then_some(last)))
            .collect();
        let besides = || [&self.sent, &self.rest].into_iter().skip(done.into());
        left.extend(besides().flat_map(|besides| &besides.unsettled));
        let asks: Vec<Ask> = self.owed.iter().filter_map(|owed| owed.ask(done)).collect();
        let mut parts: Vec<Part> = Vec::new();
        parts.extend(left.chunks(MOST).map(|unsettled| Part {
            unsettled: unsettled.to_vec(),
            ..Part::default()
        }));
        parts.extend(asks.chunks(MOST).map(|asks| Part {
            asks: asks.to_vec(),
            ..Part::default()
        }));
        for besides in besides() {
            parts.extend(besides.refunds.chunks(MOST).map(|refunds| Part {
                refunds: refunds.to_vec(),
                ..Part::default()
            }));
            // The same kind may be in what was sent and in the rest, but not twice in a part.
            parts.extend(besides.usage.chunks(MAX_TOLD).map(|usage| Part {
                usage: usage.to_vec(),
                ..Part::default()
            }));
        }
        parts
    }

    /// Tells the ledger, in transactions under a name of their own that each are done once. Says how much was unspent.
    pub(super) async fn settle(&self, ledger: &Ledger) -> std::result::Result<u64, RepositoryError> {
        let node = format!("{:016x}", self.run);
        let last = last_exchange(ledger, &node).await?;
        let heir = format!("{node}:will");
        let told = last_exchange(ledger, &heir).await?.number;
        let mut unspent = 0;
        for (part, number) in self.parts(&last).into_iter().zip(1..) {
            let back = part.unsettled.iter().map(|one| one.mark.min(0).unsigned_abs());
            unspent += back.sum::<u64>();
            if number <= told {
                continue;
            }
            let now = clock::now();
            let exchange = Exchange {
                region: &ledger.region,
                node: &heir,
                lives: false,
                number,
                now,
                asks: &part.present(now),
                usage: &part.usage,
                refunds: &part.refunds,
                unsettled: &part.unsettled,
                alerts: &[],
            };
            let answer = timeout(PATIENCE, ledger.repository.exchange(&exchange)).await;
            answer.unwrap_or(Err(RepositoryError::Late))?;
        }
        Ok(unspent)
    }
}

impl Owed {
    /// What is yet to be told.
    fn ask(&self, done: bool) -> Option<Ask> {
        let told = if done { self.sent } else { 0 };
        let spent = self.ask.spent.saturating_sub(told);
        (spent > 0).then(|| Ask {
            spent,
            owes: spent,
            ..self.ask.clone()
        })
    }
}

impl Part {
    /// Its asks about periods that are not over.
    pub(super) fn present(&self, now: Timestamp) -> Vec<Ask> {
        let asks = self.asks.iter().filter(|ask| ask.until > now.nanos());
        asks.cloned().collect()
    }
}

impl Keeper {
    /// What is to be told should this run end now, with a batch of which nobody knows whether it was done.
    pub(super) fn will(&mut self, unknown: Option<&Batch>, number: i64, now: Timestamp) -> Will {
        let ledger = self.ledger.clone();
        let mut will = Will {
            run: ledger.run,
            number: unknown.map_or(number + 1, |batch| batch.number),
            heard: self.heard,
            rest: Besides {
                usage: self.untold.all(&ledger.tallies),
                refunds: ledger.refunds().clone(),
                unsettled: self.unplaced.clone(),
            },
            ..Will::default()
        };
        let mut drafts: HashMap<CounterKey, (usize, &Draft)> = HashMap::new();
        if let Some(batch) = unknown {
            let places = batch.drafts.iter().enumerate();
            drafts.extend(places.map(|(place, (key, draft))| (*key, (place, draft))));
            will.sent = Besides {
                usage: batch.usage.clone(),
                refunds: batch.refunds.clone(),
                unsettled: batch.unsettled.clone(),
            };
        }
        let mut accounts = ledger.lock();
        for key in accounts.all() {
            let Some(held) = accounts.get(key) else { continue };
            let account = &held.account;
            let sent = drafts.get(&key).copied();
            let _ = ledger.store.amend(key, account.subject.home, now, |cell| {
                let note = account.note(cell, sent.map(|(place, draft)| draft.telling(place)));
                if note.generation > 0 || note.telling.is_some() {
                    will.notes.push(note);
                }
                let owed = account.untold(cell, sent.map(|(_, draft)| draft), now);
                let owed = owed.filter(|_| !is_planted(Bug::StopForgets));
                will.owed.extend(owed.map(|(ask, sent)| Owed { ask, sent }));
                None
            });
        }
        will
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tollgate_catalog::repository::Granted;
    use tollgate_counters::memory::Telling;

    use super::*;

    const TELLING: Telling = Telling {
        place: 0,
        used: 4,
        owes: 0,
        gives: 0,
    };

    fn ask(spent: u64, until: u64) -> Ask {
        Ask {
            name: [1; 16],
            org: "acme".to_owned(),
            label: "{}".to_owned(),
            relabel: true,
            limit: 100,
            alert_limit: 0,
            period: (0, until),
            generation: 0,
            until,
            spent,
            unused: 0,
            owes: spent,
            gives: 0,
            needs: 0,
            wants: 0,
            room: u64::MAX,
            formers: Vec::new(),
        }
    }

    fn used(allowed: u64) -> Besides {
        Besides {
            usage: vec![Usage {
                allowed,
                ..Usage::default()
            }],
            ..Besides::default()
        }
    }

    /// Of a run that has heard of its exchange 4, and does not know what became of the fifth.
    fn will() -> Will {
        let note = |name, telling| Note {
            name: [name; 16],
            generation: 3,
            left: 7,
            span: 17,
            telling,
        };
        Will {
            run: 9,
            number: 5,
            heard: 4,
            notes: vec![note(2, None), note(3, Some(TELLING))],
            owed: vec![Owed {
                ask: ask(30, 1_000),
                sent: 20,
            }],
            sent: used(1),
            rest: used(2),
        }
    }

    /// What is told after an exchange: of notes what was used, of counters what was let through, and of orgs.
    fn told(number: i64) -> (Vec<i64>, Vec<(u64, u64)>, Vec<u64>) {
        let granted = vec![Granted {
            generation: 3,
            amount: 0,
        }];
        let parts = will().parts(&Done { number, granted });
        let notes = parts.iter().flat_map(|part| &part.unsettled);
        let asks = parts.iter().flat_map(|part| &part.asks);
        let usage = parts.iter().flat_map(|part| &part.usage);
        (
            notes.map(|one| one.used).collect(),
            asks.map(|ask| (ask.spent, ask.owes)).collect(),
            usage.map(|used| used.allowed).collect(),
        )
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        assert_eq!(told(4), (vec![10, 10], vec![(30, 30)], vec![1, 2]));
        assert_eq!(told(5), (vec![10, 6], vec![(10, 10)], vec![2]));
        // Nobody knows any more whether the fifth was done, so nothing that it may have given back goes back.
        assert_eq!(told(0), (vec![10], vec![(30, 30)], vec![1, 2]));
    }

    #[test]
    fn what_was_let_through_in_a_period_that_is_over_is_dropped() {
        let part = Part {
            asks: vec![ask(1, 1_000), ask(2, 2_000)],
            ..Part::default()
        };
        assert_eq!(part.present(Timestamp::from_nanos(999)).len(), 2);
        let left = part.present(Timestamp::from_nanos(1_000));
        assert_eq!(left, [ask(2, 2_000)]);
    }

    #[test]
    fn a_will_is_found_by_its_ledger_alone_and_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let of = |database| Wills::of(directory.path(), database, "local");
        let path = of("sqlite:one").path(9);
        assert!(Will::default().is_empty() && !will().is_empty());
        will().write(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(of("sqlite:one").path(8), "half of a w").unwrap();
        std::fs::write(path.with_extension("next"), "half of a w").unwrap();
        assert!(of("sqlite:two").left().is_empty());
        let left = of("sqlite:one").left();
        assert_eq!(left.len(), 1);
        assert_eq!(format!("{:?}", left[0].1), format!("{:?}", will()));
        assert!(!path.with_extension("next").exists());
    }
}
