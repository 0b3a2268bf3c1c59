//! Keeping the file on disk up to date with what is in force.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_catalog::repository::{Kind, Repository, RepositoryError};
use tollgate_counters::LogPace;

use super::copy::{CopyError, copy};
use super::disk::{Disk, Extent, State};
use crate::serve::stopped;

/// How many appended lines are nothing to tidy up yet.
const FEW: usize = 10_000;
/// How long at least from one time to the next.
const PAUSE: Duration = Duration::from_millis(250);
/// How many rows of the journal are read at once.
const ROWS: i64 = 1_000;

impl Disk {
    /// Keeps the file up to date with what is in force, until told to stop. `None` if it has to be written anew.
    pub(super) async fn keep(
        self,
        repository: Repository,
        mut kept: Option<Extent>,
        mut in_force: watch::Receiver<i64>,
        mut stop: watch::Receiver<bool>,
    ) {
        let pace = LogPace::new();
        loop {
            let wanted = *in_force.borrow_and_update();
            if kept.is_none_or(|kept| kept.revision != wanted) {
                match self.bring_up_to_date(&repository, kept, wanted).await {
                    Ok(now) => kept = Some(now),
                    Err(error) => {
                        if let Some(left_out) = pace.turn() {
                            tracing::warn!(
                                left_out,
                                "the catalogue can't be kept on disk (next message in 60 s): {error}. A start \
                                 without the database will lack what has changed"
                            );
                        }
                    }
                }
            }
            let changed = async {
                tokio::time::sleep(PAUSE).await;
                in_force.changed().await
            };
            tokio::select! {
                changed = changed => if changed.is_err() { return },
                () = stopped(&mut stop) => return,
            }
        }
    }

    async fn bring_up_to_date(
        &self,
        repository: &Repository,
        kept: Option<Extent>,
        wanted: i64,
    ) -> Result<Extent, CopyError> {
        if let Some(kept) = kept.filter(|kept| kept.revision < wanted)
            && kept.lines < kept.began * 2 + FEW
        {
            let (revision, states) = changed_since(repository, kept.revision).await?;
            let disk = self.clone();
            let appended = tokio::task::spawn_blocking(move || disk.append(kept, &states, revision)).await;
            if let Some(extent) = appended.map_err(std::io::Error::other)?? {
                return Ok(extent);
            }
        }
        Ok(copy(repository, self, |_| {}, |_, _| {}, |_| {}).await?.extent)
    }
}

/// The present states of all entries that were changed after a revision. An entry may be newer than its row: then
/// its own row comes later, and finds it the same.
async fn changed_since(
    repository: &Repository,
    mut revision: i64,
) -> Result<(i64, Vec<State>), RepositoryError> {
    let mut changed = BTreeMap::new();
    loop {
        let rows = repository.changed_after(revision, ROWS).await?;
        let more = i64::try_from(rows.len()).is_ok_and(|read| read >= ROWS);
        for row in rows {
            revision = row.revision;
            let known = row.place.filter(|place| place.kind != Kind::Unknown);
            changed.extend(known.map(|place| (place, revision)));
        }
        if !more {
            break;
        }
    }
    let mut states = Vec::with_capacity(changed.len());
    for (place, revision) in changed {
        states.push(match repository.get(&place).await? {
            Some(entry) => State::of(entry),
            None => State {
                revision,
                place,
                body: None,
            },
        });
    }
    Ok((revision, states))
}
