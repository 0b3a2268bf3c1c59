//! Following what other nodes write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tollgate_catalog::repository::Changed;
use tollgate_catalog::snapshot::Snapshot;

use super::contents::Contents;
use super::preview::Preview;
use super::{Catalogue, CatalogueError};
use crate::clock;
use crate::metrics::Origin;
use crate::serve::stopped;

/// How often the database is asked, whatever was or was not announced: the net under notifications.
const POLL: Duration = Duration::from_millis(250);
/// How long at least from one state that is put in force to the next: what is written meanwhile comes all at once,
/// so that many writes don't keep a node from deciding.
const PAUSE: Duration = Duration::from_millis(20);
/// How many rows of the journal are read at once.
const ROWS: i64 = 1_000;
/// How many orgs may stay in use, some kilobytes each, and how long at least they do.
const IN_USE: usize = 65_536;
const WARM: Duration = Duration::from_mins(1);

impl Catalogue {
    /// Follows the database until told to stop, even while it hangs.
    pub async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.keep_up() => {}
            () = stopped(&mut stop) => {}
        }
    }

    async fn keep_up(&self) {
        let mut changes = None;
        let mut away = false;
        let mut cooled = Instant::now();
        loop {
            if cooled.elapsed() > WARM {
                self.cool().await;
                cooled = Instant::now();
            }
            self.settle().await;
            if changes.is_none() {
                changes = self.repository.changes().await.ok();
            }
            let announced = async {
                match &mut changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                revision = announced => if self.has_come_to(revision).await { continue },
                () = tokio::time::sleep(POLL) => {}
            }
            let known = self.revision();
            let caught_up = self.catch_up().await;
            if self.revision() != known {
                tokio::time::sleep(PAUSE).await;
            }
            match (caught_up, away) {
                (Ok(()), true) => {
                    away = false;
                    tracing::info!("the catalogue's database answers again");
                }
                (Err(error), false) => {
                    away = true;
                    tracing::error!(
                        "the catalogue's database does not answer, the last state stays in force: {error}"
                    );
                }
                _ => {}
            }
            self.metrics.catalogue_away(away);
            if !away {
                self.metrics.catalogue_from(Origin::Database);
            }
        }
    }

    /// Forgets what is in memory of all orgs if that is much: most were asked for once and have been idle since.
    async fn cool(&self) {
        let _alone = self.contents.lock().await;
        let snapshot = self.engine.snapshot_full();
        if snapshot.orgs_in_use() > IN_USE {
            self.engine.reinstall(snapshot.cooled());
        }
    }

    /// Lets orgs that were asked for since the snapshot was made be found quicker.
    async fn settle(&self) {
        if self.engine.snapshot().is_settled() {
            return;
        }
        let _alone = self.contents.lock().await;
        self.engine.reinstall(self.engine.snapshot_full().settled());
    }

    /// Whether a change was taken note of. If this node is writing, it may be that very one.
    async fn has_come_to(&self, revision: i64) -> bool {
        self.contents.lock().await.revision >= revision
    }

    /// Puts in force what was written since this node last looked.
    pub async fn catch_up(&self) -> Result<(), CatalogueError> {
        // Writers are not made to wait for a database that does not answer.
        let rows = self.repository.changed_after(self.revision(), ROWS).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut contents = self.contents.lock().await;
        self.take_up(&mut contents, rows).await
    }

    pub(super) async fn catch_up_locked(&self, contents: &mut Contents) -> Result<(), CatalogueError> {
        let rows = self.repository.changed_after(contents.revision, ROWS).await?;
        self.take_up(contents, rows).await
    }

    /// Takes up rows of the journal, and those that come after them. What does not fit here is left out, so that
    /// nothing keeps the rest from being followed.
    async fn take_up(&self, contents: &mut Contents, mut rows: Vec<Changed>) -> Result<(), CatalogueError> {
        loop {
            let more = i64::try_from(rows.len()).is_ok_and(|read| read >= ROWS);
            rows.retain(|row| row.revision > contents.revision);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            let (revision, written_ms) = (last.revision, last.at_ms);
            let places = rows.into_iter().filter_map(|row| row.place).collect();
            let mut next = contents.clone();
            let Preview { snapshot, .. } = self.preview(&mut next, places, &[]).await?;
            next.revision = revision;
            self.put_in_force(contents, next, snapshot);
            // By two nodes' clocks: where they differ by more, it took no time.
            let now_ms = i64::try_from(clock::now().millis()).unwrap_or(i64::MAX);
            let took = u64::try_from(now_ms.saturating_sub(written_ms)).unwrap_or(0);
            self.metrics.propagated(Duration::from_millis(took));
            if !more {
                return Ok(());
            }
            rows = self.repository.changed_after(contents.revision, ROWS).await?;
        }
    }

    pub(super) fn put_in_force(&self, contents: &mut Contents, next: Contents, snapshot: Snapshot) {
        if next.tokens != contents.tokens {
            self.tokens.store(Arc::new(next.tokens.clone()));
        }
        self.report(contents, &next);
        *contents = next;
        self.install(snapshot);
        self.now_at(contents.revision);
    }
}
