//! Requests that are done once however often they are sent: who does one, and what its answer was.

use sqlx::{Any, Executor, Row};

use super::database::in_time;
use super::{Repository, RepositoryError};

/// How long an answer is kept.
const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;
/// How long whoever claimed a request may take before it counts as abandoned.
const ABANDONED_MS: i64 = 60 * 1_000;
/// How often a claim is tried that others release under its hands.
const TRIES: u32 = 8;

/// A request that is the caller's to do, and then to finish or to release: until another takes it over, who finds it
/// abandoned. When it was claimed tells one claim from the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    scope: String,
    key: String,
    at_ms: i64,
}

/// A write that is done once: by a claim, and with what is to be answered ever after, a status other than 0 and a body,
/// which may follow from the number of the write.
pub struct Once<'a> {
    /// The claim.
    pub claimed: &'a Claimed,
    /// What is answered.
    pub answer: &'a (dyn Fn(i64) -> (i64, String) + Send + Sync),
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The request is the caller's.
    New(Claimed),
    /// Another does it now.
    InFlight,
    /// The key was used for another request.
    Other,
    /// It was done: the answer.
    Done {
        /// Its status.
        status: i64,
        /// Its body.
        response: String,
    },
}

impl Repository {
    /// Claims a request by its key: of all who do so at the same time, on any node, one gets [`Claim::New`].
    ///
    /// What is older than a day counts as absent. A claim that nobody finished for a minute is abandoned, and
    /// the same request may claim it anew; another request with its key may not.
    pub async fn claim(
        &self,
        scope: &str,
        key: &str,
        fingerprint: &str,
        now_ms: i64,
    ) -> Result<Claim, RepositoryError> {
        let expired = now_ms.saturating_sub(KEPT_MS);
        for _ in 0..TRIES {
            if in_time(self.insert_claim(scope, key, fingerprint, now_ms)).await? {
                // Only housekeeping, so it does not fail the claim: what it leaves, the next one finds.
                let _ = in_time(self.forget(expired)).await;
                return Ok(Claim::New(Claimed {
                    scope: scope.to_owned(),
                    key: key.to_owned(),
                    at_ms: now_ms,
                }));
            }
            let query = sqlx::query(
                "SELECT fingerprint, status, response FROM tollgate_idempotency WHERE scope = $1 AND key = $2",
            )
            .bind(scope)
            .bind(key);
            let row = in_time(query.fetch_optional(&self.pool)).await?;
            // Released since: try again.
            let Some(row) = row else { continue };
            let status: i64 = row.try_get(1)?;
            return Ok(match status {
                _ if row.try_get::<&str, _>(0)? != fingerprint => Claim::Other,
                0 => Claim::InFlight,
                _ => Claim::Done {
                    status,
                    response: row.try_get(2)?,
                },
            });
        }
        Ok(Claim::InFlight)
    }

    /// Keeps the answer of a claimed request. The first answer stays; `status` must not be 0.
    pub async fn finish(
        &self,
        claimed: &Claimed,
        status: i64,
        response: &str,
    ) -> Result<(), RepositoryError> {
        in_time(claimed.keep(&self.pool, status, response)).await?;
        Ok(())
    }

    /// Gives a claimed request back undone, so that it may be sent again.
    pub async fn release(&self, claimed: &Claimed) -> Result<(), RepositoryError> {
        let query = sqlx::query(
            "DELETE FROM tollgate_idempotency WHERE scope = $1 AND key = $2 AND at_ms = $3 AND status = 0",
        )
        .bind(claimed.scope.as_str())
        .bind(claimed.key.as_str())
        .bind(claimed.at_ms);
        in_time(query.execute(&self.pool)).await?;
        Ok(())
    }

    /// Inserts a claim, or takes over one that is expired or abandoned: a single statement, so that one of
    /// several does it.
    async fn insert_claim(
        &self,
        scope: &str,
        key: &str,
        fingerprint: &str,
        now_ms: i64,
    ) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(
            "INSERT INTO tollgate_idempotency AS claim (scope, key, fingerprint, status, response, at_ms) \
             VALUES ($1, $2, $3, 0, '', $4) ON CONFLICT (scope, key) DO UPDATE \
             SET fingerprint = excluded.fingerprint, status = 0, response = '', at_ms = excluded.at_ms \
             WHERE claim.at_ms < $5 \
             OR (claim.status = 0 AND claim.at_ms < $6 AND claim.fingerprint = excluded.fingerprint)",
        )
        .bind(scope)
        .bind(key)
        .bind(fingerprint)
        .bind(now_ms)
        .bind(now_ms.saturating_sub(KEPT_MS))
        .bind(now_ms.saturating_sub(ABANDONED_MS))
        .execute(&self.pool)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Deletes some of what has expired: more than one claim adds, so that it does not pile up, and few enough
    /// that nobody waits for it.
    async fn forget(&self, expired: i64) -> Result<(), sqlx::Error> {
        sqlx::query(
            "DELETE FROM tollgate_idempotency WHERE at_ms < $1 AND (scope, key) IN \
             (SELECT scope, key FROM tollgate_idempotency WHERE at_ms < $1 ORDER BY at_ms LIMIT 20)",
        )
        .bind(expired)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

impl Claimed {
    /// Keeps an answer, unless there is one already or another has taken the request over; says whether it did.
    pub(super) async fn keep<'e>(
        &self,
        executor: impl Executor<'e, Database = Any>,
        status: i64,
        response: &str,
    ) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(
            "UPDATE tollgate_idempotency SET status = $4, response = $5 \
             WHERE scope = $1 AND key = $2 AND at_ms = $3 AND status = 0",
        )
        .bind(self.scope.as_str())
        .bind(self.key.as_str())
        .bind(self.at_ms)
        .bind(status)
        .bind(response)
        .execute(executor)
        .await?;
        Ok(done.rows_affected() > 0)
    }
}
