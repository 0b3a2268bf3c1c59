//! The journal: every change in its order.

use std::borrow::Cow;

use serde_json::Value;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::chain::Link;
use super::database::in_time;
use super::pages::{Cut, Page};
use super::turn::Turn;
use super::{Author, JournalRow, Kind, Place, Repository, RepositoryError};

/// A row with the hash it has in the table.
pub(super) struct Chained {
    pub(super) link: Link,
    pub(super) hash: String,
}

impl Repository {
    /// The number of the journal's last row; 0 for an empty catalogue.
    pub async fn head(&self) -> Result<i64, RepositoryError> {
        let mut connection = self.pool.acquire().await?;
        let (revision, _) = in_time(head(&mut connection)).await?;
        Ok(revision)
    }

    /// The number and hash of the journal's last row.
    pub async fn head_with_hash(&self) -> Result<(i64, String), RepositoryError> {
        let mut connection = self.pool.acquire().await?;
        in_time(head(&mut connection)).await
    }

    /// The hash of a row, if there is one of this number.
    pub async fn hash_of(&self, revision: i64) -> Result<Option<String>, RepositoryError> {
        let query = sqlx::query("SELECT hash FROM tollgate_journal WHERE revision = $1").bind(revision);
        let row = in_time(query.fetch_optional(&self.pool)).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// Adds a row to the journal without changing an entry, for what is done to something that is not in the
    /// catalogue. Gives the row's number.
    pub async fn note(
        &self,
        author: &Author,
        place: &Place,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<i64, RepositoryError> {
        in_time(async {
            let mut turn = Turn::take(self).await?;
            turn.add(author, place, before, after).await?;
            turn.end().await
        })
        .await
    }

    /// At most `limit` rows after a number, the oldest first. Fewer don't mean that there are no more, only none do: a page
    /// ends after [some bytes](super::MAX_PAGE_BYTES), too.
    pub async fn journal(&self, after: i64, limit: i64) -> Result<Vec<JournalRow>, RepositoryError> {
        let mut connection = self.pool.acquire().await?;
        let rows = in_time(rows_after(&mut connection, after, limit)).await?;
        Ok(rows.into_iter().map(Chained::row).collect())
    }

    /// True if a policy was ever made by API, whatever became of it since. Those of files are no entries.
    pub async fn has_had_policies(&self) -> Result<bool, RepositoryError> {
        let query = sqlx::query(
            "SELECT 1 FROM tollgate_journal WHERE org = '' AND kind = $1 AND actor NOT LIKE 'file:%' LIMIT 1",
        );
        let query = query.bind(Kind::Policy.name());
        let row = in_time(query.fetch_optional(&self.pool)).await?;
        Ok(row.is_some())
    }

    /// What at most `limit` rows after a number changed, the oldest first: for whoever looks at what is there now, and needs
    /// no bodies.
    pub async fn changed_after(&self, after: i64, limit: i64) -> Result<Vec<Changed>, RepositoryError> {
        let query = sqlx::query(
            "SELECT revision, at_ms, kind, org, id, actor FROM tollgate_journal \
             WHERE revision > $1 ORDER BY revision LIMIT $2",
        )
        .bind(after)
        .bind(limit.max(0));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        let changed = |row: &AnyRow| -> Result<Changed, sqlx::Error> {
            let place = Place {
                kind: Kind::stored(row.try_get(2)?),
                org: row.try_get(3)?,
                id: row.try_get(4)?,
            };
            Ok(Changed {
                revision: row.try_get(0)?,
                at_ms: row.try_get(1)?,
                place: (!is_of_file(row.try_get(5)?)).then_some(place),
            })
        };
        Ok(rows.iter().map(changed).collect::<Result<_, _>>()?)
    }

    /// At most `limit` rows before a number, the newest first, of all orgs or of one, with the rows about the org
    /// itself and about its tokens, which are entries of none. `i64::MAX` is before which all rows are.
    pub async fn journal_back(
        &self,
        before: i64,
        org: Option<&str>,
        limit: i64,
    ) -> Result<Page<JournalRow>, RepositoryError> {
        macro_rules! back {
            ($columns:literal, $and:literal) => {
                concat!(
                    "SELECT ",
                    $columns,
                    " FROM tollgate_journal WHERE revision < $1 AND revision >= $2 ",
                    $and,
                    "ORDER BY revision DESC LIMIT $3"
                )
            };
            ($columns:literal of org) => {
                back!(
                    $columns,
                    "AND (org = $4 OR (kind = 'org' AND id = $4) OR (kind = 'token' \
                     AND REPLACE(before_body || after_body, $5, '') <> before_body || after_body)) "
                )
            };
        }
        let of = |statement: &'static str, below: i64, oldest: i64| {
            let query = sqlx::query(statement).bind(below).bind(oldest).bind(limit.max(0));
            // As it stands in a token's body. It can't stand in one of its texts, where quotes are escaped.
            let named = org.map(|org| (org.to_owned(), format!("\"orgId\":{}", Value::from(org))));
            match named {
                Some((org, named)) => query.bind(org).bind(named),
                None => query,
            }
        };
        let sizes = match org {
            None => back!(
                "CAST(OCTET_LENGTH(before_body) + OCTET_LENGTH(after_body) AS BIGINT), revision",
                ""
            ),
            Some(_) => {
                back!("CAST(OCTET_LENGTH(before_body) + OCTET_LENGTH(after_body) AS BIGINT), revision" of org)
            }
        };
        let sizes = in_time(of(sizes, before, i64::MIN).fetch_all(&self.pool)).await?;
        let (Some(cut), Some(newest)) = (Cut::of(&sizes, limit)?, sizes.first()) else {
            return Ok(Page::empty());
        };
        let span = (
            newest.try_get::<i64, _>(1)?.saturating_add(1),
            cut.last.try_get(1)?,
        );
        let rows = match org {
            None => back!(
                "revision, at_ms, actor, route, request, reason, kind, org, id, before_body, after_body, hash",
                ""
            ),
            Some(_) => {
                back!("revision, at_ms, actor, route, request, reason, kind, org, id, before_body, after_body, hash" of org)
            }
        };
        let rows = in_time(of(rows, span.0, span.1).fetch_all(&self.pool)).await?;
        let rows = rows.iter().map(|row| Ok(chained(row)?.row()));
        Ok(Page {
            rows: rows.collect::<Result<_, sqlx::Error>>()?,
            more: cut.more,
        })
    }
}

impl JournalRow {
    /// The org it is about: the one it belongs to, the org itself, or the one that a token is for.
    pub fn org(&self) -> Option<Cow<'_, str>> {
        match (self.place.kind, self.place.org.as_str()) {
            (Kind::Org, _) => Some(Cow::Borrowed(&self.place.id)),
            (Kind::Token, _) => {
                let body = self.after.as_ref().or(self.before.as_ref())?;
                let body: Value = serde_json::from_str(body).ok()?;
                body["orgId"].as_str().map(|org| Cow::Owned(org.to_owned()))
            }
            (_, "") => None,
            (_, org) => Some(Cow::Borrowed(org)),
        }
    }
}

