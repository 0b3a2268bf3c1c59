//! Entries: what the catalogue holds now.

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::address::Backend;
use super::database::in_time;
use super::pages::{Cut, Page};
use super::turn::Turn;
use super::{Author, Change, Entry, Kind, Once, Place, Repository, RepositoryError, Written};

impl Repository {
    /// The entry of a place.
    pub async fn get(&self, place: &Place) -> Result<Option<Entry>, RepositoryError> {
        let query = sqlx::query(
            "SELECT kind, org, id, body, revision FROM tollgate_entries WHERE kind = $1 AND org = $2 AND id = $3",
        )
        .bind(place.kind.name())
        .bind(place.org.as_str())
        .bind(place.id.as_str());
        let row = in_time(query.fetch_optional(&self.pool)).await?;
        Ok(row.as_ref().map(entry).transpose()?)
    }

    /// At most `limit` entries of a kind and an org whose ids come after `after`, in the order of their ids' bytes. Fewer
    /// don't mean that there are no more, only none do: a page ends after [some bytes](super::MAX_PAGE_BYTES), too.
    pub async fn list(
        &self,
        kind: Kind,
        org: &str,
        after: &str,
        limit: i64,
    ) -> Result<Vec<Entry>, RepositoryError> {
        Ok(self.list_page(kind, org, after, limit).await?.rows)
    }

    /// The same, and whether there are more.
    pub async fn list_page(
        &self,
        kind: Kind,
        org: &str,
        after: &str,
        limit: i64,
    ) -> Result<Page<Entry>, RepositoryError> {
        let sizes = sqlx::query(
            "SELECT CAST(OCTET_LENGTH(body) AS BIGINT), id FROM tollgate_entries \
             WHERE kind = $1 AND org = $2 AND id > $3 ORDER BY id LIMIT $4",
        )
        .bind(kind.name())
        .bind(org)
        .bind(after)
        .bind(limit.max(0));
        let sizes = in_time(sizes.fetch_all(&self.pool)).await?;
        let Some(cut) = Cut::of(&sizes, limit)? else {
            return Ok(Page::empty());
        };
        let query = sqlx::query(
            "SELECT kind, org, id, body, revision FROM tollgate_entries \
             WHERE kind = $1 AND org = $2 AND id > $3 AND id <= $4 ORDER BY id LIMIT $5",
        )
        .bind(kind.name())
        .bind(org)
        .bind(after)
        .bind(cut.last.try_get::<&str, _>(1)?)
        .bind(limit);
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        Ok(Page {
            rows: rows.iter().map(entry).collect::<Result<_, _>>()?,
            more: cut.more,
        })
    }

