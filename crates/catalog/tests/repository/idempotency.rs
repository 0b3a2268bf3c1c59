//! Requests that are done once.

use tollgate_catalog::repository::Claim;

use crate::cases;
use crate::database::Database;

cases!(
    are_done_once,
    can_be_released,
    expire,
    are_abandoned,
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

async fn are_done_once(database: Database) {
    let one = database.open().await;
    let other = database.open().await;
    assert_eq!(one.claim("alice", "k", "f", NOW).await.unwrap(), Claim::New);
    assert_eq!(
        other.claim("alice", "k", "f", NOW + 1).await.unwrap(),
        Claim::InFlight
    );
    assert_eq!(
        other.claim("alice", "k", "g", NOW + 1).await.unwrap(),
        Claim::Other
    );
    // The key is one's own.
    assert_eq!(other.claim("bob", "k", "g", NOW).await.unwrap(), Claim::New);
    one.finish("alice", "k", 201, "{\"☂\":\n1}").await.unwrap();
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
    one.finish("alice", "k", 500, "").await.unwrap();
    one.release("alice", "k").await.unwrap();
    assert_eq!(
        one.claim("alice", "k", "f", NOW + DAY).await.unwrap(),
        done(201, "{\"☂\":\n1}")
    );
    // An answer may be empty, and nobody need have claimed what is finished.
    other.finish("bob", "k", 204, "").await.unwrap();
    assert_eq!(one.claim("bob", "k", "g", NOW + 3).await.unwrap(), done(204, ""));
    one.finish("carol", "k", 204, "").await.unwrap();
    assert_eq!(one.claim("carol", "k", "f", NOW).await.unwrap(), Claim::New);
}

async fn can_be_released(database: Database) {
    let repository = database.open().await;
    repository.release("alice", "k").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "f", NOW).await.unwrap(),
        Claim::New
    );
    repository.release("alice", "k").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "g", NOW).await.unwrap(),
        Claim::New
    );
}

async fn expire(database: Database) {
    let repository = database.open().await;
    assert_eq!(
        repository.claim("alice", "k", "f", NOW).await.unwrap(),
        Claim::New
    );
    repository.finish("alice", "k", 200, "first").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "f", NOW + DAY).await.unwrap(),
        done(200, "first")
    );
    assert_eq!(
        repository.claim("alice", "k", "g", NOW + DAY + 1).await.unwrap(),
        Claim::New
    );
    assert_eq!(
        repository.claim("alice", "k", "g", NOW + DAY + 2).await.unwrap(),
        Claim::InFlight
    );
    repository.finish("alice", "k", 200, "second").await.unwrap();
    assert_eq!(
        repository.claim("alice", "k", "g", NOW + DAY + 3).await.unwrap(),
        done(200, "second")
    );
}

async fn are_abandoned(database: Database) {
    let repository = database.open().await;
    assert_eq!(
        repository.claim("alice", "k", "f", NOW).await.unwrap(),
        Claim::New
    );
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
    assert_eq!(
        repository
            .claim("alice", "k", "f", NOW + MINUTE + 1)
            .await
            .unwrap(),
        Claim::New
    );
    assert_eq!(
        repository
            .claim("alice", "k", "f", NOW + MINUTE + 2)
            .await
            .unwrap(),
        Claim::InFlight
    );
}

async fn are_forgotten_in_turn(database: Database) {
    let repository = database.open().await;
    for key in 0..50 {
        let claim = repository
            .claim("alice", &key.to_string(), "f", NOW + key)
            .await
            .unwrap();
        assert_eq!(claim, Claim::New);
    }
    let later = NOW + DAY + MINUTE;
    // Each new claim adds itself and takes some of the old ones away, never all at once.
    for (key, left) in [("a", 31), ("b", 12), ("c", 3), ("d", 4)] {
        assert_eq!(
            repository.claim("bob", key, "f", later).await.unwrap(),
            Claim::New
        );
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
                Claim::New => new += 1,
                claim => assert_eq!(claim, Claim::InFlight),
            }
        }
        assert_eq!(new, 1, "in round {round}");
    }
}
