//! What policy files change, as rows of the journal: they are no entries, so what a file said last is kept beside them, for
//! whoever notices first that it says something else now.

use std::collections::BTreeMap;

use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::Row;

use super::chain::hex;
use super::database::in_time;
use super::journal::file_actor;
use super::turn::Turn;
use super::{Author, Kind, Place, Repository, RepositoryError};

/// How many rows are written at once.
const MAX_ROWS: usize = 2_000;

/// Something that a policy file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileObject {
    /// What it is.
    pub place: Place,
    /// Its JSON document.
    pub body: String,
}

/// What a file says, by place.
type Said = BTreeMap<Place, String>;

impl Repository {
    /// Notes what a policy file says now that it did not when a node last noted it: a row for each object. Gives how many
    /// there were. Of several nodes with the same file one does it, and none that starts again.
    pub async fn note_file(
        &self,
        name: &str,
        objects: Vec<FileObject>,
        author: &Author,
    ) -> Result<usize, RepositoryError> {
        let now: Said = objects.into_iter().map(|one| (one.place, one.body)).collect();
        let digest = digest_of(&now);
        let mut noted = 0;
        loop {
            let query = sqlx::query("SELECT digest FROM tollgate_files WHERE name = $1").bind(name);
            let known = in_time(query.fetch_optional(&self.pool)).await?;
            let known: Option<String> = known.map(|row| row.try_get(0)).transpose()?;
            if known.as_ref() == Some(&digest) {
                return Ok(noted);
            }
            match in_time(self.note_some(name, &now, author)).await? {
                0 => return Ok(noted),
                some => noted += some,
            }
        }
    }

    /// Notes as many changes as go into one turn.
    async fn note_some(&self, name: &str, now: &Said, author: &Author) -> Result<usize, RepositoryError> {
        let mut turn = Turn::take(self).await?;
        let query = sqlx::query("SELECT body FROM tollgate_files WHERE name = $1").bind(name);
        let row = query.fetch_optional(turn.connection()).await?;
        let text: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
        let mut said = text.map_or_else(Said::new, |text| read(&text));
        let author = Author {
            actor: file_actor(name),
            ..author.clone()
        };
        let places: Vec<Place> = said.keys().chain(now.keys()).cloned().collect();
        let mut changed = 0;
        for place in places {
            let (before, after) = (said.get(&place), now.get(&place));
            if before == after {
                continue;
            }
            turn.add(
                &author,
                &place,
                before.map(String::as_str),
                after.map(String::as_str),
            )
            .await?;
            match after {
                Some(after) => said.insert(place, after.clone()),
                None => said.remove(&place),
            };
            changed += 1;
            if changed == MAX_ROWS {
                break;
            }
        }
        sqlx::query(
            "INSERT INTO tollgate_files (name, digest, body) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET digest = excluded.digest, body = excluded.body",
        )
        .bind(name)
        .bind(digest_of(&said))
        .bind(written(&said))
        .execute(turn.connection())
        .await?;
        turn.end_always().await?;
        Ok(changed)
    }
}

fn written(said: &Said) -> String {
    let items = said.iter();
    let items = items.map(|(place, body)| json!([place.kind.name(), place.org, place.id, body]));
    serde_json::Value::from_iter(items).to_string()
}

fn read(text: &str) -> Said {
    let items: Vec<(String, String, String, String)> = serde_json::from_str(text).unwrap_or_default();
    let read = |(kind, org, id, body): (String, String, String, String)| {
        let kind = Kind::parse(&kind)?;
        Some((Place { kind, org, id }, body))
    };
    items.into_iter().filter_map(read).collect()
}

fn digest_of(said: &Said) -> String {
    hex(&Sha256::digest(written(said)))
}