    /// The entries of a kind and an org that have these ids, in the order of the ids' bytes.
    pub async fn some(&self, kind: Kind, org: &str, ids: &[&str]) -> Result<Vec<Entry>, RepositoryError> {
        let ids = serde_json::json!(ids).to_string();
        let statement = match self.address.backend {
            Backend::Sqlite => {
                "SELECT kind, org, id, body, revision FROM tollgate_entries \
                 WHERE kind = $1 AND org = $2 AND id IN (SELECT value FROM json_each($3)) ORDER BY id"
            }
            Backend::Postgres => {
                "SELECT kind, org, id, body, revision FROM tollgate_entries \
                 WHERE kind = $1 AND org = $2 AND id IN (SELECT jsonb_array_elements_text($3::jsonb)) ORDER BY id"
            }
        };
        let query = sqlx::query(statement).bind(kind.name()).bind(org).bind(ids);
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// How many entries an org has of a kind, counted no further than `most`.
    pub async fn count(&self, kind: Kind, org: &str, most: i64) -> Result<i64, RepositoryError> {
        let query = sqlx::query(
            "SELECT COUNT(*) FROM (SELECT id FROM tollgate_entries WHERE kind = $1 AND org = $2 LIMIT $3) AS some",
        )
        .bind(kind.name())
        .bind(org)
        .bind(most.max(0));
        let row = in_time(query.fetch_one(&self.pool)).await?;
        Ok(row.try_get(0)?)
    }

    /// At most `limit` of all entries, those after a place, in the order of the kind's name, the org and the id. As in a
    /// [list](Self::list), fewer don't mean that there are no more. Entries of
    /// unknown kinds are among them.
    ///
    /// A node reads the whole catalogue by this when it starts. Pages are not read at one moment: ask for the
    /// [head](Self::head) first, and follow the [journal](Self::journal) from there.
    pub async fn page(&self, after: Option<&Place>, limit: i64) -> Result<Vec<Entry>, RepositoryError> {
        // No kind has an empty name, so every entry comes after the empty one.
        let (kind, org, id) = after.map_or(("", "", ""), |place| (place.kind.name(), &place.org, &place.id));
        let sizes = sqlx::query(
            "SELECT CAST(OCTET_LENGTH(body) AS BIGINT), kind, org, id FROM tollgate_entries \
             WHERE (kind, org, id) > ($1, $2, $3) ORDER BY kind, org, id LIMIT $4",
        )
        .bind(kind)
        .bind(org)
        .bind(id)
        .bind(limit.max(0));
        let sizes = in_time(sizes.fetch_all(&self.pool)).await?;
        let Some(cut) = Cut::of(&sizes, limit)? else {
            return Ok(Vec::new());
        };
        let query = sqlx::query(
            "SELECT kind, org, id, body, revision FROM tollgate_entries \
             WHERE (kind, org, id) > ($1, $2, $3) AND (kind, org, id) <= ($4, $5, $6) ORDER BY kind, org, id LIMIT $7",
        )
        .bind(kind)
        .bind(org)
        .bind(id)
        .bind(cut.last.try_get::<&str, _>(1)?)
        .bind(cut.last.try_get::<&str, _>(2)?)
        .bind(cut.last.try_get::<&str, _>(3)?)
        .bind(limit);
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        Ok(rows.iter().map(entry).collect::<Result<_, _>>()?)
    }

    /// Makes changes, all or none, provided that the catalogue is still at the revision the writer knows.
    ///
    /// Each change adds a row to the journal and has a number of its own. Deleting what is not there is no
    /// change.
    pub async fn write(
        &self,
        known: i64,
        author: &Author,
        changes: &[Change],
    ) -> Result<Written, RepositoryError> {
        in_time(self.write_in_turn(known, author, changes, None)).await
    }

    /// The same for a request that was claimed: with the changes the answer is kept, or neither, if another has
    /// taken the request over since.
    pub async fn write_once(
        &self,
        known: i64,
        author: &Author,
        changes: &[Change],
        once: &Once<'_>,
    ) -> Result<Written, RepositoryError> {
        in_time(self.write_in_turn(known, author, changes, Some(once))).await
    }

    async fn write_in_turn(
        &self,
        known: i64,
        author: &Author,
        changes: &[Change],
        once: Option<&Once<'_>>,
    ) -> Result<Written, RepositoryError> {
        let mut turn = Turn::take(self).await?;
        if turn.revision() != known {
            turn.leave().await?;
            return Ok(Written::Behind);
        }
        for change in changes {
            let before = body(turn.connection(), &change.place).await?;
            if before.is_none() && change.body.is_none() {
                continue;
            }
            let revision = turn
                .add(author, &change.place, before.as_deref(), change.body.as_deref())
                .await?;
            match &change.body {
                Some(body) => put(turn.connection(), &change.place, body, revision).await?,
                None => delete(turn.connection(), &change.place).await?,
            }
        }
        if let Some(once) = once {
            let (status, response) = (once.answer)(turn.revision());
            if !once.claimed.keep(turn.connection(), status, &response).await? {
                turn.leave().await?;
                return Ok(Written::Overtaken);
            }
        }
        Ok(Written::At(turn.end().await?))
    }
}

/// The present body of a place.
async fn body(connection: &mut AnyConnection, place: &Place) -> Result<Option<String>, sqlx::Error> {
    let row = sqlx::query("SELECT body FROM tollgate_entries WHERE kind = $1 AND org = $2 AND id = $3")
        .bind(place.kind.name())
        .bind(place.org.as_str())
        .bind(place.id.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(|row| row.try_get(0)).transpose()
}

async fn put(
    connection: &mut AnyConnection,
    place: &Place,
    body: &str,
    revision: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO tollgate_entries (kind, org, id, body, revision) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (kind, org, id) DO UPDATE SET body = excluded.body, revision = excluded.revision",
    )
    .bind(place.kind.name())
    .bind(place.org.as_str())
    .bind(place.id.as_str())
    .bind(body)
    .bind(revision)
    .execute(connection)
    .await?;
    Ok(())
}

async fn delete(connection: &mut AnyConnection, place: &Place) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM tollgate_entries WHERE kind = $1 AND org = $2 AND id = $3")
        .bind(place.kind.name())
        .bind(place.org.as_str())
        .bind(place.id.as_str())
        .execute(connection)
        .await?;
    Ok(())
}

fn entry(row: &AnyRow) -> Result<Entry, sqlx::Error> {
    let place = Place {
        kind: Kind::stored(row.try_get(0)?),
        org: row.try_get(1)?,
        id: row.try_get(2)?,
    };
    Ok(Entry {
        place,
        body: row.try_get(3)?,
        revision: row.try_get(4)?,
    })
}

/// A page of all entries as they stand in the table: kind, org, id, body and revision.
pub(super) async fn page_after(
    connection: &mut AnyConnection,
    (kind, org, id): &(String, String, String),
    limit: i64,
) -> Result<Vec<(String, String, String, String, i64)>, sqlx::Error> {
    let sizes = sqlx::query(
        "SELECT CAST(OCTET_LENGTH(body) AS BIGINT), kind, org, id FROM tollgate_entries \
         WHERE (kind, org, id) > ($1, $2, $3) ORDER BY kind, org, id LIMIT $4",
    )
    .bind(kind.as_str())
    .bind(org.as_str())
    .bind(id.as_str())
    .bind(limit)
    .fetch_all(&mut *connection)
    .await?;
    let Some(cut) = Cut::of(&sizes, limit)? else {
        return Ok(Vec::new());
    };
    let rows = sqlx::query(
        "SELECT kind, org, id, body, revision FROM tollgate_entries \
         WHERE (kind, org, id) > ($1, $2, $3) AND (kind, org, id) <= ($4, $5, $6) ORDER BY kind, org, id",
    )
    .bind(kind.as_str())
    .bind(org.as_str())
    .bind(id.as_str())
    .bind(cut.last.try_get::<&str, _>(1)?)
    .bind(cut.last.try_get::<&str, _>(2)?)
    .bind(cut.last.try_get::<&str, _>(3)?)
    .fetch_all(connection)
    .await?;
    let read = |row: &AnyRow| {
        Ok((
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
        ))
    };
    rows.iter().map(read).collect()
}