/// What a row of the journal says was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The row's number.
    pub revision: i64,
    /// When it was written, in Unix milliseconds.
    pub at_ms: i64,
    /// Which entry; `None` where none was, as the row tells of a policy file.
    pub place: Option<Place>,
}

/// The actor of what a policy file of this name changes.
pub(super) fn file_actor(name: &str) -> String {
    format!("file:{name}")
}

/// Whether a row tells of a change of a policy file, which changes no entry.
pub(super) fn is_of_file(actor: &str) -> bool {
    actor.starts_with("file:")
}

/// The last row's number and hash.
pub(super) async fn head(connection: &mut AnyConnection) -> Result<(i64, String), RepositoryError> {
    let row = sqlx::query("SELECT revision, hash FROM tollgate_head WHERE id = 1")
        .fetch_optional(connection)
        .await?;
    let row = row.ok_or_else(|| {
        RepositoryError::Content("the database has lost the head of its journal".to_owned())
    })?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Rows after a number, the oldest first: a page of them, which has no rows only if there are none.
pub(super) async fn rows_after(
    connection: &mut AnyConnection,
    after: i64,
    limit: i64,
) -> Result<Vec<Chained>, sqlx::Error> {
    let sizes = sqlx::query(
        "SELECT CAST(OCTET_LENGTH(before_body) + OCTET_LENGTH(after_body) AS BIGINT), revision \
         FROM tollgate_journal WHERE revision > $1 ORDER BY revision LIMIT $2",
    )
    .bind(after)
    .bind(limit.max(0))
    .fetch_all(&mut *connection)
    .await?;
    let Some(cut) = Cut::of(&sizes, limit)? else {
        return Ok(Vec::new());
    };
    let rows = sqlx::query(
        "SELECT revision, at_ms, actor, route, request, reason, kind, org, id, before_body, after_body, hash \
         FROM tollgate_journal WHERE revision > $1 AND revision <= $2 ORDER BY revision",
    )
    .bind(after)
    .bind(cut.last.try_get::<i64, _>(1)?)
    .fetch_all(connection)
    .await?;
    rows.iter().map(chained).collect()
}

fn chained(row: &AnyRow) -> Result<Chained, sqlx::Error> {
    let author = Author {
        at_ms: row.try_get(1)?,
        actor: row.try_get(2)?,
        route: row.try_get(3)?,
        request: row.try_get(4)?,
        reason: row.try_get(5)?,
    };
    let link = Link {
        revision: row.try_get(0)?,
        author,
        kind: row.try_get(6)?,
        org: row.try_get(7)?,
        id: row.try_get(8)?,
        before: row.try_get(9)?,
        after: row.try_get(10)?,
    };
    Ok(Chained {
        link,
        hash: row.try_get(11)?,
    })
}

impl Chained {
    fn row(self) -> JournalRow {
        let Self { link, hash } = self;
        let present = |body: String| (!body.is_empty()).then_some(body);
        JournalRow {
            revision: link.revision,
            author: link.author,
            place: Place {
                kind: Kind::stored(&link.kind),
                org: link.org,
                id: link.id,
            },
            before: present(link.before),
            after: present(link.after),
            hash,
        }
    }
}
