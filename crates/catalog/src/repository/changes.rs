//! Hearing that the catalogue may have changed.
//!
//! It only saves time: whoever follows the journal also looks at it now and then, since a message can be lost
//! with its connection, and since SQLite tells nothing to other processes.

use std::future::pending;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::address::Backend;
use super::{Repository, RepositoryError};

/// What PostgreSQL calls the messages.
const CHANNEL: &str = "tollgate_changes";
/// As good as any revision to whoever asks whether there is a later one.
const UNKNOWN: i64 = i64::MAX;
/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before the next attempt to connect: at first, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// News of changes.
#[derive(Debug)]
pub struct Changes {
    /// The last revision that was told of.
    news: watch::Receiver<i64>,
    /// Listens to the server; ends with this.
    listening: Option<JoinHandle<()>>,
}

impl Changes {
    /// Comes back when the catalogue may have changed since it last did, with the revision it has come to as far as
    /// that is known. Nothing is lost if it is dropped while it waits.
    pub async fn next(&mut self) -> i64 {
        if self.news.changed().await.is_err() {
            // The repository is gone: there will be no news.
            pending::<()>().await;
        }
        *self.news.borrow_and_update()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}

impl Repository {
    /// Starts to listen for changes: every change that begins after this has come back is heard, as long as the
    /// connection lives.
    ///
    /// With PostgreSQL these are the changes of every node, by a connection of its own that is made again when
    /// it is lost; with SQLite those by this repository and its clones.
    pub async fn changes(&self) -> Result<Changes, RepositoryError> {
        match self.address.backend {
            Backend::Sqlite => Ok(Changes {
                news: self.written.subscribe(),
                listening: None,
            }),
            Backend::Postgres => {
                let options = PgConnectOptions::from_url(&self.address.options.database_url)?;
                let listener = listen(&options).await?;
                let (sender, news) = watch::channel(0);
                let listening = tokio::spawn(follow(options, listener, sender));
                Ok(Changes {
                    news,
                    listening: Some(listening),
                })
            }
        }
    }
}

/// Connects and listens. The pool is the listener's own, and of one connection.
async fn listen(options: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(PATIENCE)
        .connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    // A loss is passed on at once, and not after the next connection.
    listener.eager_reconnect(false);
    timeout(PATIENCE, listener.listen(CHANNEL))
        .await
        .map_err(|_| sqlx::Error::PoolTimedOut)??;
    Ok(listener)
}

/// Passes messages on, and connects again whenever the connection is lost.
async fn follow(options: PgConnectOptions, mut listener: PgListener, news: watch::Sender<i64>) {
    loop {
        while let Ok(Some(told)) = listener.try_recv().await {
            news.send_replace(told.payload().parse().unwrap_or(UNKNOWN));
        }
        // What happens from here on is not heard: let the caller look, now and when there is a connection again.
        news.send_replace(UNKNOWN);
        drop(listener);
        let mut wait = FIRST_WAIT;
        listener = loop {
            sleep(wait).await;
            match listen(&options).await {
                Ok(listener) => break listener,
                Err(_) => wait = (wait * 2).min(LONGEST_WAIT),
            }
        };
        news.send_replace(UNKNOWN);
    }
}
