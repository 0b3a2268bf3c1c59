//! Tables made and checked when a database is opened.

use tollgate_catalog::repository::{Kind, Repository, RepositoryError};

use crate::cases;
use crate::database::{Database, put, write};

cases!(
    are_made_by_one_of_many,
    refuse_tables_from_the_future,
    are_made_once
);

async fn are_made_by_one_of_many(database: Database) {
    let url = std::sync::Arc::new(database.url.clone());
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Repository::open(&url).await })
        })
        .collect();
    let mut repositories = Vec::new();
    for opened in opening {
        repositories.push(opened.await.unwrap().expect("each of them opens"));
    }
    for (repository, revision) in repositories.iter().zip(1..) {
        assert_eq!(
            write(repository, &[put(Kind::Tier, "", "gold", "{}")]).await,
            revision
        );
    }
    assert_eq!(repositories[0].verify().await.unwrap().rows, 4);
}

async fn refuse_tables_from_the_future(database: Database) {
    database.open().await.close().await;
    database
        .tamper("INSERT INTO tollgate_schema (version) VALUES (99)")
        .await;
    let error = Repository::open(&database.url).await.unwrap_err();
    assert!(
        matches!(error, RepositoryError::Newer { found: 99, known: 6 }),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the database's tables are of version 99, made by a newer Tollgate: this one knows versions up to 6"
    );
}

async fn are_made_once(database: Database) {
    let first = database.open().await;
    write(&first, &[put(Kind::Tier, "", "gold", "{}")]).await;
    first.close().await;
    let second = database.open().await;
    assert_eq!(second.head().await.unwrap(), 1);
    assert_eq!(database.number("SELECT COUNT(*) FROM tollgate_schema").await, 6);
    if second.backend() == "sqlite" {
        let logs_ahead = "SELECT journal_mode = 'wal' FROM pragma_journal_mode";
        assert_eq!(database.number(logs_ahead).await, 1);
    }
}
