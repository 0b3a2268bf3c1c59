//! The ledger: what was used of each quota, in the database (docs/ledger.md).
//!
//! Everything a node says to it is one transaction about any number of counters, an exchange. Rows are locked in the
//! order of their names, so that nodes can't wait for each other in a circle; what is done with each is [`Row`]'s.

mod adjust;
mod alerts;
mod replaced;
mod row;
mod usage;

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row as _};
use tollgate_core::Timestamp;

pub use adjust::{Answering, Corrected, Correcting, Correction};
pub use alerts::{Alert, Alerted};
pub use row::{Ask, LedgerName, Refund, Replaced, Row, Told, Unsettled};
pub use usage::{RefusedUsage, SLOT_MS, Usage};

use super::address::Backend;
use super::database::in_time;
use super::{Repository, RepositoryError};

/// All that a node says to the ledger at once.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// Whose counters: regions count apart.
    pub region: &'a str,
    /// The node, by an id that no other run of it has.
    pub node: &'a str,
    /// The node is alive; else somebody speaks for one that has ended.
    pub lives: bool,
    /// One more than the node's last.
    pub number: i64,
    /// The node's time.
    pub now: Timestamp,
    /// Each counter at most once.
    pub asks: &'a [Ask],
    /// What orgs used since the last one, each kind at most once.
    pub usage: &'a [Usage],
    /// What was not used after all of what other nodes spent.
    pub refunds: &'a [Refund],
    /// What runs have left that ended.
    pub unsettled: &'a [Unsettled],
    /// From which parts of a quota on somebody is told, in percent.
    pub alerts: &'a [u8],
}

/// The last exchange of a node that was done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Its number.
    pub number: i64,
    /// What it was granted of each counter that it asked about, in that order, and in which period; empty if nothing of
    /// any.
    pub granted: Vec<Granted>,
}

/// What was granted of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Granted {
    /// In which period.
    pub generation: u64,
    /// How much.
    pub amount: u64,
}

/// A row with what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Which counter.
    pub name: LedgerName,
    /// Whose it is.
    pub org: String,
    /// What it is about, as JSON.
    pub label: String,
    /// The limit it was last asked about with.
    pub limit: u64,
    /// Its numbers.
    pub row: Row,
}

impl Kept {
    /// The name as text.
    pub fn id(&self) -> String {
        hex(&self.name)
    }

    /// What it is about, read; nothing if the label is no JSON.
    pub fn label(&self) -> Value {
        serde_json::from_str(&self.label).unwrap_or_else(|_| json!({}))
    }

    /// The name of a text, if it is one.
    pub fn name_of(id: &str) -> Option<LedgerName> {
        unhex(id).ok()
    }
}

/// How long rows are kept after their period: long enough for a look at the last month.
const KEPT_NS: u64 = 40 * 86_400 * 1_000_000_000;
/// How long usage is kept: more than a year of months.
const USAGE_KEPT_MS: u64 = 400 * 86_400_000;
/// How long a node is remembered that says nothing.
const NODE_KEPT_MS: i64 = 86_400_000;
/// How recently a node must have been heard of to count as alive: three times as long as nodes are silent at most.
const ALIVE_MS: i64 = 15_000;

impl Repository {
    /// Whether other nodes may use the same ledger.
    pub fn is_shared(&self) -> bool {
        self.address.backend == Backend::Postgres
    }

    /// Does what a node asks, all of it or nothing, and answers in the order of the asks.
    pub async fn exchange(&self, exchange: &Exchange<'_>) -> Result<Vec<Told>, RepositoryError> {
        in_time(self.exchange_now(exchange)).await
    }

    /// A node's last exchange that was done; number 0 if none is known. It writes the node's row, so that it waits for an
    /// exchange whose end is under way: none that it does not tell of is done later.
    pub async fn last_exchange(&self, node: &str, now: Timestamp) -> Result<Done, RepositoryError> {
        let query = sqlx::query(
            "INSERT INTO tollgate_ledger_nodes AS known (node, number, at_ms, granted, lives) \
             VALUES ($1, 0, $2, '', 0) ON CONFLICT (node) DO UPDATE SET number = known.number \
             RETURNING number, granted",
        )
        .bind(node)
        .bind(signed(now.millis()));
        let row = in_time(query.fetch_one(&self.pool)).await?;
        let granted: &str = row.try_get(1)?;
        let unread = |_| RepositoryError::Content(format!("what node {node} was granted can't be read"));
        let pairs: Vec<(u64, u64)> = match granted {
            "" => Vec::new(),
            granted => serde_json::from_str(granted).map_err(unread)?,
        };
        let granted = pairs
            .into_iter()
            .map(|(generation, amount)| Granted { generation, amount });
        Ok(Done {
            number: row.try_get(0)?,
            granted: granted.collect(),
        })
    }

