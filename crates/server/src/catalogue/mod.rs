//! The catalogue in force on this node: what the policy file says and what the database holds, compiled into the
//! engine's snapshot.
//!
//! A write is compiled before it is committed, on top of the revision this node has read; if another node was
//! faster, it is looked at again. What others write is followed ([`Catalogue::follow`]). A policy file owns what it
//! names: the API refuses to change that, and where both have something the file's is in force.

mod archive;
mod contents;
mod copy;
mod disk;
mod documents;
mod eras;
mod file_changes;
mod follow;
mod keep;
mod key_hashes;
mod keys;
mod mirror;
mod of_file;
mod references;
mod rollouts;
mod shards;
mod tokens;
mod whole;
mod write;

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::{Eras, PolicySet};
use tollgate_catalog::repository::{Repository, RepositoryError};

use crate::clock;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::secret::SecretHash;

pub use disk::Disk;
pub use documents::{TierName, read_document, read_list};
pub use keys::{FormerSecret, KeyDocument};
pub use mirror::Mirror;
pub use tokens::{Token, Tokens};
pub use whole::Kept;
pub use write::{Outcome, Turn, WriteError};

use contents::Contents;
use disk::Extent;
use whole::Whole;

/// The catalogue in force on this node.
pub struct Catalogue {
    repository: Repository,
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    /// What is known of the database. Whoever changes the snapshot holds it, so that changes come one by one.
    contents: Mutex<Contents>,
    tokens: ArcSwap<Tokens>,
    /// What the policy file says; of no use without one.
    file: ArcSwap<FileSet>,
    /// The revision that is in force, for whoever waits for another.
    in_force: watch::Sender<i64>,
    /// Where idle orgs lie.
    disk: Disk,
    /// How far the file there has come; `None` if it has to be written anew.
    extent: ArcSwapOption<Extent>,
}

/// What a policy file says.
#[derive(Debug, Default)]
pub struct FileSet {
    /// Whether there is a file.
    pub given: bool,
    /// What it says; without a file the demonstration set, in force while the database holds nothing.
    pub set: PolicySet,
    /// Since when its policies count the way they do.
    pub eras: Eras,
}

/// Why a catalogue can't be put in force.
#[derive(Debug)]
pub enum CatalogueError {
    /// The database did not answer.
    Repository(RepositoryError),
    /// What it holds and what the file says don't fit together.
    Problems(Problems),
    /// The copy on disk can't be written or read.
    Disk(std::io::Error),
}

impl std::fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repository(error) => error.fmt(f),
            Self::Disk(error) => write!(f, "the catalogue's copy on disk: {error}"),
            Self::Problems(problems) => write!(f, "the catalogue does not fit together: {problems}"),
        }
    }
}

impl std::error::Error for CatalogueError {}

impl From<RepositoryError> for CatalogueError {
    fn from(error: RepositoryError) -> Self {
        Self::Repository(error)
    }
}

impl Catalogue {
    /// Puts all that the database holds in force beside the file's set. With what was `kept` the database
    /// is not asked: it is followed from there when it answers again.
    pub async fn open(
        repository: Repository,
        engine: Arc<Engine>,
        metrics: Arc<Metrics>,
        file: FileSet,
        disk: Disk,
        kept: Option<Kept>,
    ) -> Result<Arc<Self>, CatalogueError> {
        let catalogue = Self {
            repository,
            engine,
            metrics,
            contents: Mutex::new(Contents::default()),
            tokens: ArcSwap::default(),
            file: ArcSwap::from_pointee(file),
            in_force: watch::Sender::new(0),
            disk,
            extent: ArcSwapOption::empty(),
        };
        let (file, seed) = (catalogue.file.load_full(), catalogue.engine.seed());
        let whole = match kept {
            Some(kept) => Whole::of_disk(kept, &file, seed),
            None => Whole::read(&catalogue.repository, &catalogue.disk, &file, seed).await?,
        };
        let mut contents = catalogue.contents.lock().await;
        catalogue.rebuild(&mut contents, whole, &file)?;
        drop(contents);
        Ok(Arc::new(catalogue))
    }

