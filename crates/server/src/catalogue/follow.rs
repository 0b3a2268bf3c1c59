//! Following what other nodes write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tollgate_catalog::repository::{Change, Changed, Entry, Kind, Place};
use tollgate_catalog::snapshot::Snapshot;

use super::contents::{Contents, Held, OF_AN_ORG, matters};
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

    /// Takes up rows of the journal, and those that come after them.
    async fn take_up(&self, contents: &mut Contents, mut rows: Vec<Changed>) -> Result<(), CatalogueError> {
        loop {
            let more = i64::try_from(rows.len()).is_ok_and(|read| read >= ROWS);
            rows.retain(|row| row.revision > contents.revision);
            let Some(last) = rows.last() else {
                return Ok(());
            };
            let (revision, written_ms) = (last.revision, last.at_ms);
            let mut next = contents.clone();
            let mut places = std::mem::take(&mut next.unfit);
            places.extend(rows.into_iter().filter_map(|row| row.place));
            let looked_at = places.clone();
            let snapshot = self.preview(&mut next, places, &[]).await;
            next.revision = revision;
            match snapshot {
                Ok(snapshot) => {
                    self.put_in_force(contents, next, snapshot);
                    // By two nodes' clocks: where they differ by more, it took no time.
                    let now_ms = i64::try_from(clock::now().millis()).unwrap_or(i64::MAX);
                    let took = u64::try_from(now_ms.saturating_sub(written_ms)).unwrap_or(0);
                    self.metrics.propagated(Duration::from_millis(took));
                }
                Err(CatalogueError::Problems(problems)) => {
                    // Another node found it good: this one's policy file says something else, or an entry is
                    // newer already than the rows that were read. Going on with the last good state is better
                    // than stopping; with the next rows it is looked at again.
                    tracing::error!(
                        "a change of the catalogue does not fit this node's policy file: {problems}"
                    );
                    contents.revision = revision;
                    contents.unfit = looked_at;
                }
                Err(error) => return Err(error),
            }
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
        *contents = next;
        self.install(snapshot);
        self.now_at(contents.revision);
    }

    /// The snapshot as it will be with some entries as the database has them, or as `changes` will make them.
    pub(super) async fn preview(
        &self,
        contents: &mut Contents,
        places: BTreeSet<Place>,
        changes: &[Change],
    ) -> Result<Snapshot, CatalogueError> {
        let file = self.file.load_full();
        let now = clock::now();
        let (mut common, mut orgs) = (false, BTreeSet::new());
        let (mut gone, mut there) = (Vec::new(), Vec::new());
        let demonstrated = contents.in_force == 0 && !file.given;
        let changed: HashMap<&Place, &Change> =
            changes.iter().map(|change| (&change.place, change)).collect();
        for place in places {
            match place.kind {
                Kind::Org => drop(orgs.insert(place.id.clone())),
                kind if OF_AN_ORG.contains(&kind) => drop(orgs.insert(place.org.clone())),
                kind => {
                    let entry = match changed.get(&place) {
                        Some(change) => entry_of(change),
                        None => self.repository.get(&place).await?,
                    };
                    if kind == Kind::Key {
                        gone.extend_from_slice(contents.keys.of(&place));
                    }
                    there.extend(contents.take(&place, entry.as_ref()));
                    common |= matches!(
                        kind,
                        Kind::Tier | Kind::Policy | Kind::EndpointClasses | Kind::Rollout | Kind::Eras
                    );
                }
            }
            contents.in_force += usize::from(matters(place.kind));
        }
        let mut snapshot = (*self.engine.snapshot_full()).clone();
        if demonstrated && contents.in_force > 0 {
            // The demonstration ends with its orgs.
            let set = contents.set_with(&file);
            snapshot = self.engine.compile(&set).map_err(CatalogueError::Problems)?;
        } else if common {
            let set = contents.set_with(&file);
            snapshot = snapshot
                .with_common(&set, now)
                .map_err(CatalogueError::Problems)?;
        }
        let mut records: BTreeMap<String, _> = BTreeMap::new();
        for org in orgs {
            let mut held = Held::read(&self.repository, &org).await?;
            held.apply(&org, changes);
            let record = held.merged(&org, &file);
            records.insert(org, record);
        }
        if !records.is_empty() {
            let with_orgs = snapshot.with_orgs(records.into_iter().collect(), now);
            snapshot = with_orgs.map_err(CatalogueError::Problems)?;
        }
        if !gone.is_empty() || !there.is_empty() {
            snapshot = snapshot.with_keys(&gone, there);
        }
        Ok(snapshot)
    }
}

/// The entry that a change will make.
pub(super) fn entry_of(change: &Change) -> Option<Entry> {
    change.body.as_ref().map(|body| Entry {
        place: change.place.clone(),
        body: body.clone(),
        revision: i64::MAX,
    })
}

impl Held {
    /// Applies what is about to be written.
    fn apply(&mut self, org: &str, changes: &[Change]) {
        for change in changes {
            let place = &change.place;
            let concerns = (place.kind == Kind::Org && place.id == org)
                || (OF_AN_ORG.contains(&place.kind) && place.org == org);
            if !concerns {
                continue;
            }
            match entry_of(change) {
                Some(entry) => self.take(&entry),
                None => self.forget(place),
            }
        }
    }
}
