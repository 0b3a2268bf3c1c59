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
mod left_out;
mod mirror;
mod of_file;
mod preview;
mod references;
mod rollouts;
mod seal;
mod shards;
mod tokens;
mod whole;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tollgate_catalog::document::Problems;
use tollgate_catalog::model::{Eras, PolicySet};
use tollgate_catalog::repository::{Kind, Repository, RepositoryError};
use tollgate_catalog::snapshot::Snapshot;

use crate::clock;
use crate::engine::Engine;
use crate::metrics::Metrics;
use crate::secret::SecretHash;

pub use disk::Disk;
pub use documents::{TierName, read_document, read_list};
pub use keys::{FormerSecret, KeyDocument};
pub use left_out::LeftOut;
pub use mirror::Mirror;
pub use tokens::{Token, Tokens};
pub use whole::Kept;
pub use write::{Outcome, Turn, WriteError};

use contents::Contents;
use disk::Extent;
use left_out::{Reason, place_of_misfit};
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
    /// What of the catalogue has no effect on this node.
    left_out: ArcSwap<LeftOut>,
    /// True while the demonstration set is in force.
    demonstrates: AtomicBool,
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
            left_out: ArcSwap::default(),
            demonstrates: AtomicBool::new(false),
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
        catalogue.rebuild(&mut contents, whole, &file);
        drop(contents);
        Ok(Arc::new(catalogue))
    }

    /// Puts another state of the policy file in force, or leaves all as it is if something is wrong with it, or if a
    /// policy that is in force would not fit it. What only names something that the file drops is left out instead.
    /// While the database is away, what is on disk takes its place.
    pub async fn replace_file(&self, set: PolicySet) -> Result<(), CatalogueError> {
        // By itself, as at the start: what is taken here is taken again when the node restarts.
        Snapshot::compile(&set, self.engine.seed(), None).map_err(CatalogueError::Problems)?;
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
        self.keeps_what_is_in_force(&whole, &file)
            .map_err(CatalogueError::Problems)?;
        self.rebuild(&mut contents, whole, &file);
        self.file.store(file);
        Ok(())
    }

    /// Refuses a file beside which policies that are in force would have to be left out.
    fn keeps_what_is_in_force(&self, whole: &Whole, file: &FileSet) -> Result<(), Problems> {
        let (_, misfits) = whole.contents.set_with(file).fitting(self.engine.seed());
        let snapshot = self.engine.snapshot();
        let lost = misfits.into_iter().filter(|misfit| snapshot.has_in_force(misfit));
        Problems(lost.flat_map(|misfit| misfit.problems.0).collect()).sorted()
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

    /// The token of a secret. One of an org that is not there opens nothing.
    pub fn token(&self, hash: &SecretHash) -> Option<Token> {
        let token = self.tokens.load().of(hash).cloned()?;
        let org = token.org.as_deref();
        let is_there = org.is_none_or(|org| self.engine.snapshot().knows_org(org));
        is_there.then_some(token)
    }

    /// The tokens that are in force here.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load_full()
    }

    /// What of the catalogue has no effect on this node, and why.
    pub fn left_out(&self) -> Arc<LeftOut> {
        self.left_out.load_full()
    }

    /// True while the built-in demonstration set is in force.
    pub fn demonstrates(&self) -> bool {
        self.demonstrates.load(Ordering::Relaxed)
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

    /// Compiles everything that fits together with the file's set.
    fn rebuild(&self, known: &mut Contents, whole: Whole, file: &FileSet) {
        let mut contents = whole.contents;
        let (set, misfits) = contents.set_with(file).fitting(self.engine.seed());
        for misfit in &misfits {
            let place = place_of_misfit(misfit);
            contents.left_out.insert(place, Reason::from(misfit));
        }
        let past = (&self.engine.snapshot_full(), clock::now());
        let (snapshot, problems) = Snapshot::compile_noting(&set, self.engine.seed(), Some(past));
        contents.left_out.note_problems(&problems);
        let gone: Vec<_> = known.keys.all().collect();
        let snapshot = snapshot.with_archive(whole.archive, whole.filed);
        let snapshot = snapshot.with_idle_orgs(whole.held);
        let (keys, orphans): (Vec<_>, Vec<_>) = whole
            .keys
            .into_iter()
            .partition(|key| snapshot.knows_org(&key.org));
        for key in orphans {
            contents.left_out.note_orphan(Kind::Key, &key.org, &key.id);
        }
        contents.note_orphan_tokens(&snapshot);
        self.report(known, &contents);
        self.demonstrate(&contents, file, &set);
        self.install(snapshot.with_keys(&gone, keys));
        self.extent.store(whole.extent.map(Arc::new));
        self.tokens.store(Arc::new(contents.tokens.clone()));
        self.now_at(contents.revision);
        *known = contents;
    }

    /// Reports what is left out of the contents that are about to be in force.
    fn report(&self, known: &Contents, contents: &Contents) {
        contents.left_out.report_since(&known.left_out);
        let kinds = contents.left_out.iter().map(|(place, _)| place.kind.name());
        self.metrics.catalogue.leaves_out(kinds);
        self.left_out.store(Arc::new(contents.left_out.clone()));
        if self.demonstrates() && contents.has_had_policies {
            self.demonstrates.store(false, Ordering::Relaxed);
            tracing::info!(
                "a policy was made: the built-in demonstration set is no longer in force, none of its policies, orgs \
                 and overrides"
            );
        }
    }

    /// Says that the demonstration set is in force, if it is.
    fn demonstrate(&self, contents: &Contents, file: &FileSet, set: &PolicySet) {
        let demonstrates = contents.demonstrates(file);
        if demonstrates && !self.demonstrates.swap(true, Ordering::Relaxed) {
            let policies = set.policies.iter().map(|policy| policy.id.as_str());
            let policies = policies.collect::<Vec<_>>().join(", ");
            tracing::info!(
                "no policy file is given and no policy was ever made: the built-in demonstration set is in force \
                 ({policies}). It stays until --policies names a file or the first policy is made by API"
            );
        }
    }

    /// Says which revision is in force, once it is.
    fn now_at(&self, revision: i64) {
        self.engine.set_revision(u64::try_from(revision).unwrap_or(0));
        self.in_force.send_replace(revision);
    }

    fn install(&self, snapshot: Snapshot) {
        self.engine.install(snapshot);
        self.metrics.installed(&self.engine.snapshot());
    }
}
