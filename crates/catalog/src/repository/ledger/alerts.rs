//! Alerts of quotas that are being used up: written to the outbox in the transaction that counts, so that each is there once, whichever
//! node saw it and whatever ends.

use serde_json::{Value, json};
use sqlx::{AnyConnection, Row as _};
use tollgate_core::Timestamp;

use super::{Ask, LedgerName, Row, hex, signed, unhex, unsigned};
use crate::repository::database::in_time;
use crate::repository::{Repository, RepositoryError};

/// What kind of message of the outbox it is.
const KIND: &str = "quota.alert";

/// A threshold of a quota that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alerted {
    /// Which counter.
    pub name: LedgerName,
    /// When its period began, in nanoseconds since the epoch.
    pub starts: u64,
    /// The threshold, in percent.
    pub threshold: u64,
    /// When it was noticed, in Unix milliseconds.
    pub at_ms: u64,
}

/// A message of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// By which it is known ever after.
    pub id: String,
    /// Whose it is.
    pub org: String,
    /// What it says, as JSON.
    pub body: String,
    /// When it was written, in Unix milliseconds.
    pub at_ms: u64,
}

impl Repository {
    /// The thresholds that an org's quotas have reached since.
    pub async fn alerts_of(
        &self,
        region: &str,
        org: &str,
        since_ms: u64,
    ) -> Result<Vec<Alerted>, RepositoryError> {
        let query = sqlx::query(
            "SELECT body, at_ms FROM tollgate_outbox WHERE region = $1 AND org = $2 AND kind = $3 AND at_ms >= $4 \
             ORDER BY at_ms, id",
        )
        .bind(region)
        .bind(org)
        .bind(KIND)
        .bind(signed(since_ms));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        let read = |row: &sqlx::any::AnyRow| {
            let body: Value = serde_json::from_str(row.try_get(0)?).unwrap_or_default();
            Ok(Alerted {
                name: unhex(body["quotaId"].as_str().unwrap_or_default())?,
                starts: body["periodStartNs"].as_u64().unwrap_or(0),
                threshold: body["threshold"].as_u64().unwrap_or(0),
                at_ms: unsigned(row.try_get(1)?),
            })
        };
        let alerted: Result<Vec<Alerted>, RepositoryError> = rows.iter().map(read).collect();
        let mut alerted = alerted?;
        // Several may have been reached at once.
        alerted.sort_by_key(|alert| (alert.at_ms, alert.threshold));
        Ok(alerted)
    }

    /// The oldest messages that nobody has sent yet.
    pub async fn unsent(&self, most: i64) -> Result<Vec<Alert>, RepositoryError> {
        let query = sqlx::query(
            "SELECT id, org, body, at_ms FROM tollgate_outbox WHERE sent_ms = 0 ORDER BY at_ms, id LIMIT $1",
        )
        .bind(most.max(0));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok(Alert {
                id: row.try_get(0)?,
                org: row.try_get(1)?,
                body: row.try_get(2)?,
                at_ms: unsigned(row.try_get(3)?),
            })
        };
        rows.iter().map(read).collect()
    }

    /// Notes that a message was sent.
    pub async fn sent(&self, id: &str, at: Timestamp) -> Result<(), RepositoryError> {
        let query = sqlx::query("UPDATE tollgate_outbox SET sent_ms = $2 WHERE id = $1")
            .bind(id)
            .bind(signed(at.millis().max(1)));
        in_time(query.execute(&self.pool)).await?;
        Ok(())
    }

    /// Writes alerts, in the transaction of an exchange.
    pub(super) async fn add_alerts(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        alerts: &[(&Ask, Row, u8)],
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        for (ask, row, threshold) in alerts {
            let name = hex(&ask.name);
            let mut body: Value = serde_json::from_str(&ask.label).unwrap_or_else(|_| json!({}));
            for (member, value) in [
                ("quotaId", json!(name)),
                ("threshold", json!(threshold)),
                ("used", json!(row.used)),
                ("limit", json!(ask.alert_limit)),
                ("periodStartNs", json!(row.starts)),
                ("periodEndNs", json!(row.ends)),
            ] {
                body[member] = value;
            }
            sqlx::query(
                "INSERT INTO tollgate_outbox (id, region, kind, org, body, at_ms, sent_ms) \
                 VALUES ($1, $2, $3, $4, $5, $6, 0) ON CONFLICT (id) DO NOTHING",
            )
            .bind(format!("{region}/{name}/{}/{threshold}", row.starts))
            .bind(region)
            .bind(KIND)
            .bind(&ask.org)
            .bind(body.to_string())
            .bind(signed(now.millis()))
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}
