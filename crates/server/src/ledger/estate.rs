//! What runs of this machine have left that ended without giving back: found by their journals, and settled with the
//! ledger once (docs/ledger.md).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tollgate_catalog::repository::{Done, Exchange, Granted, RepositoryError, Unsettled};
use tollgate_counters::memory::{Ended, Estate, Home, Journal, Note};

use super::Ledger;
use super::will::{Will, Wills};
use crate::clock;

/// Counters that are settled in one transaction.
const MOST: usize = 1_000;
/// How long the database may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The journals of a ledger's nodes on this machine.
#[derive(Debug)]
pub struct Journals {
    directory: PathBuf,
    /// How their names begin: those of another ledger begin otherwise.
    prefix: String,
    /// The directory of a ledger that is a file. Without that, what its journals say is of no use.
    home: Option<Home>,
}

/// Files that are looked at for journals of other ledgers.
const MAX_FILES: usize = 10_000;

/// What is yet to be settled.
#[derive(Debug, Default)]
pub struct Estates {
    journals: Vec<(PathBuf, Estate)>,
    wills: Vec<(PathBuf, Will)>,
    /// Where this run leaves a will of its own.
    own: Option<PathBuf>,
}

impl Journals {
    /// Those of a ledger that is in this database, for a region.
    pub fn of(directory: &Path, database: &str, region: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            prefix: format!("tollgate-{}", Self::ledger(database, region)),
            home: home_of(database),
        }
    }

    /// By which files know the ledger that is in this database, for a region.
    pub(super) fn ledger(database: &str, region: &str) -> String {
        let file = database.strip_prefix("sqlite:");
        let file = file.and_then(|file| std::path::absolute(file).ok());
        // Whoever it is asked as, and with which password, it is the same.
        let place = database.rsplit_once('@').map_or(database, |(_, place)| place);
        let place = file.map_or_else(|| place.to_owned(), |file| file.display().to_string());
        let digest = Sha256::digest(format!("{place}\n{region}"));
        let mut ledger = [0; 8];
        ledger.copy_from_slice(&digest[..8]);
        format!("{:016x}", u64::from_be_bytes(ledger))
    }

    /// A journal for this run.
    pub fn begin(&self, run: u64) -> io::Result<Journal> {
        let name = format!("{}-{run:016x}.journal", self.prefix);
        let journal = Journal::create(&self.directory.join(name), run)?;
        if let Some(home) = &self.home {
            journal.note_home(home);
        }
        Ok(journal)
    }

    /// Removes journals of ended runs whose ledger is gone together with its directory: nobody can settle them any
    /// more, and each takes up memory. Says how many.
    pub fn remove_orphans(&self) -> usize {
        let Ok(files) = std::fs::read_dir(&self.directory) else {
            return 0;
        };
        let paths = files
            .filter_map(|file| Some(file.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str());
                name.is_some_and(|name| name.starts_with("tollgate-") && name.ends_with(".journal"))
            })
            .take(MAX_FILES);
        let orphans = paths.filter(|path| {
            // Held until it is removed, so that nobody else takes it up.
            let ended = Ended::read(path).ok().flatten();
            let home = ended.as_ref().and_then(|ended| ended.home.as_ref());
            home.is_some_and(Home::is_gone) && std::fs::remove_file(path).is_ok()
        });
        orphans.count()
    }

    /// What ended runs have left.
    pub fn left(&self) -> Estates {
        let Ok(files) = std::fs::read_dir(&self.directory) else {
            return Estates::default();
        };
        let paths = files.filter_map(|file| Some(file.ok()?.path()));
        let own = paths.filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&self.prefix) && name.ends_with(".journal"))
        });
        let left = own.filter_map(|path| {
            let estate = Estate::read(&path).ok()??;
            Some((path, estate))
        });
        Estates {
            journals: left.collect(),
            ..Estates::default()
        }
    }
}

/// The directory of a ledger in a file. One that is a server's is settled from anywhere.
fn home_of(database: &str) -> Option<Home> {
    let file = database.strip_prefix("sqlite:")?;
    let file = std::path::absolute(file).ok()?;
    Home::of(file.parent()?).ok()
}