    /// Puts another state of the policy file in force, or leaves all as it is if it does not fit. While the database
    /// is away, what is on disk takes its place.
    pub async fn replace_file(&self, set: PolicySet) -> Result<(), CatalogueError> {
        let mut contents = self.contents.lock().await;
        let file = Arc::new(self.file.load().changed(set, clock::now()));
        let read = if self.metrics.is_catalogue_away() {
            Err(RepositoryError::Late.into())
        } else {
            Whole::read(&self.repository, &self.disk, &file, self.engine.seed()).await
        };
        let whole = match read {
            Err(CatalogueError::Repository(error)) => {
                let kept = self.kept(contents.revision, &file).await;
                kept.ok_or(CatalogueError::Repository(error))?
            }
            read => read?,
        };
        self.rebuild(&mut contents, whole, &file)?;
        self.file.store(file);
        Ok(())
    }

    /// What is on disk, if it is of this very revision: an older one would take back what is in force.
    async fn kept(&self, revision: i64, file: &Arc<FileSet>) -> Option<Whole> {
        let (disk, file, seed) = (self.disk.clone(), file.clone(), self.engine.seed());
        let whole = tokio::task::spawn_blocking(move || {
            let kept = disk.read().ok().flatten();
            let kept = kept.filter(|kept| kept.revision() == revision);
            kept.map(|kept| Whole::of_disk(kept, &file, seed))
        });
        whole.await.ok().flatten()
    }

    /// The database.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// What the policy file says.
    pub fn file(&self) -> Arc<FileSet> {
        self.file.load_full()
    }

    /// The token of a secret.
    pub fn token(&self, hash: &SecretHash) -> Option<Token> {
        self.tokens.load().of(hash).cloned()
    }

    /// The tokens that are in force here.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load_full()
    }

    /// The number of the last change that is in force here.
    pub fn revision(&self) -> i64 {
        *self.in_force.borrow()
    }

    /// Keeps what is in force on disk, until told to stop.
    pub fn keep_on_disk(&self, stop: watch::Receiver<bool>) -> JoinHandle<()> {
        let extent = self.extent.load().as_deref().copied();
        let (disk, in_force) = (self.disk.clone(), self.in_force.subscribe());
        tokio::spawn(disk.keep(self.repository.clone(), extent, in_force, stop))
    }

    /// Keeps what is on disk in Redis, too, until told to stop.
    pub fn keep_in_redis(&self, mirror: Arc<Mirror>, stop: watch::Receiver<bool>) -> JoinHandle<()> {
        let (disk, in_force) = (self.disk.clone(), self.in_force.subscribe());
        tokio::spawn(async move { mirror.keep(disk, in_force, stop).await })
    }

    /// Compiles everything with the file's set.
    fn rebuild(&self, known: &mut Contents, whole: Whole, file: &FileSet) -> Result<(), CatalogueError> {
        let contents = whole.contents;
        let set = contents.set_with(file);
        let snapshot = self.engine.compile(&set).map_err(CatalogueError::Problems)?;
        let gone: Vec<_> = known.keys.all().collect();
        let snapshot = snapshot.with_archive(whole.archive, whole.filed);
        let snapshot = snapshot.with_idle_orgs(whole.held).with_keys(&gone, whole.keys);
        self.install(snapshot);
        self.extent.store(whole.extent.map(Arc::new));
        self.tokens.store(Arc::new(contents.tokens.clone()));
        self.now_at(contents.revision);
        *known = contents;
        Ok(())
    }

    /// Says which revision is in force, once it is.
    fn now_at(&self, revision: i64) {
        self.engine.set_revision(u64::try_from(revision).unwrap_or(0));
        self.in_force.send_replace(revision);
    }

    fn install(&self, snapshot: tollgate_catalog::snapshot::Snapshot) {
        self.engine.install(snapshot);
        self.metrics.installed(&self.engine.snapshot());
    }
}
