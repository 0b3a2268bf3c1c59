//! Requests that are done once.

use tollgate_catalog::repository::{Claim, Claimed, Kind, Once, Repository, Written};

use crate::cases;
use crate::database::{Database, author, put};

cases!(
    are_done_once,
    can_be_released,
    expire,
    are_abandoned,
    are_written_with_their_answer_or_not_at_all,
    are_forgotten_in_turn,
    are_claimed_by_one_of_many
);

const NOW: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

fn done(status: i64, response: &str) -> Claim {
    Claim::Done {
        status,
        response: response.to_owned(),
    }
}

/// Claims a request that nobody else has.
async fn claimed(repository: &Repository, scope: &str, key: &str, fingerprint: &str, now_ms: i64) -> Claimed {
    match repository.claim(scope, key, fingerprint, now_ms).await.unwrap() {
        Claim::New(claimed) => claimed,
        claim => panic!("{scope}'s {key} is not new: {claim:?}"),
    }
}

async fn are_done_once(database: Database) {
    let one = database.open().await;
    let other = database.open().await;
    let alices = claimed(&one, "alice", "k", "f", NOW).await;
    assert_eq!(
        other.claim("alice", "k", "f", NOW + 1).await.unwrap(),
        Claim::InFlight
    );
    assert_eq!(
        other.claim("alice", "k", "g", NOW + 1).await.unwrap(),
        Claim::Other
    );
    // The key is one's own.
    let bobs = claimed(&other, "bob", "k", "g", NOW).await;
    one.finish(&alices, 201, "{\"☂\":\n1}").await.unwrap();
    assert_eq!(
        other.claim("alice", "k", "f", NOW + 2).await.unwrap(),
        done(201, "{\"☂\":\n1}")
    );
    assert_eq!(
        other.claim("alice", "k", "g", NOW + 2).await.unwrap(),
        Claim::Other
    );
    assert_eq!(
        other.claim("bob", "k", "g", NOW + 2).await.unwrap(),
        Claim::InFlight
    );
    // What is done stays done.
    one.finish(&alices, 500, "").await.unwrap();
    one.release(&alices).await.unwrap();
    assert_eq!(
        one.claim("alice", "k", "f", NOW + DAY).await.unwrap(),
        done(201, "{\"☂\":\n1}")
    );
    // An answer may be empty.
    other.finish(&bobs, 204, "").await.unwrap();
    assert_eq!(one.claim("bob", "k", "g", NOW + 3).await.unwrap(), done(204, ""));
}

async fn can_be_released(database: Database) {
    let repository = database.open().await;
    let mine = claimed(&repository, "alice", "k", "f", NOW).await;
    repository.release(&mine).await.unwrap();
    repository.release(&mine).await.unwrap();
    claimed(&repository, "alice", "k", "g", NOW).await;
}

async fn expire(database: Database) {
    let repository = database.open().await;
    let first = claimed(&repository, "alice", "k", "f", NOW).await;
    repository.finish(&first, 200, "first").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "f", NOW + DAY).await.unwrap(),
        done(200, "first")
    );
    let second = claimed(&repository, "alice", "k", "g", NOW + DAY + 1).await;
    assert_eq!(
        repository.claim("alice", "k", "g", NOW + DAY + 2).await.unwrap(),
        Claim::InFlight
    );
    repository.finish(&second, 200, "second").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "g", NOW + DAY + 3).await.unwrap(),
        done(200, "second")
    );
}

async fn are_abandoned(database: Database) {
    let repository = database.open().await;
    claimed(&repository, "alice", "k", "f", NOW).await;
    assert_eq!(
        repository.claim("alice", "k", "f", NOW + MINUTE).await.unwrap(),
        Claim::InFlight
    );
    // Another request cannot have the key even then.
    assert_eq!(
        repository
            .claim("alice", "k", "g", NOW + MINUTE + 1)
            .await
            .unwrap(),
        Claim::Other
    );
    claimed(&repository, "alice", "k", "f", NOW + MINUTE + 1).await;
    assert_eq!(
        repository
            .claim("alice", "k", "f", NOW + MINUTE + 2)
            .await
            .unwrap(),
        Claim::InFlight
    );
}

async fn are_written_with_their_answer_or_not_at_all(database: Database) {
    let (one, other) = (database.open().await, database.open().await);
    let tier = |name: &str| [put(Kind::Tier, "", name, "{}")];
    let answer = |revision: i64| (201, format!("the answer of {revision}"));
    let slow = claimed(&one, "alice", "k", "f", NOW).await;
    let quick = claimed(&other, "alice", "k", "f", NOW + MINUTE + 1).await;
    let by = |claimed| Once {
        claimed,
        answer: &answer,
    };
    // Overtaken, it neither writes nor answers nor gives the other's claim away.
    let written = one.write_once(0, &author(), &tier("slow"), &by(&slow)).await;
    assert_eq!(written.unwrap(), Written::Overtaken);
    one.finish(&slow, 200, "late").await.unwrap();
    one.release(&slow).await.unwrap();
    let again = one.claim("alice", "k", "f", NOW + MINUTE + 2).await;
    assert_eq!(again.unwrap(), Claim::InFlight);
    assert_eq!(one.head().await.unwrap(), 0);

    // A write that does not come about leaves the claim as it was.
    let behind = other.write_once(7, &author(), &tier("quick"), &by(&quick)).await;
    assert_eq!(behind.unwrap(), Written::Behind);
    let written = other.write_once(0, &author(), &tier("quick"), &by(&quick)).await;
    assert_eq!(written.unwrap(), Written::At(1));
    // The answer is there with the write, however long ago its writer has come to an end.
    let again = one.claim("alice", "k", "f", NOW + 3 * MINUTE).await;
    assert_eq!(again.unwrap(), done(201, "the answer of 1"));
    let twice = other.write_once(1, &author(), &tier("twice"), &by(&quick)).await;
    assert_eq!(twice.unwrap(), Written::Overtaken);
    assert_eq!(one.head().await.unwrap(), 1);
}

async fn are_forgotten_in_turn(database: Database) {
    let repository = database.open().await;
    for key in 0..50 {
        claimed(&repository, "alice", &key.to_string(), "f", NOW + key).await;
    }
    let later = NOW + DAY + MINUTE;
    // Each new claim adds itself and takes some of the old ones away, never all at once.
    for (key, left) in [("a", 31), ("b", 12), ("c", 3), ("d", 4)] {
        claimed(&repository, "bob", key, "f", later).await;
        let counted = database.number("SELECT COUNT(*) FROM tollgate_idempotency").await;
        assert_eq!(counted, left);
    }
    assert_eq!(
        repository.claim("bob", "a", "f", later).await.unwrap(),
        Claim::InFlight
    );
}

async fn are_claimed_by_one_of_many(database: Database) {
    let one = database.open().await;
    let other = database.open().await;
    // A new claim, one that is abandoned and one that has expired.
    for (round, now) in [NOW, NOW + 2 * MINUTE, NOW + 2 * DAY].into_iter().enumerate() {
        let racing: Vec<_> = (0..16)
            .map(|number| {
                let repository = if number % 2 == 0 {
                    one.clone()
                } else {
                    other.clone()
                };
                tokio::spawn(async move { repository.claim("alice", "k", "f", now).await.unwrap() })
            })
            .collect();
        let mut new = 0;
        for claim in racing {
            match claim.await.unwrap() {
                Claim::New(_) => new += 1,
                claim => assert_eq!(claim, Claim::InFlight),
            }
        }
        assert_eq!(new, 1, "in round {round}");
    }
}
