//! Entries: put, got, listed, deleted, paged.

use tollgate_catalog::repository::{Entry, Kind, Written};

use crate::cases;
use crate::database::{Database, author, delete, place, put, write};

cases!(
    are_put_and_got,
    are_replaced_and_deleted,
    are_listed_by_bytes,
    are_paged,
    are_written_all_or_none
);

/// Ids in the order of their bytes, which is not that of any language.
const ORDERED: [&str; 9] = ["A", "Z", "a", "a b", "a-b", "z", "ä", "中", "🚪"];

async fn are_put_and_got(database: Database) {
    let repository = database.open().await;
    assert_eq!(repository.head().await.unwrap(), 0);
    assert_eq!(
        repository.get(&place(Kind::Tier, "", "gold")).await.unwrap(),
        None
    );

    let body = r#"{"name":"Gold ☂","hash":"s3cret","n":18446744073709551616}"#;
    let changes = [
        put(Kind::Tier, "", "gold", body),
        put(Kind::App, "acme", "gold", "[]"),
    ];
    assert_eq!(
        repository.write(0, &author(), &changes).await.unwrap(),
        Written::At(2)
    );

    let entry = repository.get(&place(Kind::Tier, "", "gold")).await.unwrap();
    let place_of_tier = place(Kind::Tier, "", "gold");
    assert_eq!(
        entry,
        Some(Entry {
            place: place_of_tier,
            body: body.to_owned(),
            revision: 1
        })
    );
    assert_eq!(
        repository
            .get(&place(Kind::App, "acme", "gold"))
            .await
            .unwrap()
            .unwrap()
            .revision,
        2
    );
    assert_eq!(repository.get(&place(Kind::App, "", "gold")).await.unwrap(), None);
    assert_eq!(
        repository.get(&place(Kind::Tier, "", "GOLD")).await.unwrap(),
        None
    );

    let again = database.open().await;
    assert_eq!(again.head().await.unwrap(), 2);
    assert_eq!(
        again
            .get(&place(Kind::Tier, "", "gold"))
            .await
            .unwrap()
            .unwrap()
            .body,
        body
    );
}

async fn are_replaced_and_deleted(database: Database) {
    let repository = database.open().await;
    write(&repository, &[put(Kind::Key, "acme", "k", "1")]).await;
    assert_eq!(write(&repository, &[put(Kind::Key, "acme", "k", "2")]).await, 2);
    let entry = repository
        .get(&place(Kind::Key, "acme", "k"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((entry.body.as_str(), entry.revision), ("2", 2));

    // Within a write, a change sees those before it.
    let changes = [
        delete(Kind::Key, "acme", "k"),
        put(Kind::Key, "acme", "k", "3"),
        delete(Kind::Key, "acme", "k"),
    ];
    assert_eq!(write(&repository, &changes).await, 5);
    assert_eq!(
        repository.get(&place(Kind::Key, "acme", "k")).await.unwrap(),
        None
    );

    // What is absent is not deleted again, and other changes of the write are made.
    assert_eq!(write(&repository, &[delete(Kind::Key, "acme", "k")]).await, 5);
    assert_eq!(write(&repository, &[]).await, 5);
    let changes = [delete(Kind::Key, "acme", "k"), put(Kind::Key, "acme", "l", "1")];
    assert_eq!(write(&repository, &changes).await, 6);
    assert_eq!(
        repository
            .get(&place(Kind::Key, "acme", "l"))
            .await
            .unwrap()
            .unwrap()
            .revision,
        6
    );
    assert_eq!(repository.journal(0, 100).await.unwrap().len(), 6);
}

async fn are_listed_by_bytes(database: Database) {
    let repository = database.open().await;
    let mut changes: Vec<_> = ORDERED
        .iter()
        .rev()
        .map(|id| put(Kind::App, "acme", id, "{}"))
        .collect();
    changes.push(put(Kind::App, "", "m", "{}"));
    changes.push(put(Kind::App, "acm", "m", "{}"));
    changes.push(put(Kind::Key, "acme", "m", "{}"));
    write(&repository, &changes).await;

    let ids = |entries: Vec<Entry>| {
        entries
            .into_iter()
            .map(|entry| entry.place.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "", 100).await.unwrap()),
        ORDERED
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "", 2).await.unwrap()),
        ORDERED[..2]
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "Z", 2).await.unwrap()),
        ORDERED[2..4]
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "B", 1).await.unwrap()),
        ["Z"]
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "🚪", 9).await.unwrap()),
        [""; 0]
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "", 0).await.unwrap()),
        [""; 0]
    );
    assert_eq!(
        ids(repository.list(Kind::App, "acme", "", -1).await.unwrap()),
        [""; 0]
    );
    assert_eq!(ids(repository.list(Kind::App, "", "", 9).await.unwrap()), ["m"]);
}

async fn are_paged(database: Database) {
    let repository = database.open().await;
    assert_eq!(repository.page(None, 10).await.unwrap(), []);
    let mut places = Vec::new();
    for kind in Kind::ALL {
        for org in ["", "Org", "org"] {
            places.extend(ORDERED.iter().map(|id| place(kind, org, id)));
        }
    }
    places.push(place(Kind::EndpointClasses, "", ""));
    let changes: Vec<_> = places
        .iter()
        .rev()
        .map(|at| put(at.kind, &at.org, &at.id, "{}"))
        .collect();
    write(&repository, &changes).await;
    places.sort_by(|one, other| {
        let key = |of: &tollgate_catalog::repository::Place| (of.kind.name(), of.org.clone(), of.id.clone());
        key(one).cmp(&key(other))
    });

    for limit in [1, 7, 1_000] {
        let mut found = Vec::new();
        loop {
            let page = repository.page(found.last(), limit).await.unwrap();
            assert!(page.len() <= usize::try_from(limit).unwrap());
            if page.is_empty() {
                break;
            }
            found.extend(page.into_iter().map(|entry| entry.place));
        }
        assert_eq!(found, places, "by {limit}");
    }
}

async fn are_written_all_or_none(database: Database) {
    let repository = database.open().await;
    write(&repository, &[put(Kind::Tier, "", "gold", "1")]).await;
    let changes = [put(Kind::Tier, "", "gold", "2"), put(Kind::Tier, "", "iron", "2")];
    for known in [0, 2, -1, i64::MAX] {
        assert_eq!(
            repository.write(known, &author(), &changes).await.unwrap(),
            Written::Behind
        );
    }
    assert_eq!(
        repository.write(0, &author(), &[]).await.unwrap(),
        Written::Behind
    );
    assert_eq!(repository.head().await.unwrap(), 1);
    assert_eq!(
        repository
            .get(&place(Kind::Tier, "", "gold"))
            .await
            .unwrap()
            .unwrap()
            .body,
        "1"
    );
    assert_eq!(
        repository.get(&place(Kind::Tier, "", "iron")).await.unwrap(),
        None
    );

    // A row that cannot be added takes the whole write back with it.
    database
        .tamper(
            "INSERT INTO tollgate_journal SELECT 3, at_ms, actor, route, request, reason, kind, org, id, \
                     before_body, after_body, hash FROM tollgate_journal",
        )
        .await;
    repository.write(1, &author(), &changes).await.unwrap_err();
    assert_eq!(repository.head().await.unwrap(), 1);
    assert_eq!(
        repository
            .get(&place(Kind::Tier, "", "gold"))
            .await
            .unwrap()
            .unwrap()
            .body,
        "1"
    );
}
