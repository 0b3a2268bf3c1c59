//! A writer's turn at the head: a transaction that adds rows to the journal, one writer after the other.

use sqlx::{Any, AnyConnection, Row, Transaction};

use super::address::Backend;
use super::chain::{Link, journaled};
use super::journal::rows_after;
use super::{AuditKey, Author, Place, Repository, RepositoryError};

/// A turn. It ends with [`end`](Self::end); dropped, it leaves nothing behind.
pub(super) struct Turn<'r> {
    repository: &'r Repository,
    transaction: Transaction<'static, Any>,
    /// The number of the last row, and its hash.
    revision: i64,
    hash: String,
    /// What shows that the head was moved by one who has the key; it stays as it is where it shows the opposite.
    seal: String,
    began_at: i64,
}

impl<'r> Turn<'r> {
    /// Waits for a turn.
    ///
    /// The first statement changes the head, though to what it is: that takes the row's lock until the turn
    /// ends, so what is read afterwards cannot be overtaken, and rows become visible in their order.
    pub(super) async fn take(repository: &'r Repository) -> Result<Self, RepositoryError> {
        let mut transaction = repository.begin_soon().await?;
        let statement =
            "UPDATE tollgate_head SET revision = revision WHERE id = 1 RETURNING revision, hash, seal";
        let head = sqlx::query(statement).fetch_optional(&mut *transaction).await?;
        let Some(head) = head else {
            return Err(RepositoryError::Content(
                "the database has lost the head of its journal".to_owned(),
            ));
        };
        let revision = head.try_get(0)?;
        let hash = head.try_get(1)?;
        let seal = head.try_get(2)?;
        Ok(Self {
            repository,
            transaction,
            revision,
            hash,
            seal,
            began_at: revision,
        })
    }

    /// The number of the last row.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// The connection, for statements of the same transaction.
    pub(super) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.transaction
    }

    /// Adds a row to the journal and gives its number.
    pub(super) async fn add(
        &mut self,
        author: &Author,
        place: &Place,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<i64, RepositoryError> {
        let link = Link {
            revision: self.revision + 1,
            author: author.clone(),
            kind: place.kind.name().to_owned(),
            org: place.org.clone(),
            id: place.id.clone(),
            before: before.map(journaled).unwrap_or_default(),
            after: after.map(journaled).unwrap_or_default(),
        };
        let key = self.repository.audit_key.as_ref();
        let hash = link.hash(&self.hash, key);
        if key.is_some_and(|key| self.seal == seal_of(key, self.revision, &self.hash)) {
            self.seal = key.map_or_else(String::new, |key| seal_of(key, link.revision, &hash));
        }
        sqlx::query(
            "INSERT INTO tollgate_journal (revision, at_ms, actor, route, request, reason, kind, org, id, \
             before_body, after_body, hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        )
        .bind(link.revision)
        .bind(link.author.at_ms)
        .bind(link.author.actor)
        .bind(link.author.route)
        .bind(link.author.request)
        .bind(link.author.reason)
        .bind(link.kind)
        .bind(link.org)
        .bind(link.id)
        .bind(link.before)
        .bind(link.after)
        .bind(hash.as_str())
        .execute(self.connection())
        .await?;
        self.revision = link.revision;
        self.hash = hash;
        Ok(self.revision)
    }

    /// Ends the turn: moves the head, tells the others, and commits. Gives the number of the last row.
    pub(super) async fn end(mut self) -> Result<i64, RepositoryError> {
        if self.revision == self.began_at {
            self.transaction.rollback().await?;
            return Ok(self.revision);
        }
        sqlx::query("UPDATE tollgate_head SET revision = $1, hash = $2, seal = $3 WHERE id = 1")
            .bind(self.revision)
            .bind(self.hash.as_str())
            .bind(self.seal.as_str())
            .execute(&mut *self.transaction)
            .await?;
        if self.repository.address.backend == Backend::Postgres {
            // Sent when the transaction commits, and not if it does not.
            sqlx::query("SELECT pg_notify('tollgate_changes', $1)")
                .bind(self.revision.to_string())
                .execute(&mut *self.transaction)
                .await?;
        }
        self.transaction.commit().await?;
        self.repository.written.send_replace(self.revision);
        Ok(self.revision)
    }

    /// Ends the turn where what was written besides counts even if no row was added.
    pub(super) async fn end_always(self) -> Result<i64, RepositoryError> {
        if self.revision == self.began_at {
            let revision = self.revision;
            self.transaction.commit().await?;
            return Ok(revision);
        }
        self.end().await
    }

    /// Gives the turn back with nothing done.
    pub(super) async fn leave(self) -> Result<(), RepositoryError> {
        Ok(self.transaction.rollback().await?)
    }
}

/// What shows that a head is one that somebody with the key has set: rows alone would not tell that others came after them.
pub(super) fn seal_of(key: &AuditKey, revision: i64, hash: &str) -> String {
    key.sign(&format!("head {revision} {hash}"))
}

impl Repository {
    /// Seals a head that was made before there was a key. One that is sealed already stays as it is, and one whose last row
    /// was made with a key can only have lost its seal.
    pub async fn seal_head(&self) -> Result<(), RepositoryError> {
        let Some(key) = &self.audit_key else { return Ok(()) };
        let mut turn = Turn::take(self).await?;
        let end = turn.revision;
        let before = sqlx::query("SELECT hash FROM tollgate_journal WHERE revision = $1").bind(end - 1);
        let before = before.fetch_optional(turn.connection()).await?;
        let before: String = before.map_or(Ok(String::new()), |row| row.try_get(0))?;
        let last = rows_after(turn.connection(), end - 1, 1).await?;
        let plain = match last.first() {
            None => end == 0,
            Some(last) => last.link.hash(&before, None) == last.hash,
        };
        if !turn.seal.is_empty() || !plain {
            return turn.leave().await;
        }
        let seal = seal_of(key, turn.revision, &turn.hash);
        sqlx::query("UPDATE tollgate_head SET seal = $1 WHERE id = 1")
            .bind(seal)
            .execute(turn.connection())
            .await?;
        Ok(turn.transaction.commit().await?)
    }
}