impl Estates {
    /// And those of runs that have left a will, where this run may leave one, too.
    #[must_use]
    pub fn and(mut self, wills: &Wills, run: u64) -> Self {
        self.wills = wills.left();
        self.own = Some(wills.path(run));
        // A will says all that there is to say of its run, which ended before it could remove its journal.
        let (wills, journals) = (&self.wills, &mut self.journals);
        journals.retain(|(path, estate)| {
            let said = wills.iter().any(|(_, will)| will.run() == estate.run);
            if said {
                remove(path);
            }
            !said
        });
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.journals.is_empty() && self.wills.is_empty()
    }

    /// Where this run leaves a will, if it can.
    pub(super) fn own(&self) -> Option<&PathBuf> {
        self.own.as_ref()
    }

    /// Settles one after the other, each once, whatever ends meanwhile.
    pub(super) async fn settle(&mut self, ledger: &Ledger) -> Result<(), RepositoryError> {
        while let Some((path, will)) = self.wills.last() {
            let back = will.settle(ledger).await?;
            ledger.counts.recovered.fetch_add(back, Ordering::Relaxed);
            tracing::info!("the quota ledger was told what a run before this one could not tell it");
            remove(path);
            self.wills.pop();
        }
        while let Some((path, estate)) = self.journals.last() {
            let back = settle(ledger, estate).await?;
            ledger.counts.recovered.fetch_add(back, Ordering::Relaxed);
            if back > 0 {
                tracing::info!(
                    "recovered {back} unspent units of quotas from a process that did not shut down cleanly"
                );
            }
            remove(path);
            self.journals.pop();
        }
        Ok(())
    }
}

/// Removes what is settled. What stays is found again, and known to be settled.
fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!("{}: {error}", path.display());
    }
}

/// Tells the ledger what a run has left, in transactions of the run's own that each are done once. Says how much was
/// unspent.
async fn settle(ledger: &Ledger, estate: &Estate) -> Result<u64, RepositoryError> {
    if estate.notes.is_empty() {
        return Ok(0);
    }
    let node = format!("{:016x}", estate.run);
    let last = last_exchange(ledger, &node).await?;
    if last.number == 0 {
        // Either it was never granted anything, or nobody knows any more what it told last.
        return Ok(0);
    }
    let done = (last.number >= estate.number).then_some(&last);
    let unsettled: Vec<Unsettled> = estate
        .notes
        .iter()
        .filter_map(|note| unsettled(note, done))
        .collect();
    let heir = format!("{node}:left");
    let settled = last_exchange(ledger, &heir).await?.number;
    for (part, number) in unsettled.chunks(MOST).zip(1..) {
        if number <= settled {
            continue;
        }
        let exchange = Exchange {
            region: &ledger.region,
            node: &heir,
            lives: false,
            number,
            now: clock::now(),
            asks: &[],
            usage: &[],
            refunds: &[],
            unsettled: part,
            alerts: &[],
        };
        let answer = timeout(PATIENCE, ledger.repository.exchange(&exchange)).await;
        answer.unwrap_or(Err(RepositoryError::Late))?;
    }
    let unspent = unsettled.iter().map(|one| one.mark.min(0).unsigned_abs());
    Ok(unspent.sum())
}

pub(super) async fn last_exchange(ledger: &Ledger, node: &str) -> Result<Done, RepositoryError> {
    let answer = timeout(PATIENCE, ledger.repository.last_exchange(node, clock::now())).await;
    answer.unwrap_or(Err(RepositoryError::Late))
}

/// What is yet to be told of a counter, after the last exchange of its run if that was done.
pub(super) fn unsettled(note: &Note, done: Option<&Done>) -> Option<Unsettled> {
    let Note {
        generation,
        left,
        span,
        ..
    } = *note;
    let untold = span.saturating_sub(left);
    let nothing = Granted {
        generation,
        amount: 0,
    };
    let (generation, used, left) = match (note.telling, done) {
        (None, _) => (generation, untold, left),
        (Some(telling), None) => (generation, untold, left.saturating_add_unsigned(telling.gives)),
        (Some(telling), Some(done)) => {
            let granted = done.granted.get(telling.place).copied().unwrap_or(nothing);
            if granted.generation == generation {
                let more = telling.owes.saturating_add(granted.amount);
                let untold = untold.saturating_sub(telling.used);
                (generation, untold, left.saturating_add_unsigned(more))
            } else {
                // It has begun another period, of which nothing was spent yet.
                let left = i64::try_from(granted.amount).unwrap_or(0);
                (granted.generation, 0, left)
            }
        }
    };
    let unsettled = Unsettled {
        name: note.name,
        generation,
        used,
        mark: left.saturating_neg(),
    };
    (generation > 0 && (used, left) != (0, 0)).then_some(unsettled)
}

