//! Finding what was done to the journal behind its back.

use tollgate_catalog::repository::{Kind, Repository, Verified};

use crate::cases;
use crate::database::{Database, put, write};

cases!(
    finds_nothing_where_nothing_was_done,
    walks_many_pages,
    finds_a_changed_body,
    finds_a_changed_field,
    finds_a_deleted_row,
    finds_a_lost_end,
    finds_a_row_too_many,
    finds_a_changed_head,
    finds_a_lost_head,
);

async fn five(database: &Database) -> Repository {
    let repository = database.open().await;
    for body in ["1", "2", "3", "4", "5"] {
        write(&repository, &[put(Kind::Tier, "", "gold", body)]).await;
    }
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 5,
            broken: None
        }
    );
    repository
}

async fn finds_nothing_where_nothing_was_done(database: Database) {
    let repository = database.open().await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 0,
            broken: None
        }
    );
    five(&database).await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 5,
            broken: None
        }
    );
}

async fn walks_many_pages(database: Database) {
    let repository = database.open().await;
    let changes: Vec<_> = (0..2_000)
        .map(|id| put(Kind::Tier, "", &id.to_string(), "{}"))
        .collect();
    write(&repository, &changes).await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 2_000,
            broken: None
        }
    );
    database
        .tamper("UPDATE tollgate_journal SET id = '0' WHERE revision = 1001")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 1_000,
            broken: Some(1_001)
        }
    );
}

async fn finds_a_changed_body(database: Database) {
    let repository = five(&database).await;
    database
        .tamper("UPDATE tollgate_journal SET after_body = '7' WHERE revision = 3")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 2,
            broken: Some(3)
        }
    );
}

async fn finds_a_changed_field(database: Database) {
    let repository = five(&database).await;
    // Not even a kind that does not exist keeps it from its walk.
    database
        .tamper("UPDATE tollgate_journal SET kind = 'other' WHERE revision = 4")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 3,
            broken: Some(4)
        }
    );
    database
        .tamper("UPDATE tollgate_journal SET at_ms = at_ms + 1 WHERE revision = 2")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 1,
            broken: Some(2)
        }
    );
    database
        .tamper("UPDATE tollgate_journal SET revision = 0 WHERE revision = 1")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 0,
            broken: Some(1)
        }
    );
}

async fn finds_a_deleted_row(database: Database) {
    let repository = five(&database).await;
    database
        .tamper("DELETE FROM tollgate_journal WHERE revision = 2")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 1,
            broken: Some(2)
        }
    );
    database
        .tamper("DELETE FROM tollgate_journal WHERE revision = 1")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 0,
            broken: Some(1)
        }
    );
}

async fn finds_a_lost_end(database: Database) {
    let repository = five(&database).await;
    database
        .tamper("DELETE FROM tollgate_journal WHERE revision > 3")
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 3,
            broken: Some(4)
        }
    );
}

async fn finds_a_row_too_many(database: Database) {
    let repository = five(&database).await;
    database
        .tamper(
            "UPDATE tollgate_head SET revision = 4, \
             hash = (SELECT hash FROM tollgate_journal WHERE revision = 4)",
        )
        .await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 4,
            broken: Some(5)
        }
    );
}

async fn finds_a_changed_head(database: Database) {
    let repository = five(&database).await;
    database.tamper("UPDATE tollgate_head SET hash = 'x'").await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 5,
            broken: Some(5)
        }
    );
    database.tamper("UPDATE tollgate_head SET revision = 6").await;
    assert_eq!(
        repository.verify().await.unwrap(),
        Verified {
            rows: 5,
            broken: Some(6)
        }
    );
}

async fn finds_a_lost_head(database: Database) {
    let repository = five(&database).await;
    database.tamper("DELETE FROM tollgate_head").await;
    let said = "the database has lost the head of its journal";
    assert_eq!(repository.verify().await.unwrap_err().to_string(), said);
    assert_eq!(repository.head().await.unwrap_err().to_string(), said);
    let written = repository.write(5, &crate::database::author(), &[]).await;
    assert_eq!(written.unwrap_err().to_string(), said);
}