    /// Notes that a node is alive, though it may have nothing to say.
    pub async fn note_alive(&self, node: &str, now: Timestamp) -> Result<(), RepositoryError> {
        let query = sqlx::query(
            "INSERT INTO tollgate_ledger_nodes (node, number, at_ms, granted, lives) VALUES ($1, 0, $2, '', 1) \
             ON CONFLICT (node) DO UPDATE SET at_ms = excluded.at_ms, lives = 1",
        )
        .bind(node)
        .bind(signed(now.millis()));
        in_time(query.execute(&self.pool)).await?;
        Ok(())
    }

    /// How many nodes are alive that use the ledger.
    pub async fn ledger_nodes(&self, now: Timestamp) -> Result<u64, RepositoryError> {
        let since = signed(now.millis()).saturating_sub(ALIVE_MS);
        let query = sqlx::query("SELECT COUNT(*) FROM tollgate_ledger_nodes WHERE at_ms > $1 AND lives = 1")
            .bind(since);
        let row = in_time(query.fetch_one(&self.pool)).await?;
        Ok(unsigned(row.try_get(0)?))
    }

    /// At most `limit` rows of an org, those after a name, in the order of their names.
    pub async fn ledger_of(
        &self,
        region: &str,
        org: &str,
        after: Option<&LedgerName>,
        limit: i64,
    ) -> Result<Vec<Kept>, RepositoryError> {
        let query = sqlx::query(
            "SELECT name, generation, starts, ends, mark, used, alerted, reported, org, label, most FROM tollgate_ledger \
             WHERE region = $1 AND org = $2 AND name > $3 ORDER BY name LIMIT $4",
        )
        .bind(region)
        .bind(org)
        .bind(after.map(hex).unwrap_or_default())
        .bind(limit.max(0));
        let rows = in_time(query.fetch_all(&self.pool)).await?;
        rows.iter().map(kept).collect()
    }

    /// Forgets rows whose period is long over, and nodes that are long gone.
    pub async fn tidy_ledger(&self, now: Timestamp) -> Result<(), RepositoryError> {
        let ended = signed(now.nanos().saturating_sub(KEPT_NS));
        let rows = sqlx::query("DELETE FROM tollgate_ledger WHERE ends < $1").bind(ended);
        in_time(rows.execute(&self.pool)).await?;
        let replaced = sqlx::query(
            "DELETE FROM tollgate_ledger_replaced WHERE NOT EXISTS (SELECT 1 FROM tollgate_ledger AS known \
             WHERE known.region = tollgate_ledger_replaced.region AND known.name = tollgate_ledger_replaced.name)",
        );
        in_time(replaced.execute(&self.pool)).await?;
        let told = signed(now.millis().saturating_sub(KEPT_NS / 1_000_000));
        let alerts = sqlx::query("DELETE FROM tollgate_outbox WHERE at_ms < $1").bind(told);
        in_time(alerts.execute(&self.pool)).await?;
        let used = signed(now.millis().saturating_sub(USAGE_KEPT_MS));
        let usage = sqlx::query("DELETE FROM tollgate_usage WHERE at_ms < $1").bind(used);
        in_time(usage.execute(&self.pool)).await?;
        let gone = signed(now.millis()).saturating_sub(NODE_KEPT_MS);
        let nodes = sqlx::query("DELETE FROM tollgate_ledger_nodes WHERE at_ms < $1").bind(gone);
        in_time(nodes.execute(&self.pool)).await?;
        Ok(())
    }

