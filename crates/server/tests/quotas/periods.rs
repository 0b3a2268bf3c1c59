//! The turn of a period: what was used before it counts no longer, and nothing of it is used after.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Server, wait_for};
use crate::postgres::Postgres;
use crate::world::{org, quota, serve, spend};

const LIMIT: u64 = 50;

#[test]
fn a_period_turns_with_sqlite() {
    let server = serve(None, &[quota("day", LIMIT, "")]);
    let file = server.data("catalogue.sqlite3");
    turn(server, |set| {
        let statement = format!("UPDATE tollgate_ledger SET {set}");
        let statement = statement.replace("NOW", "CAST(strftime('%s', 'now') AS INTEGER)");
        let mut sqlite = Command::new("sqlite3");
        sqlite.args(["-cmd", ".timeout 5000"]).arg(&file).arg(statement);
        assert!(sqlite.status().unwrap().success());
    });
}

#[test]
fn a_period_turns_with_postgres() {
    let postgres = Postgres::start();
    let url = postgres.create();
    let server = serve(Some(&url), &[quota("day", LIMIT, "")]);
    turn(server, |set| {
        let statement = format!("UPDATE tollgate_ledger SET {set}");
        let statement = statement.replace("NOW", "CAST(extract(epoch FROM now()) AS BIGINT)");
        postgres.sql(&url, &statement);
    });
}

/// A row's period runs to the end that it was opened with. So one that is to end soon is one whose row says so.
fn turn(mut server: Server, update: impl Fn(&str)) {
    const LEFT: u64 = 5;

    assert_eq!(spend(&server, "acme", 30), 30);
    let began = Instant::now();
    update(&format!("ends = (NOW + {LEFT}) * 1000000000"));
    server.restart("TERM");
    let rest = spend(&server, "acme", LIMIT + 10);
    // The database tells whole seconds.
    if began.elapsed() < Duration::from_secs(LEFT - 1) {
        assert_eq!(rest, LIMIT - 30);
    } else {
        // On a machine this slow the period may have turned meanwhile, once.
        assert!((LIMIT - 30..=2 * LIMIT - 30).contains(&rest), "{rest}");
        return;
    }
    wait_for("the next period", || {
        (spend(&server, "acme", 1) == 1).then_some(())
    });
    assert_eq!(spend(&server, "acme", LIMIT + 10), LIMIT - 1);
    server.denied(&org("acme"));
    // It is a period of the calendar's again.
    server.restart("TERM");
    server.denied(&org("acme"));
}
