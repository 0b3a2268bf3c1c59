//! The end of the audit, as this node last saw it, kept where the database is not: in a file, in the log and among the
//! metrics. Whoever cuts the audit in the database, and sets it back to an end that fits, is found by these.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tollgate_catalog::repository::{Repository, RepositoryError};

use crate::metrics::Metrics;
use crate::serve::stopped;

/// How often the end is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the log tells of it at most, while it moves.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// What this node last saw of the audit's end.
pub struct AuditAnchor {
    path: PathBuf,
    /// Which database it is of, by a digest of its URL.
    database: String,
    seen: ArcSwapOption<Seen>,
}

/// A row that was the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    revision: i64,
    hash: String,
}

impl AuditAnchor {
    /// The anchor of a data directory, for the database of a URL.
    pub fn in_dir(data_dir: &Path, url: &str) -> Self {
        let path = data_dir.join("audit-anchor");
        let digest = Sha256::digest(url);
        let database: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let seen = match std::fs::read_to_string(&path) {
            Ok(text) => Seen::read(&text, &database),
            Err(_) => None,
        };
        Self {
            path,
            database,
            seen: ArcSwapOption::new(seen.map(Arc::new)),
        }
    }

    /// Follows the end until told to stop.
    pub async fn keep(
        self: Arc<Self>,
        repository: Repository,
        metrics: Arc<Metrics>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut telling = Telling::default();
        let mut sealed = false;
        loop {
            if !sealed {
                sealed = repository.seal_head().await.is_ok();
            }
            // While the database is unavailable others say so.
            if let Ok(looked) = self.look(&repository).await {
                telling.tell(&looked, &metrics);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    /// The first row that must be missing or another one, if the audit is not the one whose end was seen.
    pub async fn contradicted(&self, repository: &Repository) -> Result<Option<i64>, RepositoryError> {
        let Some(seen) = self.seen.load_full() else {
            return Ok(None);
        };
        if seen.revision == 0 || repository.hash_of(seen.revision).await?.as_ref() == Some(&seen.hash) {
            return Ok(None);
        }
        let (end, _) = repository.head_with_hash().await?;
        Ok(Some(seen.revision.min(end + 1)))
    }

    /// Looks at the end, and takes note of it unless that would be to forget what was seen.
    async fn look(&self, repository: &Repository) -> Result<Looked, RepositoryError> {
        let (revision, hash) = repository.head_with_hash().await?;
        let now = Seen { revision, hash };
        let seen = self.seen.load_full();
        if seen.as_deref() == Some(&now) {
            return Ok(Looked::Same(now));
        }
        if let Some(broken) = self.contradicted(repository).await? {
            return Ok(Looked::Contradicted(broken));
        }
        if let Err(error) = self.write(&now) {
            tracing::warn!(
                "{}: the end of the audit can't be kept there: {error}",
                self.path.display()
            );
        }
        self.seen.store(Some(Arc::new(now.clone())));
        Ok(Looked::Moved(now))
    }

    fn write(&self, seen: &Seen) -> io::Result<()> {
        let line = json!({"database": self.database, "revision": seen.revision, "hash": seen.hash});
        let draft = self.path.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        options.create(true).write(true).truncate(true).mode(0o600);
        writeln!(options.open(&draft)?, "{line}")?;
        std::fs::rename(draft, &self.path)
    }
}

impl Seen {
    fn read(text: &str, database: &str) -> Option<Self> {
        let read: Value = serde_json::from_str(text).ok()?;
        if read["database"] != database {
            return None;
        }
        Some(Self {
            revision: read["revision"].as_i64()?,
            hash: read["hash"].as_str()?.to_owned(),
        })
    }
}

/// What a look came to.
enum Looked {
    Same(Seen),
    Moved(Seen),
    /// From this row on it is not the audit that was seen.
    Contradicted(i64),
}

/// What the log was told.
#[derive(Default)]
struct Telling {
    last: Option<Instant>,
    told: Option<i64>,
    contradicted: bool,
}

impl Telling {
    fn tell(&mut self, looked: &Looked, metrics: &Metrics) {
        match looked {
            Looked::Contradicted(row) => {
                metrics.audit.contradicted(true);
                if !std::mem::replace(&mut self.contradicted, true) {
                    tracing::error!(
                        row,
                        "the audit is not the one that this node has seen: rows were cut off or replaced, or the database was \
                         restored. If it was, delete `audit-anchor` in the data directory and start again"
                    );
                }
            }
            Looked::Same(seen) | Looked::Moved(seen) => {
                metrics.audit.contradicted(false);
                metrics.audit.head(seen.revision, &seen.hash);
                let due = self.last.is_none_or(|last| last.elapsed() >= TELL_EVERY);
                if due && self.told != Some(seen.revision) {
                    (self.last, self.told) = (Some(Instant::now()), Some(seen.revision));
                    tracing::info!(revision = seen.revision, hash = seen.hash, "the end of the audit");
                }
            }
        }
    }
}
