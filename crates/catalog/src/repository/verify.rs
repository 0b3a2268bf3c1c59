//! Whether the journal is what was written, and the entries what it says.

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use sqlx::{AnyConnection, Row};

use super::chain::{journaled, without_secret};
use super::database::in_time;
use super::journal::{Chained, head, is_of_file, rows_after};
use super::turn::seal_of;
use super::{Kind, Repository, RepositoryError};

/// How many rows are read at a time.
const PAGE: i64 = 1_000;
/// How many differing entries are named.
const MAX_DIFFERING: usize = 100;

/// What a walk along the journal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many rows hold, from the first one on.
    pub rows: i64,
    /// The first row that does not: it is missing, has been changed, or is not where the head says the end is.
    pub broken: Option<i64>,
}

/// What was found of the journal and of the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The journal.
    pub chain: Verified,
    /// The head: the last row's number and hash.
    pub head: (i64, String),
    /// The first row that was made with the key; `None` without a key, or if there is none.
    pub keyed_from: Option<i64>,
    /// Entries that are not what the last row about them says, by kind, org and id: some of them, if there are many.
    pub differing: Vec<(String, String, String)>,
}

/// Of an entry, by its place: the row that made it what it is, and the digest of what that says it is.
type Said = HashMap<[u8; 16], (i64, [u8; 16])>;

struct Walk<'r> {
    repository: &'r Repository,
    rows: i64,
    previous: String,
    keyed_from: Option<i64>,
    said: Said,
}

impl Repository {
    /// Walks the whole journal and computes every hash anew. It sees the database at one moment, so writers may
    /// go on meanwhile.
    pub async fn verify(&self) -> Result<Verified, RepositoryError> {
        let mut transaction = in_time(self.begin_reading()).await?;
        let mut walk = Walk::begin(self);
        let chain = walk.go(&mut transaction).await?.0;
        transaction.rollback().await?;
        Ok(chain)
    }

    /// The same, and compares each entry with the last row about it.
    pub async fn inspect(&self) -> Result<Inspected, RepositoryError> {
        let mut transaction = in_time(self.begin_reading()).await?;
        let mut walk = Walk::begin(self);
        let (chain, head) = walk.go(&mut transaction).await?;
        let differing = match chain.broken {
            // The rows don't say what the entries should be.
            Some(_) => Vec::new(),
            None => differing(&mut transaction, std::mem::take(&mut walk.said)).await?,
        };
        transaction.rollback().await?;
        Ok(Inspected {
            chain,
            head,
            keyed_from: walk.keyed_from,
            differing,
        })
    }
}

impl<'r> Walk<'r> {
    fn begin(repository: &'r Repository) -> Self {
        Self {
            repository,
            rows: 0,
            previous: String::new(),
            keyed_from: None,
            said: HashMap::new(),
        }
    }

    async fn go(
        &mut self,
        connection: &mut AnyConnection,
    ) -> Result<(Verified, (i64, String)), RepositoryError> {
        let head = in_time(head(connection)).await?;
        let seal = in_time(seal(connection)).await?;
        let broken = 'walk: loop {
            // A row may have any number once somebody has changed it, those below the first one too.
            let after = if self.rows == 0 { i64::MIN } else { self.rows };
            let page = in_time(rows_after(connection, after, PAGE)).await?;
            if page.is_empty() {
                break self.end(&head, &seal);
            }
            for row in page {
                let expected = self.rows + 1;
                if row.link.revision != expected || expected > head.0 || !self.holds(&row) {
                    break 'walk Some(expected);
                }
                self.note(&row);
                self.rows = expected;
                self.previous = row.hash;
            }
        };
        let rows = self.rows;
        Ok((Verified { rows, broken }, head))
    }

    /// What is wrong with the end.
    fn end(&self, (end, hash): &(i64, String), seal: &str) -> Option<i64> {
        if self.rows < *end {
            return Some(self.rows + 1);
        }
        let key = self.repository.audit_key.as_ref();
        // The last row holds, but nobody who has the key says that it is the last.
        let unsealed = key.is_some_and(|key| seal_of(key, *end, hash) != seal);
        (self.previous != *hash || unsealed).then_some(self.rows)
    }

    /// Whether a row's hash is right. Rows without the key are of a time before there was one.
    fn holds(&mut self, row: &Chained) -> bool {
        let key = self.repository.audit_key.as_ref();
        if key.is_some_and(|key| row.link.hash(&self.previous, Some(key)) == row.hash) {
            self.keyed_from.get_or_insert(row.link.revision);
            return true;
        }
        self.keyed_from.is_none() && row.link.hash(&self.previous, None) == row.hash
    }

    /// Takes note of what a row says an entry is.
    fn note(&mut self, row: &Chained) {
        let link = &row.link;
        if link.kind == Kind::Quota.name() || is_of_file(&link.author.actor) {
            return;
        }
        let place = place_digest(&link.kind, &link.org, &link.id);
        if link.after.is_empty() {
            self.said.remove(&place);
        } else {
            self.said.insert(place, (link.revision, digest(&link.after)));
        }
    }
}

async fn seal(connection: &mut AnyConnection) -> Result<String, sqlx::Error> {
    let row = sqlx::query("SELECT seal FROM tollgate_head WHERE id = 1");
    row.fetch_one(connection).await?.try_get(0)
}

/// Entries that are not what was said of them, and places that should have one.
async fn differing(
    connection: &mut AnyConnection,
    mut said: Said,
) -> Result<Vec<(String, String, String)>, RepositoryError> {
    let mut found = Vec::new();
    let mut last = (String::new(), String::new(), String::new());
    loop {
        let page = in_time(super::entries::page_after(connection, &last, PAGE)).await?;
        let Some(end) = page.last() else { break };
        last = (end.0.clone(), end.1.clone(), end.2.clone());
        for (kind, org, id, body, revision) in page {
            let expected = said.remove(&place_digest(&kind, &org, &id));
            let is_same = expected.is_some_and(|(row, text)| {
                let as_kept = || digest(&journaled(&body)) == text || digest(&without_secret(&body)) == text;
                row == revision && as_kept()
            });
            if !is_same && found.len() < MAX_DIFFERING {
                found.push((kind, org, id));
            }
        }
    }
    // What is left has rows that say it is there, and is not.
    let mut missing: Vec<i64> = said.into_values().map(|(row, _)| row).collect();
    missing.sort_unstable();
    for revision in missing.into_iter().take(MAX_DIFFERING - found.len()) {
        let row = in_time(rows_after(connection, revision - 1, 1)).await?;
        found.extend(
            row.into_iter()
                .map(|row| (row.link.kind, row.link.org, row.link.id)),
        );
    }
    Ok(found)
}

/// No id has a line feed, so no two places are written alike.
fn place_digest(kind: &str, org: &str, id: &str) -> [u8; 16] {
    digest(&format!("{kind}\n{org}\n{id}"))
}

fn digest(text: &str) -> [u8; 16] {
    let hash = Sha256::digest(text);
    let mut short = [0; 16];
    for (place, byte) in short.iter_mut().zip(hash) {
        *place = byte;
    }
    short
}
