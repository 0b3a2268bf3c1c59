//! A node that has no room for more counters: whoever is refused for that has used nothing.

use serde_json::{Value, json};

use crate::common::{Ask, Launch, Server, file_of, noon_zone};
use crate::postgres::Postgres;

const USERS: usize = 300;

#[test]
fn whoever_finds_no_room_has_used_nothing_with_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.sqlite3");
    refuse_and_look(&format!("sqlite:{}", path.display()));
}

#[test]
fn whoever_finds_no_room_has_used_nothing_with_postgres() {
    let postgres = Postgres::start();
    refuse_and_look(&postgres.create());
}

fn server(database: &str, max_counters: &str) -> Server {
    let zone = noon_zone();
    let quota =
        format!("{{id: user-day, scope: user, algorithm: quota, window: day, timezone: {zone}, limit: 10}}");
    Server::launch(&Launch {
        policies: Some(&format!("orgs: [{{orgId: acme}}]\n{}", file_of(&[quota]))),
        flags: &["--database", database, "--max-counters", max_counters],
        ..Launch::default()
    })
}

fn user(number: usize) -> Value {
    json!({"orgId": "acme", "userId": format!("u{number}")})
}

fn refuse_and_look(database: &str) {
    let full = server(database, "100");
    let mut refused = Vec::new();
    for number in 0..USERS {
        let mut body = user(number);
        // Whoever only looks takes no more.
        body["dryRun"] = json!(number % 3 == 2);
        let answer = full.check(&body);
        match answer.status {
            200 => {}
            503 => {
                let detail = answer.problem(503);
                assert!(detail.contains("the counter store is full"), "{detail}");
                refused.push(number);
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    // Half of all room is for one org.
    assert_eq!(refused.len(), USERS - 50);
    assert!(full.counted("tollgate_ledger_accounts") <= 50);
    let items = full.platform_admin().items("/v1/orgs/acme/quotas?limit=1000");
    assert_eq!(items.len(), 50);
    full.terminate();
    assert!(full.wait().success());
    let roomy = server(database, "100000");
    for number in refused {
        for _ in 0..10 {
            roomy.allowed(&user(number));
        }
        roomy.denied(&user(number));
    }
}

#[test]
fn what_was_granted_for_a_counter_without_room_goes_back_with_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.sqlite3");
    refuse_at_once(&format!("sqlite:{}", path.display()));
}

#[test]
fn what_was_granted_for_a_counter_without_room_goes_back_with_postgres() {
    let postgres = Postgres::start();
    refuse_at_once(&postgres.create());
}

/// Many ask at once, so that each finds room when it asks the ledger, and most find none when that has answered.
fn refuse_at_once(database: &str) {
    let full = server(database, "20");
    let address = full.http;
    let refused: Vec<usize> = std::thread::scope(|scope| {
        let check = |number: usize| {
            let ask = Ask::new(address, "POST", "/v1/check").body(user(number).to_string());
            match ask.send().status {
                200 => None,
                503 => Some(number),
                other => panic!("{other}"),
            }
        };
        let threads: Vec<_> = (0..40)
            .map(|thread| {
                scope.spawn(move || (0..3).filter_map(|n| check(3 * thread + n)).collect::<Vec<_>>())
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(refused.len() >= 100, "{}", refused.len());
    full.terminate();
    assert!(full.wait().success());
    let roomy = server(database, "100000");
    for number in refused {
        for _ in 0..10 {
            roomy.allowed(&user(number));
        }
        roomy.denied(&user(number));
    }
}
