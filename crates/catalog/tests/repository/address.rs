//! URLs that name no database.

use std::time::Duration;

use tollgate_catalog::repository::{Repository, RepositoryError};

async fn refused(url: &str) -> String {
    match Repository::open(url).await {
        Err(RepositoryError::Url(problem)) => problem,
        other => panic!("{url} gave {other:?}"),
    }
}

#[tokio::test]
async fn are_refused_with_a_sentence_that_shows_no_password() {
    for (url, said) in [
        ("", "has no scheme"),
        ("hunter2", "has no scheme"),
        (
            "mysql://root:hunter2@localhost/db",
            "has the unknown scheme \"mysql\"",
        ),
        ("root:hunter2@localhost/db", "has an unknown scheme"),
        ("postgres:root:hunter2@localhost/db", "lacks the `//`"),
        ("postgres://root:hunter2@localhost:port/db", "is not well formed"),
        ("postgres://root:hunter2@/db", "is not well formed"),
        ("sqlite:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite::memory:", "in memory"),
        ("sqlite://:memory:", "in memory"),
        ("sqlite:a.db?mode=memory", "in memory"),
        ("sqlite:a.db?key=hunter2", "has options"),
    ] {
        let problem = refused(url).await;
        assert!(problem.starts_with("the database's URL "), "{problem}");
        assert!(problem.contains(said), "{url}: {problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

#[tokio::test]
async fn of_nothing_fail_with_the_reason_and_without_the_password() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("postgres://root:hunter2@{closed}/db");
    let opened = tokio::time::timeout(Duration::from_secs(4), Repository::open(&url)).await;
    let error = opened.expect("it does not wait for long").unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("text");
    std::fs::write(
        &file,
        "This is no database, whatever its length may be.".repeat(100),
    )
    .unwrap();
    let error = Repository::open(&format!("sqlite:{}", file.display()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
    let missing = directory.path().join("none").join("a.db");
    let error = Repository::open(&format!("sqlite:{}", missing.display()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("unable to open"), "{error}");
}

#[tokio::test]
async fn name_files_in_several_ways() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("the catalogue.db");
    let shown = path.display();
    Repository::open(&format!("sqlite:{shown}?mode=rw"))
        .await
        .unwrap_err();
    assert!(!path.exists());
    for url in [
        format!("sqlite:{shown}"),
        format!("sqlite://{shown}"),
        format!("sqlite:{shown}?mode=rw"),
        format!("sqlite:///{shown}?mode=rwc"),
    ] {
        let repository = Repository::open(&url).await.unwrap();
        assert_eq!(repository.backend(), "sqlite");
        assert_eq!(
            format!("{repository:?}"),
            "Repository { backend: \"sqlite\", .. }"
        );
        assert!(path.exists());
        repository.close().await;
    }
}
