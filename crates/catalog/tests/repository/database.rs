//! A database of a case's own, of either sort.

use sqlx::{AnyConnection, Connection, Executor, Row};
use tempfile::TempDir;
use tollgate_catalog::repository::{Author, Change, Kind, Place, Repository, Written};

use crate::postgres::Postgres;

/// An empty database.
pub struct Database {
    /// Its URL.
    pub url: String,
    _directory: Option<TempDir>,
}

impl Database {
    /// A file of its own.
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!(
            "sqlite://{}",
            directory.path().join("catalogue file.db").display()
        );
        Self {
            url,
            _directory: Some(directory),
        }
    }

    /// A database of a server.
    pub fn postgres(server: &Postgres) -> Self {
        Self {
            url: server.create(),
            _directory: None,
        }
    }

    /// Opens it, as a node does.
    pub async fn open(&self) -> Repository {
        Repository::open(&self.url).await.expect("the database opens")
    }

    /// Does something behind the repository's back.
    pub async fn tamper(&self, statement: &'static str) {
        let mut connection = self.connect().await;
        let done = connection.execute(statement).await.expect("the statement runs");
        assert!(done.rows_affected() > 0, "{statement} changed nothing");
        connection.close().await.expect("the connection closes");
    }

    /// Adds something to the tables behind the repository's back.
    pub async fn define(&self, statement: &'static str) {
        let mut connection = self.connect().await;
        connection.execute(statement).await.expect("the statement runs");
        connection.close().await.expect("the connection closes");
    }

    /// Asks for a number behind the repository's back.
    pub async fn number(&self, question: &'static str) -> i64 {
        let mut connection = self.connect().await;
        let row = connection.fetch_one(question).await.expect("the statement runs");
        connection.close().await.expect("the connection closes");
        row.get(0)
    }

    async fn connect(&self) -> AnyConnection {
        sqlx::any::install_default_drivers();
        // Without the empty host: SQLite's file names may have spaces, which hosts may not.
        let url = self.url.replace("sqlite:///", "sqlite:/");
        AnyConnection::connect(&url).await.expect("a connection")
    }
}

/// Who writes in these tests.
pub fn author() -> Author {
    Author {
        actor: "alice".to_owned(),
        route: "PUT /v1/tiers/gold".to_owned(),
        request: "r-1".to_owned(),
        at_ms: 1_700_000_000_123,
        reason: "a \"reason\"\nof two lines".to_owned(),
    }
}

/// A place.
pub fn place(kind: Kind, org: &str, id: &str) -> Place {
    Place {
        kind,
        org: org.to_owned(),
        id: id.to_owned(),
    }
}

/// A change that puts a body there.
pub fn put(kind: Kind, org: &str, id: &str, body: &str) -> Change {
    Change {
        place: place(kind, org, id),
        body: Some(body.to_owned()),
    }
}

/// A change that deletes.
pub fn delete(kind: Kind, org: &str, id: &str) -> Change {
    Change {
        place: place(kind, org, id),
        body: None,
    }
}

/// Writes at whatever revision the catalogue is at; nobody else writes meanwhile.
pub async fn write(repository: &Repository, changes: &[Change]) -> i64 {
    let known = repository.head().await.expect("the head");
    match repository
        .write(known, &author(), changes)
        .await
        .expect("the write")
    {
        Written::At(revision) => revision,
        Written::Behind | Written::Overtaken => panic!("nobody else writes"),
    }
}
