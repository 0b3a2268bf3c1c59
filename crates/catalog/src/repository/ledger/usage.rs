//! What orgs used, by app, endpoint and quarter of an hour: for statements, not for decisions.

use serde_json::{Value, json};
use sqlx::{AnyConnection, Row as _};

use super::{signed, unsigned};
use crate::repository::database::in_time;
use crate::repository::{Repository, RepositoryError};

/// How long a slot of time is that is counted together: every zone's midnight is between two.
pub const SLOT_MS: u64 = 15 * 60 * 1_000;

/// What was used, by whom, for what, in one slot of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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

impl Repository {
    /// What an org used from one instant to another, by app, endpoint and environment; the time of each is the first.
    pub async fn usage_of(
        &self,
        region: &str,
        org: &str,
        (from_ms, to_ms): (u64, u64),
    ) -> Result<Vec<Usage>, RepositoryError> {
        let query = sqlx::query(
            "SELECT app, endpoint, test, CAST(SUM(allowed) AS BIGINT), CAST(SUM(denied) AS BIGINT), \
             CAST(SUM(cost) AS BIGINT) FROM tollgate_usage WHERE region = $1 AND org = $2 AND at_ms >= $3 \
             AND at_ms < $4 GROUP BY app, endpoint, test ORDER BY app, endpoint, test",
        )
        .bind(region)
        .bind(org)
        .bind(signed(from_ms))
        .bind(signed(to_ms));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        let usage = |row: &sqlx::any::AnyRow| {
            Ok(Usage {
                org: org.to_owned(),
                app: row.try_get(0)?,
                endpoint: row.try_get(1)?,
                test: row.try_get::<i64, _>(2)? != 0,
                at_ms: from_ms,
                allowed: unsigned(row.try_get(3)?),
                denied: unsigned(row.try_get(4)?),
                cost: row.try_get(5)?,
            })
        };
        rows.iter().map(usage).collect()
    }

    /// Adds what was used, in the transaction of an exchange.
    pub(super) async fn add_usage(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        usage: &[Usage],
    ) -> Result<(), sqlx::Error> {
        if usage.is_empty() {
            return Ok(());
        }
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
             ON CONFLICT (region, org, at_ms, app, endpoint, test) DO UPDATE SET allowed = known.allowed + excluded.allowed, \
             denied = known.denied + excluded.denied, cost = known.cost + excluded.cost",
            self.elements()
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(rows.collect::<Value>().to_string())
            .execute(connection)
            .await?;
        Ok(())
    }
}
