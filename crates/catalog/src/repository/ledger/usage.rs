//! What orgs used, by app, endpoint and quarter of an hour: for statements, not for decisions.

use std::sync::{MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::error::DatabaseError;
use sqlx::{AnyConnection, Executor as _, Row as _};

use super::{signed, unsigned};
use crate::repository::address::Backend;
use crate::repository::database::in_time;
use crate::repository::{Repository, RepositoryError};

/// How long a slot of time is that is counted together: every zone's midnight is between two.
pub const SLOT_MS: u64 = 15 * 60 * 1_000;

/// What was used, by whom, for what, in one slot of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The org.
    pub org: String,
    /// The app; empty where none was named.
    pub app: String,
    /// The endpoint's class; empty where it has none.
    pub endpoint: String,
    /// Whether a test key was used.
    pub test: bool,
    /// When the slot begins, in Unix milliseconds.
    pub at_ms: u64,
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// What the allowed ones cost; less than nothing where one before turned out to cost less.
    pub cost: i64,
}

/// Usage that the database would not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedUsage {
    /// What was used.
    pub used: Usage,
    /// Why it was refused, in the database's words.
    pub error: String,
}

/// The largest sum of a column.
const MAX: i64 = i64::MAX;
/// How often lines of one exchange are tried again in smaller parts, to find those that the database refuses.
const MAX_TRIES: usize = 64;
/// Refused lines that are remembered until they are reported.
const MAX_REFUSED: usize = 10_000;

impl Repository {
    /// What an org used from one instant to another, by app, endpoint and environment; the time of each is the first.
    pub async fn usage_of(
        &self,
        region: &str,
        org: &str,
        (from_ms, to_ms): (u64, u64),
    ) -> Result<Vec<Usage>, RepositoryError> {
        let statement = format!(
            "SELECT app, endpoint, test, {}, {}, {} FROM tollgate_usage WHERE region = $1 AND org = $2 \
             AND at_ms >= $3 AND at_ms < $4 GROUP BY app, endpoint, test ORDER BY app, endpoint, test",
            halves_of("allowed"),
            halves_of("denied"),
            halves_of("cost"),
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(org)
            .bind(signed(from_ms))
            .bind(signed(to_ms));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        let usage = |row: &AnyRow| {
            Ok(Usage {
                org: org.to_owned(),
                app: row.try_get(0)?,
                endpoint: row.try_get(1)?,
                test: row.try_get::<i64, _>(2)? != 0,
                at_ms: from_ms,
                allowed: unsigned(sum(row, 3)?),
                denied: unsigned(sum(row, 5)?),
                cost: sum(row, 7)?,
            })
        };
        rows.iter().map(usage).collect()
    }

    /// Takes out the usage that the database has refused so far, to be reported.
    pub fn take_refused_usage(&self) -> Vec<RefusedUsage> {
        std::mem::take(&mut *self.refused())
    }

    fn refused(&self) -> MutexGuard<'_, Vec<RefusedUsage>> {
        self.refused_usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what was used, in the transaction of an exchange, which goes on without the lines that the database refuses:
    /// a statement must not keep a quota from being counted.
    pub(super) async fn add_usage(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        usage: &[Usage],
    ) -> Result<(), sqlx::Error> {
        let mut parts = vec![usage];
        let mut tries = MAX_TRIES;
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            connection.execute("SAVEPOINT usage_part").await?;
            match self.try_usage(connection, region, part).await {
                Ok(()) => {
                    connection.execute("RELEASE SAVEPOINT usage_part").await?;
                }
                Err(error) if is_refusal(&error) => {
                    connection.execute("ROLLBACK TO SAVEPOINT usage_part").await?;
                    connection.execute("RELEASE SAVEPOINT usage_part").await?;
                    tries = tries.saturating_sub(1);
                    if part.len() > 1 && tries > 0 {
                        let (first, second) = part.split_at(part.len() / 2);
                        parts.extend([second, first]);
                    } else {
                        self.set_apart(part, &error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn set_apart(&self, part: &[Usage], error: &sqlx::Error) {
        let mut refused = self.refused();
        for used in part.iter().take(MAX_REFUSED.saturating_sub(refused.len())) {
            refused.push(RefusedUsage {
                used: used.clone(),
                error: error.to_string(),
            });
        }
    }

    async fn try_usage(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        usage: &[Usage],
    ) -> Result<(), sqlx::Error> {
        let rows = usage.iter().map(|used| {
            let [at_ms, allowed, denied] = [used.at_ms, used.allowed, used.denied].map(signed);
            json!([
                used.org,
                used.app,
                used.endpoint,
                i64::from(used.test),
                at_ms,
                allowed,
                denied,
                used.cost
            ])
        });
        // In one order on all nodes, so that none waits for another in a circle.
        let statement = format!(
            "INSERT INTO tollgate_usage AS known (region, org, app, endpoint, test, at_ms, allowed, denied, cost) \
             SELECT $1, value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS BIGINT), \
             CAST(value ->> 4 AS BIGINT), CAST(value ->> 5 AS BIGINT), CAST(value ->> 6 AS BIGINT), \
             CAST(value ->> 7 AS BIGINT) FROM {} WHERE true ORDER BY 2, 3, 4, 5, 6 \
             ON CONFLICT (region, org, at_ms, app, endpoint, test) DO UPDATE SET allowed = {}, denied = {}, cost = {}",
            self.elements(),
            self.added("allowed"),
            self.added("denied"),
            self.added("cost"),
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(rows.collect::<Value>().to_string())
            .execute(connection)
            .await?;
        Ok(())
    }

    /// The sum of what is known in a column and what is added to it. It stops at the largest number, where PostgreSQL would
    /// fail and SQLite would go on with a number that is not whole.
    fn added(&self, column: &str) -> String {
        match self.address.backend {
            Backend::Sqlite => format!(
                "CASE WHEN typeof(known.{column} + excluded.{column}) = 'integer' \
                 THEN known.{column} + excluded.{column} WHEN known.{column} > 0 THEN {MAX} ELSE -{MAX} END"
            ),
            Backend::Postgres => format!(
                "CAST(LEAST(GREATEST(CAST(known.{column} AS NUMERIC) + CAST(excluded.{column} AS NUMERIC), -{MAX}), \
                 {MAX}) AS BIGINT)"
            ),
        }
    }
}

/// The sum of a column, whose upper and lower 32 bits are added up apart: together they may be more than a column holds.
fn halves_of(column: &str) -> String {
    format!("CAST(SUM({column} >> 32) AS BIGINT), CAST(SUM({column} & 4294967295) AS BIGINT)")
}

/// The sum whose halves begin at a place of a row, or the number next to it.
fn sum(row: &AnyRow, place: usize) -> Result<i64, sqlx::Error> {
    let [upper, lower] = [row.try_get::<i64, _>(place)?, row.try_get::<i64, _>(place + 1)?];
    let sum = (i128::from(upper) << 32) + i128::from(lower);
    let (least, most) = (i128::from(-MAX), i128::from(MAX));
    Ok(i64::try_from(sum.clamp(least, most)).unwrap_or(MAX))
}

/// Whether the database has refused what it was told, whoever tells it and whenever: PostgreSQL's classes of errors about
/// data, constraints and sizes, or SQLite's numbers for errors of a statement, sizes, constraints and types.
fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| match code.parse::<i32>() {
        Ok(number) if code.len() < 5 => matches!(number & 0xff, 1 | 18 | 19 | 20),
        _ => ["22", "23", "54"].iter().any(|class| code.starts_with(class)),
    })
}