    async fn exchange_now(&self, exchange: &Exchange<'_>) -> Result<Vec<Told>, RepositoryError> {
        let Exchange {
            region, now, asks, ..
        } = *exchange;
        let mut transaction = self.begin_lasting().await?;
        self.open_rows(&mut transaction, region, asks).await?;
        let mut rows = HashMap::new();
        let names = asks.iter().map(|ask| ask.name);
        let names: Vec<LedgerName> = names
            .chain(exchange.refunds.iter().map(|refund| refund.name))
            .chain(exchange.unsettled.iter().map(|unsettled| unsettled.name))
            .chain(asks.iter().flat_map(|ask| &ask.formers).map(|former| former.name))
            .collect();
        if !names.is_empty() {
            rows = self.lock(&mut transaction, region, names).await?;
        }
        let mut replacements = self.replacements(&mut transaction, region, asks).await?;
        self.give_back(&mut transaction, exchange, &mut rows).await?;
        let replaces = asks.iter().any(|ask| !ask.formers.is_empty());
        let formers = if replaces { rows.clone() } else { HashMap::new() };
        let (mut told, mut changed) = (vec![Told::default(); asks.len()], Vec::new());
        let mut alerts = Vec::new();
        for place in replaced_first(asks) {
            let ask = &asks[place];
            // A row that was there when the node last asked may have been tidied away since. Nothing is granted then.
            let Some(before) = rows.get(&ask.name).copied() else {
                continue;
            };
            let mut row = before;
            let late = replacements.late(ask, &rows, &formers, now);
            let room = room(ask, &formers, now).saturating_sub(late);
            row.take_over(late, now);
            told[place] = row.exchange(ask, room, now, self.is_shared());
            let reached: Vec<u8> = row.reach(ask.alert_limit, exchange.alerts).collect();
            alerts.extend(reached.into_iter().map(|threshold| (ask, row, threshold)));
            rows.insert(ask.name, row);
            if row != before || ask.relabel {
                changed.push((ask, row));
            }
        }
        self.write_rows(&mut transaction, region, &changed).await?;
        self.write_replacements(&mut transaction, region, &replacements)
            .await?;
        self.add_alerts(&mut transaction, region, &alerts, now).await?;
        self.add_usage(&mut transaction, region, exchange.usage).await?;
        self.note_done(&mut transaction, exchange, &told).await?;
        transaction.commit().await?;
        Ok(told)
    }

    /// Takes back into locked rows what was not used after all, and what runs have left that ended.
    async fn give_back(
        &self,
        connection: &mut AnyConnection,
        exchange: &Exchange<'_>,
        rows: &mut HashMap<LedgerName, Row>,
    ) -> Result<(), sqlx::Error> {
        let mut changed = Vec::new();
        for refund in exchange.refunds {
            let row = rows.get_mut(&refund.name);
            if let Some(row) = row.filter(|row| row.ends == refund.ends)
                && row.refund(refund, exchange.now)
            {
                changed.push((refund.name, *row));
            }
        }
        for unsettled in exchange.unsettled {
            if let Some(row) = rows.get_mut(&unsettled.name)
                && row.settle(unsettled, exchange.now)
            {
                changed.push((unsettled.name, *row));
            }
        }
        for (name, row) in changed {
            sqlx::query(
                "UPDATE tollgate_ledger SET mark = $3, used = $4, reported = $5 WHERE region = $1 AND name = $2",
            )
                .bind(exchange.region)
                .bind(hex(&name))
                .bind(signed(row.mark))
                .bind(signed(row.used))
                .bind(signed(row.reported))
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }

    /// Notes that this exchange was done, with it, and what it granted: its answer may be lost.
    async fn note_done(
        &self,
        connection: &mut AnyConnection,
        exchange: &Exchange<'_>,
        told: &[Told],
    ) -> Result<(), sqlx::Error> {
        let mut granted = String::new();
        if told.iter().any(|told| told.granted > 0) {
            let pairs = told.iter().map(|told| json!([told.row.generation, told.granted]));
            granted = pairs.collect::<Value>().to_string();
        }
        sqlx::query(
            "INSERT INTO tollgate_ledger_nodes (node, number, at_ms, granted, lives) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (node) DO UPDATE \
             SET number = excluded.number, at_ms = excluded.at_ms, granted = excluded.granted, lives = excluded.lives",
        )
        .bind(exchange.node)
        .bind(exchange.number)
        .bind(signed(exchange.now.millis()))
        .bind(granted)
        .bind(i64::from(exchange.lives))
        .execute(connection)
        .await?;
        Ok(())
    }

    /// Makes the rows that this node does not know of, if they are not there.
    async fn open_rows(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        asks: &[Ask],
    ) -> Result<(), sqlx::Error> {
        let new = asks.iter().filter(|ask| ask.generation == 0);
        let new: Vec<Value> = new
            .map(|ask| json!([hex(&ask.name), ask.org, ask.label]))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let statement = format!(
            "INSERT INTO tollgate_ledger (region, name, org, label, most, generation, starts, ends, mark, used) \
             SELECT $1, value ->> 0, value ->> 1, value ->> 2, 0, 0, 0, 0, 0, 0 FROM {} WHERE true \
             ORDER BY value ->> 0 ON CONFLICT (region, name) DO NOTHING",
            self.elements()
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(Value::from(new).to_string())
            .execute(connection)
            .await?;
        Ok(())
    }

    /// Reads rows, which nobody else can change until the transaction ends.
    async fn lock(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        names: Vec<LedgerName>,
    ) -> Result<HashMap<LedgerName, Row>, RepositoryError> {
        // SQLite's transaction has the whole file to itself.
        let lock = if self.is_shared() { " FOR UPDATE" } else { "" };
        let statement = format!(
            "SELECT name, generation, starts, ends, mark, used, alerted, reported FROM tollgate_ledger WHERE region = $1 \
             AND name IN (SELECT value ->> 0 FROM {}) ORDER BY name{lock}",
            self.elements()
        );
        let names: Vec<Value> = names.iter().map(|name| json!([hex(name)])).collect();
        let rows = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(Value::from(names).to_string())
            .fetch_all(connection)
            .await?;
        let row = |row: &AnyRow| {
            let (name, numbers) = read(row)?;
            Ok((unhex(&name)?, numbers))
        };
        rows.iter().map(row).collect()
    }

    async fn write_rows(
        &self,
        connection: &mut AnyConnection,
        region: &str,
        changed: &[(&Ask, Row)],
    ) -> Result<(), sqlx::Error> {
        if changed.is_empty() {
            return Ok(());
        }
        let rows = changed.iter().map(|(ask, row)| {
            let numbers = [
                row.generation,
                row.starts,
                row.ends,
                row.mark,
                row.used,
                ask.limit,
                row.alerted,
                row.reported,
            ];
            let [generation, starts, ends, mark, used, limit, alerted, reported] = numbers.map(signed);
            // What it is about may be told otherwise since a change of policies.
            let label = if ask.relabel { ask.label.as_str() } else { "" };
            let name = hex(&ask.name);
            json!([
                name, generation, starts, ends, mark, used, limit, label, alerted, reported
            ])
        });
        // They are there: with an update from a list SQLite would go through the list for each row.
        let statement = format!(
            "INSERT INTO tollgate_ledger AS known \
             (region, name, org, label, most, generation, starts, ends, mark, used, alerted, reported) \
             SELECT $1, value ->> 0, '', value ->> 7, CAST(value ->> 6 AS BIGINT), CAST(value ->> 1 AS BIGINT), \
             CAST(value ->> 2 AS BIGINT), CAST(value ->> 3 AS BIGINT), CAST(value ->> 4 AS BIGINT), \
             CAST(value ->> 5 AS BIGINT), CAST(value ->> 8 AS BIGINT), CAST(value ->> 9 AS BIGINT) \
             FROM {} WHERE true ON CONFLICT (region, name) DO UPDATE \
             SET label = CASE WHEN excluded.label = '' THEN known.label ELSE excluded.label END, \
             most = excluded.most, generation = excluded.generation, starts = excluded.starts, \
             ends = excluded.ends, mark = excluded.mark, used = excluded.used, alerted = excluded.alerted, \
             reported = excluded.reported",
            self.elements()
        );
        sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(region)
            .bind(rows.collect::<Value>().to_string())
            .execute(connection)
            .await?;
        Ok(())
    }

    /// The elements of the JSON array that is a statement's second argument, as a table of one column, `value`.
    fn elements(&self) -> &'static str {
        match self.address.backend {
            Backend::Sqlite => "json_each($2)",
            Backend::Postgres => "jsonb_array_elements($2::jsonb) AS items(value)",
        }
    }
}

/// The places of asks, in an order in which what is reported to a row comes before the rows that replace it.
fn replaced_first(asks: &[Ask]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..asks.len()).collect();
    places.sort_by_key(|place| asks[*place].formers.len());
    places
}

