//! Somebody holds the database in a transaction and does not let go.

use crate::fleet::{
    ask_override, ask_policy, found, intact, override_to, put_policy, sees, two_nodes, until,
};
use crate::postgres::{Held, Postgres};

/// Takes the row that all writers take first.
fn hold(postgres: &Postgres, database: &str) -> Held {
    postgres.hold(database, "UPDATE tollgate_head SET revision = revision")
}

/// Waits until somebody waits for a lock.
fn somebody_waits(postgres: &Postgres, database: &str) {
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    until("a writer to wait", || postgres.sql(database, waiting) != "0");
}

#[test]
fn a_write_that_waits_in_vain_is_told_why() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let [a, b] = two_nodes(&database);
    found(&a, 1_000);
    sees(&b, 1_000);
    let held = hold(&postgres, &database);
    let said = ask_policy(&a, 2_000).send().problem(503);
    assert!(said.contains("Another writer"), "{said}");
    // The database is there: what reads it goes on, and nobody takes it for lost.
    intact(&b, 2);
    for node in [&a, &b] {
        assert_eq!(node.counted("tollgate_catalogue_away"), 0);
    }
    drop(held);
    put_policy(&a, 3_000);
    sees(&b, 3_000);
    intact(&b, 3);
}

#[test]
fn a_node_that_freezes_in_its_turn_is_not_waited_for() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let [a, b] = two_nodes(&database);
    found(&a, 1_000);
    sees(&b, 1_000);
    let held = hold(&postgres, &database);
    std::thread::scope(|scope| {
        let ask = ask_override(&a, 70);
        let writing = scope.spawn(|| ask.send());
        somebody_waits(&postgres, &database);
        a.signal("STOP");
        // Its turn comes, and it does not know.
        drop(held);
        until("its turn", || {
            let idle = "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'idle in transaction'";
            postgres.sql(&database, idle) != "0"
        });
        override_to(&b, 80);
        a.signal("CONT");
        writing.join().unwrap().problem(503);
    });
    sees(&a, 80);
    intact(&a, 3);
    override_to(&a, 90);
    sees(&b, 90);
}
