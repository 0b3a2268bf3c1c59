//! News of changes.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_catalog::repository::{Changes, Kind};

use crate::cases;
use crate::database::{Database, author, place, put, write};

cases!(arrive, are_not_made_up, outlive_the_repository);

/// Waits for news; whether there was any.
async fn heard(changes: &mut Changes, patience: Duration) -> bool {
    timeout(patience, changes.next()).await.is_ok()
}

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

async fn arrive(database: Database) {
    let writing = database.open().await;
    // SQLite tells only those that share the handle.
    let hearing = if writing.backend() == "sqlite" {
        writing.clone()
    } else {
        database.open().await
    };
    let mut changes = hearing.changes().await.unwrap();
    let mut others = hearing.changes().await.unwrap();
    write(&writing, &[put(Kind::Tier, "", "gold", "{}")]).await;
    assert!(heard(&mut changes, LONG).await);
    assert!(heard(&mut others, LONG).await);
    writing
        .note(&author(), &place(Kind::Tier, "", "gold"), None, None)
        .await
        .unwrap();
    assert!(heard(&mut changes, LONG).await);
    // Nothing is lost between two looks, nor by a look that was given up.
    assert!(!heard(&mut changes, SHORT).await);
    write(&writing, &[put(Kind::Tier, "", "gold", "{}")]).await;
    assert!(heard(&mut changes, LONG).await);
}

async fn are_not_made_up(database: Database) {
    let repository = database.open().await;
    let mut changes = repository.changes().await.unwrap();
    assert!(!heard(&mut changes, SHORT).await);
    // Neither a write that comes too late nor one that changes nothing is news.
    repository
        .write(7, &author(), &[put(Kind::Tier, "", "gold", "{}")])
        .await
        .unwrap();
    repository.write(0, &author(), &[]).await.unwrap();
    assert!(!heard(&mut changes, SHORT).await);
}

async fn outlive_the_repository(database: Database) {
    let repository = database.open().await;
    let mut changes = repository.changes().await.unwrap();
    repository.close().await;
    drop(repository);
    assert!(!heard(&mut changes, SHORT).await);
    let another = database.open().await;
    write(&another, &[put(Kind::Tier, "", "gold", "{}")]).await;
    let told = another.backend() == "postgres";
    assert_eq!(heard(&mut changes, if told { LONG } else { SHORT }).await, told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn come_with_a_lost_connection() {
    let server = crate::postgres::Postgres::start();
    let database = Database::postgres(&server);
    let repository = database.open().await;
    let mut changes = repository.changes().await.unwrap();
    database
        .tamper("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        .await;
    // Once for the loss and once for the new connection, or both at once; then messages arrive again.
    assert!(heard(&mut changes, LONG).await);
    while heard(&mut changes, Duration::from_secs(1)).await {}
    write(&repository, &[put(Kind::Tier, "", "gold", "{}")]).await;
    assert!(heard(&mut changes, LONG).await);
    // A server that is gone is news once, not all the time.
    drop(server);
    assert!(heard(&mut changes, LONG).await);
    assert!(!heard(&mut changes, Duration::from_secs(1)).await);
}
