//! Writing: compiled first, committed then, in force at once.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::MutexGuard;
use tokio::time::timeout;
use tollgate_catalog::document::Problems;
use tollgate_catalog::repository::{Author, Change, Kind, Place, RepositoryError, Written};

use super::contents::Contents;
use super::references;
use super::{Catalogue, CatalogueError, FileSet};
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
            return Err(RepositoryError::Late.into());
        }
        let turn = timeout(PATIENCE, async {
            let mut contents = self.contents.lock().await;
            self.catch_up_locked(&mut contents).await?;
            Ok(Turn {
                catalogue: self,
                contents,
            })
        });
        turn.await.unwrap_or_else(|_| Err(RepositoryError::Late.into()))
    }
}

impl Turn<'_> {
    /// Writes some changes, all or none: compiled with all the rest before they are committed.
    pub async fn commit(
        mut self,
        author: &Author,
        changes: &[Change],
        dry_run: bool,
    ) -> Result<Outcome, WriteError> {
        let catalogue = self.catalogue;
        let file = catalogue.file.load_full();
        for change in changes {
            if file.owns(&change.place) {
                let what = format!("{} `{}`", change.place.kind.name(), change.place.id);
                return Err(WriteError::OwnedByFile(what));
            }
        }
        let eras = self.contents.change_of_eras(changes, clock::now());
        let changes: Vec<Change> = eras.into_iter().chain(changes.iter().cloned()).collect();
        let places: BTreeSet<_> = changes.iter().map(|change| change.place.clone()).collect();
        let mut next = self.contents.clone();
        let snapshot = catalogue.preview(&mut next, places, &changes).await?;
        references::check(&changes, &self.contents, &next, &snapshot, &file)?;
        if dry_run {
            return Ok(Outcome::WouldBeWritten);
        }
        let known = self.contents.revision;
        match catalogue.repository.write(known, author, &changes).await? {
            Written::Behind => Ok(Outcome::Behind),
            Written::At(revision) => {
                next.revision = revision;
                catalogue.put_in_force(&mut self.contents, next, snapshot);
                Ok(Outcome::Written(revision))
            }
        }
    }
}

impl FileSet {
    /// Whether the policy file says what an entry is.
    pub fn owns(&self, place: &Place) -> bool {
        let (set, id) = (&self.set, &place.id);
        self.given
            && match place.kind {
                Kind::Tier => set.tiers.contains(id),
                Kind::Org => set.orgs.iter().any(|org| org.id == *id),
                Kind::Policy => set.policies.iter().any(|policy| policy.id == *id),
                Kind::EndpointClasses => !set.endpoint_classes.is_empty(),
                _ => false,
            }
    }
}
