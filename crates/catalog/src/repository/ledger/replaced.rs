//! Reports of a fallback to a row that was replaced meanwhile.
//!
//! A row that replaces others opens with the room that they have left. A node may report to one of them later than that,
//! of requests that it let through while the database was unavailable. So a row counts what was reported to it that way,
//! and one that replaces it is charged what it has not seen of that yet, in every exchange that names both.

use std::collections::HashMap;

use serde_json::{Value, json};
use sqlx::{AnyConnection, Row as _};
use tollgate_core::Timestamp;

use super::row::{Ask, LedgerName, Row};
use super::{hex, signed, unhex, unsigned};
use crate::repository::{Repository, RepositoryError};

/// The rows of an exchange, by name.
pub(super) type Rows = HashMap<LedgerName, Row>;

/// How much was reported to a replaced row, and in which of its periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reported {
    generation: u64,
    amount: u64,
}

/// How much rows that replace others have seen of what is reported to those.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    seen: HashMap<(LedgerName, LedgerName), Reported>,
    changed: Vec<(LedgerName, LedgerName, Reported)>,
}

impl Replacements {
    /// Returns what was reported to rows that an ask's row replaces, and that row has not seen. `before` are the rows as
    /// they were when the exchange began: by them it is reckoned with how much room a row opens.
    pub(super) fn late(&mut self, ask: &Ask, rows: &Rows, before: &Rows, now: Timestamp) -> u64 {
        let generation = rows.get(&ask.name).map_or(0, |row| row.generation);
        // In its next period nothing counts that was let through before.
        if generation > 1 {
            return 0;
        }
        let mut late: u64 = 0;
        for former in &ask.formers {
            let Some(reported) = reported(rows, &former.name, now) else {
                continue;
            };
            let place = (ask.name, former.name);
            let known = self.seen.insert(place, reported);
            if known != Some(reported) {
                self.changed.push((ask.name, former.name, reported));
            }
            let seen = if generation == 0 {
                self::reported(before, &former.name, now)
            } else {
                known
            };
            let seen = seen.filter(|seen| seen.generation == reported.generation);
            let seen = seen.map_or(0, |seen| seen.amount);
            late = late.saturating_add(reported.amount.saturating_sub(seen));
        }
        late
    }
}

/// What was reported in the running period of a row.
fn reported(rows: &Rows, name: &LedgerName, now: Timestamp) -> Option<Reported> {
    let row = rows.get(name).filter(|row| !row.is_over(now))?;
    Some(Reported {
        generation: row.generation,
        amount: row.reported,
    })
}

impl Repository {
    /// Reads what the rows of some asks have seen. Nobody else changes it while those rows are locked.
    pub(super) async fn replacements(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        asks: &[Ask],
    ) -> Result<Replacements, RepositoryError> {
        let names = asks.iter().filter(|ask| !ask.formers.is_empty());
        let names: Vec<Value> = names.map(|ask| json!([hex(&ask.name)])).collect();
        if names.is_empty() {
            return Ok(Replacements::default());
        }
        let statement = format!(
            "SELECT name, former, generation, reported FROM tollgate_ledger_replaced WHERE region = $1 \
             AND name IN (SELECT value ->> 0 FROM {})",
            self.elements()
        );
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(Value::from(names).to_string())
            .fetch_all(connection)
            .await?;
        let mut seen = HashMap::new();
        for row in rows {
            let place = (unhex(row.try_get(0)?)?, unhex(row.try_get(1)?)?);
            let reported = Reported {
                generation: unsigned(row.try_get(2)?),
                amount: unsigned(row.try_get(3)?),
            };
            seen.insert(place, reported);
        }
        Ok(Replacements {
            seen,
            changed: Vec::new(),
        })
    }

    /// Stores what has been seen in an exchange.
    pub(super) async fn write_replacements(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        replacements: &Replacements,
    ) -> Result<(), sqlx::Error> {
        if replacements.changed.is_empty() {
            return Ok(());
        }
        let rows = replacements.changed.iter().map(|(name, former, reported)| {
            json!([
                hex(name),
                hex(former),
                signed(reported.generation),
                signed(reported.amount)
            ])
        });
        let statement = format!(
            "INSERT INTO tollgate_ledger_replaced (region, name, former, generation, reported) \
             SELECT $1, value ->> 0, value ->> 1, CAST(value ->> 2 AS BIGINT), CAST(value ->> 3 AS BIGINT) \
             FROM {} WHERE true ON CONFLICT (region, name, former) DO UPDATE \
             SET generation = excluded.generation, reported = excluded.reported",
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
