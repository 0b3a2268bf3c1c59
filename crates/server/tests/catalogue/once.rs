//! A write that is sent again, to another node, while the first still tries.

use std::collections::BTreeSet;

use crate::fleet::{ask_override, found, intact, override_ids, sees, two_nodes, until};
use crate::postgres::Postgres;

#[test]
fn a_slow_write_is_not_made_beside_the_one_that_took_over() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let [a, b] = two_nodes(&database);
    found(&a, 1_000);
    sees(&b, 1_000);
    let waiting = |count: &str| {
        let waiters = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        until("writers to wait", || postgres.sql(&database, waiters) == count);
    };
    let ask = |node| ask_override(node, 70).header("Idempotency-Key", "once");
    let held = postgres.hold(&database, "UPDATE tollgate_head SET revision = revision");
    let (slow, quick) = (ask(&a), ask(&b));
    let (slow, quick) = std::thread::scope(|scope| {
        let slow = scope.spawn(|| slow.send());
        waiting("1");
        // As if it had tried for longer than anybody waits for it.
        let past = "UPDATE tollgate_idempotency SET at_ms = at_ms - 61000";
        postgres.sql(&database, past);
        let quick = scope.spawn(|| quick.send());
        waiting("2");
        drop(held);
        (slow.join().unwrap(), quick.join().unwrap())
    });
    let refused = slow.problem(409);
    assert!(refused.contains("Idempotency-Key"), "{refused}");
    let made = quick.expect(201);
    sees(&a, 70);
    let ids = override_ids(&a);
    assert_eq!(ids, BTreeSet::from([made["id"].as_str().unwrap().to_owned()]));
    intact(&a, 3);
    // Whoever sends it once more is told what was done, on either node.
    for node in [&a, &b] {
        assert_eq!(ask(node).send().expect(201), made);
    }
    intact(&b, 3);
}
