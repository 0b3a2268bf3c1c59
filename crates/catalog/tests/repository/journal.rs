//! The journal's rows.

use tollgate_catalog::repository::{Author, JournalRow, Kind};

use crate::cases;
use crate::database::{Database, author, delete, place, put, write};

cases!(
    says_who_did_what,
    leaves_secrets_out,
    is_read_in_both_directions,
    knows_whose_a_token_is,
    takes_notes
);

async fn says_who_did_what(database: Database) {
    let repository = database.open().await;
    write(&repository, &[put(Kind::Tier, "", "gold", r#"{"b":1, "a":2}"#)]).await;
    write(&repository, &[put(Kind::Tier, "", "gold", "[1]")]).await;
    write(&repository, &[delete(Kind::Tier, "", "gold")]).await;
    let rows = repository.journal(0, 100).await.unwrap();
    let bodies: Vec<_> = rows
        .iter()
        .map(|row| (row.before.as_deref(), row.after.as_deref()))
        .collect();
    let first = r#"{"b":1, "a":2}"#;
    assert_eq!(
        bodies,
        [
            (None, Some(first)),
            (Some(first), Some("[1]")),
            (Some("[1]"), None)
        ]
    );
    for (row, revision) in rows.iter().zip(1..) {
        assert_eq!(row.revision, revision);
        assert_eq!(row.author, author());
        assert_eq!(row.place, place(Kind::Tier, "", "gold"));
        assert_eq!(row.hash.len(), 64);
    }
    // What others must compute to the same: the hash is part of the interface.
    let first = r#"[1,1700000000123,"alice","PUT /v1/tiers/gold","r-1","a \"reason\"\nof two lines","tier","","gold","","{\"b\":1, \"a\":2}"]"#;
    assert_eq!(rows[0].hash, sha256(&format!("\n{first}")));
    let third = r#"[3,1700000000123,"alice","PUT /v1/tiers/gold","r-1","a \"reason\"\nof two lines","tier","","gold","[1]",""]"#;
    assert_eq!(rows[2].hash, sha256(&format!("{}\n{third}", rows[1].hash)));
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    let bytes: Vec<u8> = sha2::Sha256::digest(text).to_vec();
    bytes
        .iter()
        .fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

async fn leaves_secrets_out(database: Database) {
    let repository = database.open().await;
    let secret = r#"{"name":"a","hash":"s3cret","n":18446744073709551616.0, "in":{"hash":1}}"#;
    let escaped = r#"{"h\u0061sh":"s3cret"}"#;
    write(&repository, &[put(Kind::Key, "acme", "k", secret)]).await;
    write(&repository, &[put(Kind::Key, "acme", "k", escaped)]).await;
    write(&repository, &[delete(Kind::Key, "acme", "k")]).await;
    repository
        .note(
            &author(),
            &place(Kind::Key, "acme", "k"),
            Some(secret),
            Some(escaped),
        )
        .await
        .unwrap();
    // In the secret's place is its digest, so that it can be told whether it was changed.
    let digest = sha256("\"s3cret\"");
    let kept = format!(r#"{{"hash":"{digest}","in":{{"hash":1}},"n":18446744073709551616.0,"name":"a"}}"#);
    let kept = Some(kept.as_str());
    let escaped = format!(r#"{{"hash":"{digest}"}}"#);
    let escaped = Some(escaped.as_str());
    let rows = repository.journal(0, 100).await.unwrap();
    let bodies: Vec<_> = rows
        .iter()
        .map(|row| (row.before.as_deref(), row.after.as_deref()))
        .collect();
    assert_eq!(
        bodies,
        [(None, kept), (kept, escaped), (escaped, None), (kept, escaped)]
    );
    assert_eq!(repository.verify().await.unwrap().broken, None);
}

async fn is_read_in_both_directions(database: Database) {
    let repository = database.open().await;
    for (id, org) in ["acme", "", "acme", "Acme", "acme"].into_iter().enumerate() {
        write(&repository, &[put(Kind::App, org, &id.to_string(), "{}")]).await;
    }
    let numbers = |rows: Vec<JournalRow>| rows.iter().map(|row| row.revision).collect::<Vec<_>>();
    assert_eq!(
        numbers(repository.journal(0, 100).await.unwrap()),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(numbers(repository.journal(2, 2).await.unwrap()), [3, 4]);
    assert_eq!(numbers(repository.journal(5, 100).await.unwrap()), [0; 0]);
    assert_eq!(
        numbers(repository.journal_back(i64::MAX, None, 100).await.unwrap().rows),
        [5, 4, 3, 2, 1]
    );
    assert_eq!(
        numbers(repository.journal_back(4, None, 2).await.unwrap().rows),
        [3, 2]
    );
    assert_eq!(
        numbers(
            repository
                .journal_back(i64::MAX, Some("acme"), 2)
                .await
                .unwrap()
                .rows
        ),
        [5, 3]
    );
    assert_eq!(
        numbers(repository.journal_back(3, Some("acme"), 2).await.unwrap().rows),
        [1]
    );
    assert_eq!(
        numbers(repository.journal_back(i64::MAX, Some(""), 9).await.unwrap().rows),
        [2]
    );
    assert_eq!(
        numbers(
            repository
                .journal_back(i64::MAX, Some("none"), 9)
                .await
                .unwrap()
                .rows
        ),
        [0; 0]
    );
}

async fn knows_whose_a_token_is(database: Database) {
    let repository = database.open().await;
    let token =
        |org: &str| serde_json::json!({"hash": "h", "name": "\"orgId\":\"Acme\"", "orgId": org}).to_string();
    for org in ["acme", "Acme", "a%", "a\"b"] {
        write(&repository, &[put(Kind::Token, "", org, &token(org))]).await;
    }
    write(&repository, &[delete(Kind::Token, "", "acme")]).await;
    write(&repository, &[put(Kind::Token, "", "nobody", "{\"orgId\":null}")]).await;
    // Only tokens say by a field whose they are.
    write(&repository, &[put(Kind::Policy, "", "p", &token("acme"))]).await;
    for (org, expected) in [
        ("acme", vec![5, 1]),
        ("Acme", vec![2]),
        ("a%", vec![3]),
        ("a\"b", vec![4]),
    ] {
        let rows = repository
            .journal_back(i64::MAX, Some(org), 9)
            .await
            .unwrap()
            .rows;
        let numbers: Vec<i64> = rows.iter().map(|row| row.revision).collect();
        assert_eq!(numbers, expected, "{org}");
        assert!(
            rows.iter().all(|row| row.org().as_deref() == Some(org)),
            "{rows:?}"
        );
    }
    let newest = repository.journal_back(i64::MAX, None, 2).await.unwrap().rows;
    assert!(newest.iter().all(|row| row.org().is_none()), "{newest:?}");
}

async fn takes_notes(database: Database) {
    let repository = database.open().await;
    write(&repository, &[put(Kind::App, "acme", "app", "1")]).await;
    let author = Author {
        actor: "bob".to_owned(),
        ..Author::default()
    };
    let noted = repository
        .note(
            &author,
            &place(Kind::App, "acme", "app"),
            None,
            Some(r#"{"reset":true}"#),
        )
        .await;
    assert_eq!(noted.unwrap(), 2);
    let row = repository.journal(1, 1).await.unwrap().remove(0);
    assert_eq!(
        (row.author, row.after.as_deref()),
        (author, Some(r#"{"reset":true}"#))
    );
    let entry = repository
        .get(&place(Kind::App, "acme", "app"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((entry.body.as_str(), entry.revision), ("1", 1));
    assert_eq!(repository.head().await.unwrap(), 2);
}
