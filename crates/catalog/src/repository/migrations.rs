//! The tables, and the steps by which those of an older version become those of this one.
//!
//! A step that has been released is never edited: another one is added behind it.

use sqlx::{AnyConnection, Executor, Row};

use super::address::Backend;
use super::{Repository, RepositoryError};

/// One step: its statements for each database.
struct Step {
    sqlite: &'static [&'static str],
    postgres: &'static [&'static str],
}

/// Makes the statements of a step from one text for both databases. They differ in the type of text alone:
/// PostgreSQL orders it by the rules of some language unless it is told to order bytes, as SQLite does.
macro_rules! step {
    (|$text:ident| $($statement:expr),+ $(,)?) => {
        Step {
            sqlite: {
                macro_rules! $text { () => { "TEXT NOT NULL" } }
                &[$($statement),+]
            },
            postgres: {
                macro_rules! $text { () => { "TEXT COLLATE \"C\" NOT NULL" } }
                &[$($statement),+]
            },
        }
    };
}

/// Every step, in order; the version of the tables is how many of them were taken.
static STEPS: &[Step] = &[
    step! { |text|
    concat!(
        "CREATE TABLE tollgate_entries (",
        "kind ", text!(), ", org ", text!(), ", id ", text!(), ", body ", text!(), ", revision BIGINT NOT NULL, ",
        "PRIMARY KEY (kind, org, id))",
    ),
    concat!(
        "CREATE TABLE tollgate_journal (",
        "revision BIGINT NOT NULL PRIMARY KEY, at_ms BIGINT NOT NULL, ",
        "actor ", text!(), ", route ", text!(), ", request ", text!(), ", reason ", text!(), ", ",
        "kind ", text!(), ", org ", text!(), ", id ", text!(), ", ",
        "before_body ", text!(), ", after_body ", text!(), ", hash ", text!(), ")",
    ),
    "CREATE INDEX tollgate_journal_of_org ON tollgate_journal (org, revision)",
    concat!(
        "CREATE TABLE tollgate_head (",
        "id BIGINT NOT NULL PRIMARY KEY, revision BIGINT NOT NULL, hash ", text!(), ")",
    ),
    "INSERT INTO tollgate_head (id, revision, hash) VALUES (1, 0, '')",
    concat!(
        "CREATE TABLE tollgate_idempotency (",
        "key ", text!(), ", scope ", text!(), ", fingerprint ", text!(), ", status BIGINT NOT NULL, ",
        "response ", text!(), ", at_ms BIGINT NOT NULL, PRIMARY KEY (scope, key))",
    ),
    "CREATE INDEX tollgate_idempotency_by_age ON tollgate_idempotency (at_ms)",
    },
    step! { |text|
    concat!(
        "CREATE TABLE tollgate_ledger (",
        "region ", text!(), ", name ", text!(), ", org ", text!(), ", label ", text!(), ", most BIGINT NOT NULL, ",
        "generation BIGINT NOT NULL, starts BIGINT NOT NULL, ends BIGINT NOT NULL, ",
        "mark BIGINT NOT NULL, used BIGINT NOT NULL, PRIMARY KEY (region, name))",
    ),
    "CREATE INDEX tollgate_ledger_of_org ON tollgate_ledger (region, org, name)",
    "CREATE INDEX tollgate_ledger_by_end ON tollgate_ledger (ends)",
    concat!(
        "CREATE TABLE tollgate_ledger_nodes (",
        "node ", text!(), " PRIMARY KEY, number BIGINT NOT NULL, at_ms BIGINT NOT NULL)",
    ),
    concat!(
        "CREATE TABLE tollgate_usage (",
        "region ", text!(), ", org ", text!(), ", app ", text!(), ", endpoint ", text!(), ", test BIGINT NOT NULL, ",
        "at_ms BIGINT NOT NULL, allowed BIGINT NOT NULL, denied BIGINT NOT NULL, cost BIGINT NOT NULL, ",
        "PRIMARY KEY (region, org, at_ms, app, endpoint, test))",
    ),
    "CREATE INDEX tollgate_usage_by_age ON tollgate_usage (at_ms)",
    },
    step! { |text|
    "ALTER TABLE tollgate_ledger ADD COLUMN alerted BIGINT NOT NULL DEFAULT 0",
    concat!(
        "CREATE TABLE tollgate_outbox (",
        "id ", text!(), " PRIMARY KEY, region ", text!(), ", kind ", text!(), ", org ", text!(), ", body ", text!(), ", ",
        "at_ms BIGINT NOT NULL, sent_ms BIGINT NOT NULL)",
    ),
    "CREATE INDEX tollgate_outbox_of_org ON tollgate_outbox (region, org, kind, at_ms)",
    "CREATE INDEX tollgate_outbox_unsent ON tollgate_outbox (sent_ms, at_ms)",
    },
    Step {
        sqlite: &[],
        // Their rows are changed every second: with room beside them no index has to be told.
        postgres: &[
            "ALTER TABLE tollgate_usage SET (fillfactor = 50)",
            "ALTER TABLE tollgate_ledger SET (fillfactor = 50)",
        ],
    },
    step! { |text|
    concat!("ALTER TABLE tollgate_ledger_nodes ADD COLUMN granted ", text!(), " DEFAULT ''"),
    "ALTER TABLE tollgate_ledger_nodes ADD COLUMN lives BIGINT NOT NULL DEFAULT 1",
    },
    step! { |text|
    concat!("ALTER TABLE tollgate_head ADD COLUMN seal ", text!(), " DEFAULT ''"),
    concat!(
        "CREATE TABLE tollgate_files (",
        "name ", text!(), " PRIMARY KEY, digest ", text!(), ", body ", text!(), ")",
    ),
    },
];

impl Repository {
    /// Takes the steps that are missing, one node at a time.
    pub(super) async fn migrate(&self) -> Result<(), RepositoryError> {
        let backend = self.address.backend;
        let mut transaction = self.begin().await?;
        if backend == Backend::Postgres {
            // Any number that nothing else in this database uses; here the bytes of "tollgate".
            transaction
                .execute("SELECT pg_advisory_xact_lock(8390043843661231205)")
                .await?;
        }
        let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
        let found = version(&mut transaction, backend).await?;
        if found > known {
            return Err(RepositoryError::Newer { found, known });
        }
        for (step, number) in STEPS.iter().zip(1_i64..) {
            if number <= found {
                continue;
            }
            let statements = match backend {
                Backend::Sqlite => step.sqlite,
                Backend::Postgres => step.postgres,
            };
            for statement in statements {
                transaction.execute(*statement).await?;
            }
            sqlx::query("INSERT INTO tollgate_schema (version) VALUES ($1)")
                .bind(number)
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(())
    }
}

/// The version of the tables; 0 where there are none. The table that holds it is made here, and only if it is
/// absent: `IF NOT EXISTS` would need the right to create tables, and have the server log a notice.
async fn version(connection: &mut AnyConnection, backend: Backend) -> Result<i64, sqlx::Error> {
    let exists = match backend {
        Backend::Sqlite => {
            "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'tollgate_schema'"
        }
        Backend::Postgres => "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('tollgate_schema')",
    };
    if connection.fetch_one(exists).await?.try_get::<i64, _>(0)? == 0 {
        connection
            .execute("CREATE TABLE tollgate_schema (version BIGINT NOT NULL PRIMARY KEY)")
            .await?;
        return Ok(0);
    }
    let newest = connection
        .fetch_optional("SELECT version FROM tollgate_schema ORDER BY version DESC LIMIT 1")
        .await?;
    newest.map_or(Ok(0), |row| row.try_get(0))
}
