//! The turn of a period for counters that nobody has asked for in a while, and after a change of calendars, by a clock
//! that the test moves.

use serde_json::json;

use crate::common::clock::Clock;
use crate::common::server::remaining;
use crate::common::{Server, file_of, wait_for};
use crate::postgres::Postgres;
use crate::servers;
use crate::world::{org, spend};

/// 2026-12-01T00:00:00Z.
const DECEMBER: i64 = 1_796_083_200_000;
/// 2026-11-18T00:00:00Z.
const MIDNIGHT: i64 = 1_794_960_000_000;
const LIMIT: u64 = 5;
/// When clients ask again after the turn of their month, in milliseconds. They all have waited for it.
const AFTER: [i64; 12] = [
    20, 200, 500, 700, 900, 1_100, 1_300, 1_600, 2_000, 2_500, 4_000, 6_000,
];

#[test]
fn a_client_that_waited_for_its_next_period_has_all_of_it_with_sqlite() {
    wait_for_december(&[]);
}

#[test]
fn a_client_that_waited_for_its_next_period_has_all_of_it_with_postgres() {
    let postgres = Postgres::start();
    wait_for_december(&["--database", &postgres.create()]);
}

#[test]
fn a_client_that_waited_for_its_next_period_has_all_of_it_in_a_fleet() {
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    wait_for_december(&["--database", &postgres.create(), "--redis", &redis.url()]);
}

fn wait_for_december(flags: &[&str]) {
    let clock = Clock::at(DECEMBER - 45_000);
    let policy = format!("{{id: month, scope: org, algorithm: quota, window: month, limit: {LIMIT}}}");
    let server = clock.serve(&file_of(&[policy]), flags);
    let orgs: Vec<String> = (0..AFTER.len()).map(|number| format!("org-{number}")).collect();
    for name in &orgs {
        assert_eq!(spend(&server, name, LIMIT + 1), LIMIT);
    }
    // Nobody asks for longer than a node keeps what it does not need, and then at last the month turns.
    assert!(clock.now() < DECEMBER - 36_000, "a machine this slow is not idle");
    clock.set(DECEMBER - 2_000);
    for (name, after) in orgs.iter().zip(AFTER) {
        clock.wait_until(DECEMBER + after);
        let decision = server.allowed(&org(name));
        assert_eq!(
            remaining(&decision, "month"),
            LIMIT - 1,
            "{name}, {after} ms after"
        );
    }
    for name in &orgs {
        assert_eq!(spend(&server, name, LIMIT + 1), LIMIT - 1, "{name}");
    }
}

#[test]
fn a_changed_calendar_is_that_of_the_next_period_with_sqlite() {
    change_calendars(&[]);
}

#[test]
fn a_changed_calendar_is_that_of_the_next_period_with_postgres() {
    let postgres = Postgres::start();
    change_calendars(&["--database", &postgres.create()]);
}

fn change_calendars(flags: &[&str]) {
    let clock = Clock::at(MIDNIGHT - 9_000);
    let policies = ["day", "billing_month"].map(|window| {
        format!(
            "{{id: {window}, scope: org, algorithm: quota, window: {window}, timezone: org, limit: 1000}}"
        )
    });
    let server = clock.serve(&file_of(&policies), flags);
    let admin = server.platform_admin();
    let names = ["quiet", "busy"];
    for name in names {
        let place = format!("/v1/orgs/{name}");
        admin.set(&place, &json!({"timezone": "UTC", "billingAnchor": "2024-01-18"}));
        server.allowed(&org(name));
        admin.set(
            &place,
            &json!({"timezone": "America/New_York", "billingAnchor": "2024-01-05"}),
        );
    }
    // The periods that run keep their end.
    for name in names {
        assert_eq!(
            ends(&server, name),
            ["2026-11-18T00:00:00Z", "2026-11-18T00:00:00Z"]
        );
    }
    while clock.now() < MIDNIGHT + 1_500 {
        server.allowed(&org("busy"));
        clock.wait_until(clock.now() + 100);
    }
    for name in names {
        server.allowed(&org(name));
        assert_eq!(
            ends(&server, name),
            ["2026-11-18T05:00:00Z", "2026-12-05T05:00:00Z"],
            "{name}"
        );
    }
}

/// When the periods of an org end, the shorter first.
fn ends(server: &Server, org: &str) -> Vec<String> {
    let items = server.platform_admin().items(&format!("/v1/orgs/{org}/quotas"));
    let mut ends: Vec<(String, String)> = items
        .iter()
        .map(|item| {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            (text("window"), text("periodEnd"))
        })
        .collect();
    ends.sort_by(|one, other| other.0.cmp(&one.0));
    ends.into_iter().map(|(_, end)| end).collect()
}

#[test]
fn accuracy_that_becomes_exact_is_so_without_a_restart() {
    let postgres = Postgres::start();
    let url = postgres.create();
    let policy = |rest: &str| file_of(&[crate::world::quota("day", 10_000, rest)]);
    let server = Server::start(&policy(""), &["--threads", "1", "--database", &url]);
    let held = || postgres.sql(&url, "SELECT mark - used FROM tollgate_ledger");
    spend(&server, "acme", 20);
    wait_for("something to be held", || (held() != "0").then_some(()));
    server.reload(&policy("accuracy: exact"));
    wait_for("nothing to be held", || {
        spend(&server, "acme", 1);
        (held() == "0").then_some(())
    });
}
