//! Writing: compiled first, committed then, in force at once.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout_at};
use tollgate_catalog::document::Problems;
use tollgate_catalog::repository::{Author, Change, Once, RepositoryError, Written};

use super::contents::Contents;
use super::preview::Preview;
use super::{Catalogue, CatalogueError, Tokens};
use super::{references, rollouts};
use crate::clock;

/// How long a writer waits for a turn: if the database does not answer, none comes.
const PATIENCE: Duration = Duration::from_secs(8);

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is in force, since this revision.
    Written(i64),
    /// It would be; nothing was changed.
    WouldBeWritten,
    /// Another node was faster: look again, and take another turn.
    Behind,
}

/// Why nothing was written.
#[derive(Debug)]
pub enum WriteError {
    /// It does not fit together with the rest.
    Problems(Problems),
    /// The policy file owns it.
    OwnedByFile(String),
    /// Something names it, in a sentence.
    InUse(String),
    /// It names something that is not there, in a sentence.
    Unknown(String),
    /// Another has taken over the request that it was for.
    Overtaken,
    /// The database is known to be away, so that it was not asked.
    Away,
    /// The database did not answer.
    Repository(RepositoryError),
    /// What is known of the orgs can't be read from disk.
    Disk(std::io::Error),
}

impl From<RepositoryError> for WriteError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(error)
    }
}

impl From<CatalogueError> for WriteError {
    fn from(error: CatalogueError) -> Self {
        match error {
            CatalogueError::Repository(error) => Self::Repository(error),
            CatalogueError::Problems(problems) => Self::Problems(problems),
            CatalogueError::Disk(error) => Self::Disk(error),
        }
    }
}

/// A turn at writing: nobody else on this node writes meanwhile, and all that was written before is in force.
pub struct Turn<'c> {
    catalogue: &'c Catalogue,
    contents: MutexGuard<'c, Contents>,
}

impl Catalogue {
    /// Waits for a turn at writing, though not for a database that is known to be away.
    pub async fn turn(&self) -> Result<Turn<'_>, WriteError> {
        if self.metrics.is_catalogue_away() {
            return Err(WriteError::Away);
        }
        let deadline = Instant::now() + PATIENCE;
        let contents = timeout_at(deadline, self.contents.lock()).await;
        // Whoever had the turn before may have found out meanwhile that there is no database.
        if self.metrics.is_catalogue_away() {
            return Err(WriteError::Away);
        }
        let mut contents = contents.map_err(|_| RepositoryError::Locked)?;
        let caught_up = timeout_at(deadline, self.catch_up_locked(&mut contents)).await;
        caught_up.map_err(|_| RepositoryError::Late)??;
        Ok(Turn {
            catalogue: self,
            contents,
        })
    }
}

impl Turn<'_> {
    /// The tokens there are.
    pub fn tokens(&self) -> &Tokens {
        &self.contents.tokens
    }

    /// Writes some changes, all or none: compiled with all the rest before they are committed. What is done `once`
    /// only is written together with its answer.
    pub async fn commit(
        mut self,
        author: &Author,
        changes: &[Change],
        dry_run: bool,
        once: Option<&Once<'_>>,
    ) -> Result<Outcome, WriteError> {
        let catalogue = self.catalogue;
        let file = catalogue.file.load_full();
        for change in changes {
            if file.owns(&change.place) {
                let what = format!("{} `{}`", change.place.kind.name(), change.place.id);
                return Err(WriteError::OwnedByFile(what));
            }
            rollouts::keep_policy(change, &self.contents)?;
        }
        let eras = self.contents.change_of_eras(changes, clock::now());
        let changes: Vec<Change> = eras.into_iter().chain(changes.iter().cloned()).collect();
        let places: BTreeSet<_> = changes.iter().map(|change| change.place.clone()).collect();
        let mut next = self.contents.clone();
        let Preview { snapshot, problems } = catalogue.preview(&mut next, places, &changes).await?;
        problems.sorted().map_err(WriteError::Problems)?;
        references::check(&changes, &self.contents, &next, &snapshot, &file)?;
        if dry_run {
            return Ok(Outcome::WouldBeWritten);
        }
        let known = self.contents.revision;
        let written = match once {
            Some(once) => {
                catalogue
                    .repository
                    .write_once(known, author, &changes, once)
                    .await
            }
            None => catalogue.repository.write(known, author, &changes).await,
        };
        match written? {
            Written::Behind => Ok(Outcome::Behind),
            Written::Overtaken => Err(WriteError::Overtaken),
            Written::At(revision) => {
                next.revision = revision;
                catalogue.put_in_force(&mut self.contents, next, snapshot);
                Ok(Outcome::Written(revision))
            }
        }
    }
}
