//! The catalogue's database, or what was last seen of it.

use tollgate_catalog::repository::{Repository, RepositoryError};

use crate::catalogue::{Disk, Kept};
use crate::fleet::Fleet;
use crate::metrics::Origin;

/// Opens the catalogue's database. If it does not answer, what was last seen of it is on disk, or in Redis.
pub(super) async fn open_database(
    url: &str,
    disk: &Disk,
    fleet: Option<&Fleet>,
) -> Result<(Repository, Origin, Option<Kept>), String> {
    let error = match Repository::open(url).await {
        Ok(repository) => {
            if let Some(fleet) = fleet.filter(|_| repository.backend() == "sqlite") {
                fleet.warn_of_mirror().await;
            }
            return Ok((repository, Origin::Database, None));
        }
        Err(error) => error,
    };
    if !matches!(error, RepositoryError::Database(_) | RepositoryError::Late) {
        return Err(format!("--database: {error}"));
    }
    let unreadable = |place: &'static str| {
        move |problem: std::io::Error| {
            tracing::error!("the catalogue that was kept {place} can't be read: {problem}");
            None
        }
    };
    let mut kept = disk.read().unwrap_or_else(unreadable("on disk"));
    let mut origin = Origin::Disk;
    // An empty catalogue is the truth only as long as nobody knows better.
    let is_empty = kept.as_ref().is_none_or(|kept| kept.revision() == 0);
    if let (true, Some(fleet)) = (is_empty, fleet) {
        let mirrored = fleet
            .mirror
            .fetch(disk)
            .await
            .unwrap_or_else(unreadable("in Redis"));
        if mirrored.is_some() {
            (kept, origin) = (mirrored, Origin::Redis);
        }
    }
    match (kept, Repository::later(url)) {
        (Some(kept), Ok(repository)) => {
            tracing::error!(
                revision = kept.revision(),
                "the catalogue's database does not answer, what was kept {} is in force: {error}",
                if origin == Origin::Disk {
                    "on disk"
                } else {
                    "in Redis"
                },
            );
            Ok((repository, origin, Some(kept)))
        }
        _ => Err(format!("--database: {error}")),
    }
}
