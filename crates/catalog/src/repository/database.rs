//! The connections to the database, and how its transactions begin.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::error::DatabaseError;
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Connection, Executor, Transaction};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::AuditKey;
use super::RepositoryError;
use super::address::{Address, Backend};
use super::ledger::RefusedUsage;

/// How many connections a node has at most.
const CONNECTIONS: u32 = 8;
/// How long a request waits for a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long what was asked of the database may take. Longer than SQLite waits for another writer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(12);
/// How long opening may take until the database has said something.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// At which pace turning a file's write-ahead log on is tried until then: SQLite does not wait by itself for the
/// exclusive lock this takes.
const LOG_PACE: Duration = Duration::from_millis(50);

/// How PostgreSQL begins a transaction that writes. Its patience with one that is silent is shorter than that of others
/// who wait for it, and theirs is shorter than that for an answer.
macro_rules! begin_writing {
    () => {
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '4s'"
    };
}

/// The catalogue's database. Clones share their connections.
#[derive(Clone)]
pub struct Repository {
    pub(super) pool: AnyPool,
    pub(super) address: Arc<Address>,
    /// Fired by this process's writes, for a database that does not tell.
    pub(super) written: watch::Sender<i64>,
    /// What the hashes of the journal are made with, if there is a key.
    pub(super) audit_key: Option<AuditKey>,
    /// Usage that the database refused, until somebody reports it.
    pub(super) refused_usage: Arc<Mutex<Vec<RefusedUsage>>>,
}

// The URL may hold a password, so it is left out.
impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl Repository {
    /// Opens the database of a URL, `sqlite:PATH` or `postgres://…`, and brings its tables up to date.
    ///
    /// A file that is missing is created; a server's database is not.
    pub async fn open(url: &str) -> Result<Self, RepositoryError> {
        sqlx::any::install_default_drivers();
        let address = Address::parse(url)?;
        let repository = Self::later(url)?;
        // The pool would answer a refused connection or a file that is no database with a mere timeout.
        timeout(FIRST_PATIENCE, probe(&address))
            .await
            .map_err(|_| sqlx::Error::Io(io::ErrorKind::TimedOut.into()))??;
        repository.migrate().await?;
        Ok(repository)
    }

    /// The database of a URL that need not answer yet, whose tables were brought up to date before.
    pub fn later(url: &str) -> Result<Self, RepositoryError> {
        sqlx::any::install_default_drivers();
        let address = Address::parse(url)?;
        let mut options = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(PATIENCE);
        if address.backend == Backend::Sqlite {
            // A file does not hang up.
            options = options.test_before_acquire(false);
            options = options.after_connect(|connection, _| Box::pin(settle(connection)));
        }
        Ok(Self {
            pool: options.connect_lazy_with(address.options.clone()),
            address: Arc::new(address),
            written: watch::Sender::new(0),
            audit_key: None,
            refused_usage: Arc::default(),
        })
    }

    /// The same with a key, by which the journal shows who made it. All nodes need the same.
    #[must_use]
    pub fn with_audit_key(mut self, key: Option<AuditKey>) -> Self {
        self.audit_key = key;
        self
    }

    /// Which database it is: `sqlite` or `postgres`.
    pub fn backend(&self) -> &'static str {
        self.address.backend.name()
    }

    /// Closes every connection, once what is under way has ended, though a database that hangs is not waited for.
    /// Clones are closed with it.
    pub async fn close(&self) {
        let _ = timeout(PATIENCE, self.pool.close()).await;
    }

    /// Begins a transaction that writes.
    ///
    /// SQLite takes its write lock at once. PostgreSQL must look anew at each statement, whatever the server's
    /// default is: only so does a writer that has waited for its turn see what the one before it wrote. It ends the
    /// transaction of a node that says nothing for a while, being frozen or cut off: others wait for its locks.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        match self.address.backend {
            Backend::Sqlite => self.pool.begin_with("BEGIN IMMEDIATE").await,
            Backend::Postgres => self.pool.begin_with(begin_writing!()).await,
        }
    }

    /// Begins a transaction that writes if others let it in time, and is refused if not.
    pub(super) async fn begin_soon(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        match self.address.backend {
            // Its connections give up by themselves.
            Backend::Sqlite => self.begin().await,
            Backend::Postgres => {
                let statement = concat!(begin_writing!(), "; SET LOCAL lock_timeout = '7s'");
                self.pool.begin_with(statement).await
            }
        }
    }

    /// Begins a transaction that writes what must not be lost once it is committed, whatever the server's default is.
    pub(super) async fn begin_lasting(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        match self.address.backend {
            // Its connections write everything so.
            Backend::Sqlite => self.begin().await,
            Backend::Postgres => {
                let statement = concat!(
                    begin_writing!(),
                    "; SET LOCAL lock_timeout = '7s'; SELECT set_config('synchronous_commit', 'on', true) \
                     WHERE current_setting('synchronous_commit') = 'off'"
                );
                self.pool.begin_with(statement).await
            }
        }
    }

    /// Begins a transaction that reads the database as it is at its first statement.
    pub(super) async fn begin_reading(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        match self.address.backend {
            Backend::Sqlite => self.pool.begin_with("BEGIN DEFERRED").await,
            Backend::Postgres => {
                let statement = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                self.pool.begin_with(statement).await
            }
        }
    }
}

/// Waits for an answer of the database, but not forever: a server can hang, or be gone without a word.
pub(super) async fn in_time<T, E>(answer: impl Future<Output = Result<T, E>>) -> Result<T, RepositoryError>
where
    RepositoryError: From<E>,
{
    match timeout(ANSWER_PATIENCE, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(RepositoryError::Late),
    }
}

/// Connects once, for the database's own words should that fail, and turns a file's write-ahead log on.
async fn probe(address: &Address) -> Result<(), sqlx::Error> {
    let options: &AnyConnectOptions = &address.options;
    let mut connection = options.connect().await?;
    if address.backend == Backend::Sqlite {
        settle(&mut connection).await?;
        log_ahead(&mut connection).await?;
    }
    connection.close().await
}

/// Sets what SQLite forgets with every connection.
async fn settle(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    connection.execute("PRAGMA busy_timeout = 10000").await?;
    connection.execute("PRAGMA synchronous = FULL").await?;
    Ok(())
}

/// Turns the write-ahead log on, which the file remembers: readers and the writer do not wait for each other.
async fn log_ahead(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    loop {
        match connection.execute("PRAGMA journal_mode = WAL").await {
            Err(error) if is_locked(&error) => sleep(LOG_PACE).await,
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Whether somebody else holds what was wanted: PostgreSQL's `lock_not_available`, or that SQLite's file is busy, in
/// the low byte of its numbers, which are shorter than PostgreSQL's codes.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| {
        let sqlite = code.parse::<i32>().ok().filter(|_| code.len() < 5);
        code == "55P03" || sqlite.is_some_and(|code| code & 0xff == 5)
    })
}