/// What is left to a counter by those that it replaces.
fn room(ask: &Ask, formers: &HashMap<LedgerName, Row>, now: Timestamp) -> u64 {
    let left = ask.formers.iter().filter_map(|former| {
        let row = formers.get(&former.name).filter(|row| !row.is_over(now))?;
        Some(row.left(former.limit).saturating_add(former.held))
    });
    left.min().unwrap_or(u64::MAX)
}

fn kept(row: &AnyRow) -> Result<Kept, RepositoryError> {
    let (name, numbers) = read(row)?;
    Ok(Kept {
        name: unhex(&name)?,
        row: numbers,
        org: row.try_get(8)?,
        label: row.try_get(9)?,
        limit: unsigned(row.try_get(10)?),
    })
}

fn read(row: &AnyRow) -> Result<(String, Row), sqlx::Error> {
    let number = |place: usize| row.try_get(place).map(unsigned);
    Ok((
        row.try_get(0)?,
        Row {
            generation: number(1)?,
            starts: number(2)?,
            ends: number(3)?,
            mark: number(4)?,
            used: number(5)?,
            alerted: number(6)?,
            reported: number(7)?,
        },
    ))
}

fn hex(name: &LedgerName) -> String {
    let mut text = String::with_capacity(32);
    for byte in name {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn unhex(text: &str) -> Result<LedgerName, RepositoryError> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
    number.map(u128::to_be_bytes).ok_or_else(|| {
        RepositoryError::Content(format!("the ledger holds a counter of the unknown name {text:?}"))
    })
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
