//! A writer's turn at the head: a transaction that adds rows to the journal, one writer after the other.

use sqlx::{Any, AnyConnection, Executor as _, Row, Transaction};

use super::address::Backend;
use super::chain::{Link, without_secret};
use super::{Author, Place, Repository, RepositoryError};

/// A turn. It ends with [`end`](Self::end); dropped, it leaves nothing behind.
pub(super) struct Turn<'r> {
    repository: &'r Repository,
    transaction: Transaction<'static, Any>,
    /// The number of the last row, and its hash.
    revision: i64,
    hash: String,
    began_at: i64,
}

impl<'r> Turn<'r> {
    /// Waits for a turn.
    ///
    /// The first statement changes the head, though to what it is: that takes the row's lock until the turn
    /// ends, so what is read afterwards cannot be overtaken, and rows become visible in their order.
    pub(super) async fn take(repository: &'r Repository) -> Result<Self, RepositoryError> {
        let mut transaction = repository.begin_soon().await?;
        let statement = "UPDATE tollgate_head SET revision = revision WHERE id = 1 RETURNING revision, hash";
        let Some(head) = transaction.fetch_optional(statement).await? else {
            return Err(RepositoryError::Content(
                "the database has lost the head of its journal".to_owned(),
            ));
        };
        let revision = head.try_get(0)?;
        let hash = head.try_get(1)?;
        Ok(Self {
            repository,
            transaction,
            revision,
            hash,
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
            before: before.map(without_secret).unwrap_or_default(),
            after: after.map(without_secret).unwrap_or_default(),
        };
        let hash = link.hash(&self.hash);
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
        sqlx::query("UPDATE tollgate_head SET revision = $1, hash = $2 WHERE id = 1")
            .bind(self.revision)
            .bind(self.hash.as_str())
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
        self.repository.written.send_replace(());
        Ok(self.revision)
    }

    /// Gives the turn back with nothing done.
    pub(super) async fn leave(self) -> Result<(), RepositoryError> {
        Ok(self.transaction.rollback().await?)
    }
}
