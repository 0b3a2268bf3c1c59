//! Whether the journal is what was written.

use super::database::in_time;
use super::journal::{head, rows_after};
use super::{Repository, RepositoryError};

/// How many rows are read at a time.
const PAGE: i64 = 1_000;

/// What a walk along the journal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many rows hold, from the first one on.
    pub rows: i64,
    /// The first row that does not: it is missing, has been changed, or is not where the head says the end is.
    pub broken: Option<i64>,
}

impl Repository {
    /// Walks the whole journal and computes every hash anew. It sees the database at one moment, so writers may
    /// go on meanwhile.
    pub async fn verify(&self) -> Result<Verified, RepositoryError> {
        let mut transaction = in_time(self.begin_reading()).await?;
        let (end, end_hash) = in_time(head(&mut transaction)).await?;
        let mut rows = 0;
        let mut previous = String::new();
        let broken = 'walk: loop {
            // A row may have any number once somebody has changed it, those below the first one too.
            let after = if rows == 0 { i64::MIN } else { rows };
            let page = in_time(rows_after(&mut transaction, after, PAGE)).await?;
            if page.is_empty() {
                break if rows < end {
                    Some(rows + 1)
                } else {
                    (previous != end_hash).then_some(rows)
                };
            }
            for row in page {
                let expected = rows + 1;
                if row.link.revision != expected || expected > end || row.link.hash(&previous) != row.hash {
                    break 'walk Some(expected);
                }
                rows = expected;
                previous = row.hash;
            }
        };
        transaction.rollback().await?;
        Ok(Verified { rows, broken })
    }
}