#[cfg(test)]
mod tests {
    use tollgate_counters::memory::Telling;

    use super::*;

    const TELLING: Telling = Telling {
        place: 1,
        used: 4,
        owes: 2,
        gives: 5,
    };

    /// A counter of which 7 are left, and of which 10 were spent that nobody was told.
    fn note(telling: Option<Telling>) -> Note {
        Note {
            name: [1; 16],
            generation: 3,
            left: 7,
            span: 17,
            telling,
        }
    }

    fn done(granted: &[(u64, u64)]) -> Done {
        let granted = granted.iter().map(|(generation, amount)| Granted {
            generation: *generation,
            amount: *amount,
        });
        Done {
            number: 9,
            granted: granted.collect(),
        }
    }

    fn settled(note: &Note, done: Option<&Done>) -> Option<(u64, i64, i64)> {
        unsettled(note, done).map(|one| (one.generation, one.used, one.mark))
    }

    #[test]
    fn what_no_exchange_was_about_is_as_it_was_noted() {
        let done = done(&[(3, 100), (3, 100)]);
        assert_eq!(settled(&note(None), Some(&done)), Some((3, 10, -7)));
        assert_eq!(settled(&note(None), None), Some((3, 10, -7)));
        let over = Note {
            left: -2,
            ..note(None)
        };
        assert_eq!(settled(&over, None), Some((3, 19, 2)));
        let nothing = Note {
            left: 0,
            span: 0,
            ..note(None)
        };
        assert_eq!(settled(&nothing, None), None);
        let unknown = Note {
            generation: 0,
            ..note(None)
        };
        assert_eq!(settled(&unknown, None), None);
    }

    #[test]
    fn an_exchange_that_was_not_done_has_given_nothing_back() {
        assert_eq!(settled(&note(Some(TELLING)), None), Some((3, 10, -12)));
    }

    #[test]
    fn an_exchange_that_was_done_has_told_and_granted() {
        let granted = done(&[(3, 50), (3, 20)]);
        assert_eq!(settled(&note(Some(TELLING)), Some(&granted)), Some((3, 6, -29)));
        // Where nothing was granted to anybody the list is empty.
        assert_eq!(settled(&note(Some(TELLING)), Some(&done(&[]))), Some((3, 6, -9)));
    }

    #[test]
    fn what_was_granted_in_another_period_is_all_there_is_of_it() {
        let next = done(&[(3, 50), (4, 20)]);
        assert_eq!(settled(&note(Some(TELLING)), Some(&next)), Some((4, 0, -20)));
        let first = Note {
            generation: 0,
            left: 0,
            span: 0,
            ..note(Some(TELLING))
        };
        assert_eq!(settled(&first, Some(&next)), Some((4, 0, -20)));
        assert_eq!(settled(&first, Some(&done(&[]))), None);
    }

    #[test]
    fn each_ledger_has_journals_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let of = |database: &str, region: &str| Journals::of(directory.path(), database, region);
        drop(of("sqlite:one", "local").begin(7).unwrap());
        drop(of("sqlite:one", "local").begin(8).unwrap());
        drop(of("sqlite:two", "local").begin(7).unwrap());
        drop(of("sqlite:one", "east").begin(7).unwrap());
        let left = of("sqlite:one", "local").left();
        let mut runs: Vec<u64> = left.journals.iter().map(|(_, estate)| estate.run).collect();
        runs.sort_unstable();
        assert_eq!(runs, [7, 8]);
        drop(left);
        drop(of("postgres://a:b@host/quotas", "local").begin(9).unwrap());
        assert_eq!(of("postgres://c:d@host/quotas", "local").left().journals.len(), 1);
        let living = of("sqlite:one", "east").begin(8).unwrap();
        assert_eq!(of("sqlite:one", "east").left().journals.len(), 1);
        drop(living);
    }
}
