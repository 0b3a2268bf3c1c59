//! Several writers at once.

use tollgate_catalog::repository::{Change, Kind, Repository, Verified, Written};

use crate::cases;
use crate::database::{Database, author, place, put};

cases!(
    writers_lose_nothing,
    notes_and_writes_take_turns,
    readers_see_no_gaps
);

const WRITERS: usize = 6;
const EACH: usize = 20;

/// Writes however often it takes.
async fn insist(repository: &Repository, changes: &[Change]) -> i64 {
    loop {
        let known = repository.head().await.unwrap();
        if let Written::At(revision) = repository.write(known, &author(), changes).await.unwrap() {
            assert_eq!(revision, known + i64::try_from(changes.len()).unwrap());
            return revision;
        }
    }
}

async fn writers_lose_nothing(database: Database) {
    let handles = [database.open().await, database.open().await];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let repository = handles[writer % 2].clone();
            tokio::spawn(async move {
                for round in 0..EACH {
                    let own = put(Kind::App, "acme", &format!("{writer}-{round}"), "{}");
                    // All of them write this one as well: each must see the body of the one before.
                    let common = put(Kind::Tier, "", "gold", &format!("\"{writer}-{round}\""));
                    insist(&repository, &[own, common]).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let rows = i64::try_from(WRITERS * EACH * 2).unwrap();
    assert_eq!(handles[0].head().await.unwrap(), rows);
    assert_eq!(
        handles[1].verify().await.unwrap(),
        Verified { rows, broken: None }
    );
    let entries = handles[0].list(Kind::App, "acme", "", 1_000).await.unwrap();
    assert_eq!(entries.len(), WRITERS * EACH);

    let journal = handles[1].journal(0, rows + 1).await.unwrap();
    assert_eq!(journal.len(), WRITERS * EACH * 2);
    let mut last = None;
    for (row, revision) in journal.into_iter().zip(1..) {
        assert_eq!(row.revision, revision);
        if row.place.kind == Kind::Tier {
            assert_eq!(row.before, last);
            last = row.after;
        }
    }
    let entry = handles[0]
        .get(&place(Kind::Tier, "", "gold"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((Some(entry.body), entry.revision), (last, rows));
}

async fn notes_and_writes_take_turns(database: Database) {
    let handles = [database.open().await, database.open().await];
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let repository = handles[writer % 2].clone();
            tokio::spawn(async move {
                for round in 0..EACH {
                    if writer < 2 {
                        insist(
                            &repository,
                            &[put(Kind::App, "acme", &format!("{writer}-{round}"), "{}")],
                        )
                        .await;
                    } else {
                        let place = place(Kind::App, "acme", "all");
                        repository
                            .note(&author(), &place, None, Some("{}"))
                            .await
                            .unwrap();
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let rows = i64::try_from(WRITERS * EACH).unwrap();
    assert_eq!(
        handles[0].verify().await.unwrap(),
        Verified { rows, broken: None }
    );
}

async fn readers_see_no_gaps(database: Database) {
    let writing = database.open().await;
    let reading = database.open().await;
    let writer = tokio::spawn(async move {
        for round in 0..100 {
            insist(&writing, &[put(Kind::App, "acme", &round.to_string(), "{}")]).await;
        }
    });
    let mut seen = 0;
    while seen < 100 {
        for row in reading.journal(seen, 7).await.unwrap() {
            assert_eq!(row.revision, seen + 1);
            seen = row.revision;
        }
        let verified = reading.verify().await.unwrap();
        assert_eq!(verified.broken, None);
        assert!(verified.rows >= seen);
    }
    writer.await.unwrap();
}
