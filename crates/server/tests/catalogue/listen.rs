//! Notifications only save time: without them, and without the connection that hears them, changes arrive too.

use std::collections::BTreeSet;

use crate::fleet::{found, intact, override_to, put_policy, sees, two_nodes, until};
use crate::postgres::Postgres;

#[test]
fn changes_arrive_without_any_notification() {
    let postgres = Postgres::start();
    let database = postgres.create();
    // Whoever calls the function that notifies gets this one.
    let name = postgres.sql(&database, "SELECT current_database()");
    for statement in [
        "CREATE TABLE public.unsent (revision TEXT)",
        "CREATE FUNCTION public.pg_notify(channel TEXT, message TEXT) RETURNS void LANGUAGE sql \
         AS 'INSERT INTO public.unsent VALUES (message)'",
        &format!("ALTER DATABASE {name} SET search_path = public, pg_catalog"),
    ] {
        postgres.sql(&database, statement);
    }
    let [a, b] = two_nodes(&database);
    found(&a, 1_000);
    sees(&b, 1_000);
    for n in 0..5 {
        put_policy(&a, 2_000 + n);
        sees(&b, 2_000 + n);
        put_policy(&b, 3_000 + n);
        sees(&a, 3_000 + n);
    }
    assert_eq!(
        postgres.sql(&database, "SELECT COUNT(*) FROM public.unsent"),
        "12"
    );
    intact(&b, 12);
}

#[test]
fn changes_arrive_while_the_listener_is_cut_off_and_it_comes_back() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let [a, b] = two_nodes(&database);
    found(&a, 1_000);
    sees(&b, 1_000);
    let listeners = || -> BTreeSet<String> {
        let statement = "SELECT pid FROM pg_stat_activity \
             WHERE datname = current_database() AND query LIKE 'LISTEN %tollgate_changes%'";
        postgres
            .sql(&database, statement)
            .lines()
            .map(str::to_owned)
            .collect()
    };
    for n in 0..5 {
        until("a listener of each node", || listeners().len() == 2);
        let before = listeners();
        for id in &before {
            postgres.sql(&database, &format!("SELECT pg_terminate_backend({id})"));
        }
        put_policy(&a, 2_000 + n);
        put_policy(&b, 3_000 + n);
        sees(&a, 3_000 + n);
        sees(&b, 3_000 + n);
        until("other listeners", || {
            let now = listeners();
            now.len() == 2 && now.is_disjoint(&before)
        });
    }
    override_to(&b, 4_000);
    sees(&a, 4_000);
    for node in [&a, &b] {
        intact(node, 13);
        assert_eq!(node.counted("tollgate_catalogue_away"), 0);
        // The database itself was never away.
        assert!(!node.stderr().contains("does not answer"), "{}", node.stderr());
    }
}
