//! A policy file that changes while the server is stopped is a change of what was in force, like one that the server
//! sees.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::common::{Launch, Server, file_of, noon_zone};
use crate::postgres::Postgres;
use crate::servers;
use crate::world::{left, org, quota, serve, spend};

/// How a changed file comes into force.
#[derive(Debug, Clone, Copy)]
enum How {
    Running,
    StoppedBy(&'static str),
}

const STOPS: [How; 2] = [How::StoppedBy("TERM"), How::StoppedBy("KILL")];

fn change(server: &mut Server, policies: &[String], how: How) {
    match how {
        How::Running => server.reload(&file_of(policies)),
        How::StoppedBy(signal) => {
            server.end(signal);
            server.write_policies(&file_of(policies));
            server.start_again();
        }
    }
}

/// A check by an app on a route, which counts wherever it is told apart.
fn asks(cost: u64) -> Value {
    json!({"orgId": "acme", "appId": "web", "endpoint": "GET /a", "cost": cost})
}

fn with_window(id: &str, window: &str) -> String {
    quota(id, 100, "").replace("window: day", &format!("window: {window}"))
}

/// Of 100 a day, 70 are used: whatever the policy counts by then, it has 30.
fn every_change(database: Option<&str>, how: &[How]) {
    let day = with_window("plan", "day");
    let another = [
        with_window("plan", "month"),
        day.replace("scope: org", "scope: app"),
        day.replace("scope: org", "scope: org, endpointPattern: \"/*\""),
        quota("plan", 100, "counter: another"),
        quota("plan", 1_000, "unit: token").replace("window: day", "window: week"),
    ];
    for (round, how) in how.iter().enumerate() {
        for (number, after) in another.iter().enumerate() {
            let mut server = serve(database, std::slice::from_ref(&day));
            let asks = |cost: u64| {
                let mut body = asks(cost);
                body["orgId"] = format!("acme-{round}-{number}").into();
                body["costs"] = json!({"token": cost});
                body
            };
            server.allowed(&asks(70));
            change(&mut server, std::slice::from_ref(after), *how);
            assert_eq!(server.left("plan", &asks(0)), 30, "{how:?}: {after}");
            server.denied(&asks(31));
            server.allowed(&asks(30));
            server.denied(&asks(1));
        }
    }
}

#[test]
fn a_changed_quota_begins_with_what_was_left_with_sqlite() {
    every_change(None, &[How::Running]);
    every_change(None, &STOPS);
}

#[test]
fn a_changed_quota_begins_with_what_was_left_with_postgres() {
    let postgres = Postgres::start();
    every_change(Some(&postgres.create()), &STOPS);
}

/// Used: 40 a day, 20 a week, 10 a month. Each time the policy has what is left of a hundred.
#[test]
fn several_changes_over_several_restarts_give_no_more_room() {
    let postgres = Postgres::start();
    let database = postgres.create();
    for database in [None, Some(database.as_str())] {
        for how in STOPS {
            let who = format!("{how:?}").replace(['(', ')', '"'], "-");
            let mut server = serve(database, &[with_window("plan", "day")]);
            assert_eq!(spend(&server, &who, 40), 40);
            change(&mut server, &[with_window("plan", "week")], how);
            assert_eq!(left(&server, &who, "plan"), 60, "{how:?}");
            assert_eq!(spend(&server, &who, 20), 20);
            // Started again with the same file, and then with others.
            server.restart("TERM");
            change(&mut server, &[with_window("plan", "month")], how);
            assert_eq!(left(&server, &who, "plan"), 40, "{how:?}");
            assert_eq!(spend(&server, &who, 10), 10);
            change(&mut server, &[with_window("plan", "billing_month")], how);
            assert_eq!(spend(&server, &who, 100), 30, "{how:?}");
        }
    }
}

/// Whoever asks for the first time after several changes has what the first count left.
#[test]
fn what_a_count_left_is_remembered_over_restarts_without_a_call() {
    let mut server = serve(None, &[with_window("plan", "day")]);
    assert_eq!(spend(&server, "acme", 40), 40);
    change(
        &mut server,
        &[with_window("plan", "week")],
        How::StoppedBy("TERM"),
    );
    server.restart("TERM");
    server.restart("KILL");
    change(
        &mut server,
        &[with_window("plan", "month")],
        How::StoppedBy("KILL"),
    );
    server.restart("TERM");
    assert_eq!(left(&server, "acme", "plan"), 60);
    assert_eq!(left(&server, "another", "plan"), 100);
}

#[test]
fn a_change_before_a_stop_and_one_after_it_are_two() {
    let mut server = serve(None, &[with_window("plan", "day")]);
    assert_eq!(spend(&server, "acme", 40), 40);
    change(&mut server, &[with_window("plan", "week")], How::Running);
    change(
        &mut server,
        &[with_window("plan", "month")],
        How::StoppedBy("TERM"),
    );
    assert_eq!(spend(&server, "acme", 100), 60);
}

/// An org's counts that were emptied stay so: what was used before is not held against it.
#[test]
fn a_reset_is_not_undone_by_a_file_that_changes_while_the_server_is_stopped() {
    for how in [How::Running, How::StoppedBy("TERM")] {
        let mut server = serve(None, &[with_window("plan", "day")]);
        assert_eq!(spend(&server, "acme", 70), 70);
        let admin = server.platform_admin();
        admin.set("/v1/orgs/acme", &json!({}));
        let reset = admin.post("/v1/orgs/acme/ratelimit/reset", &json!({"reason": "a gift"}));
        reset.expect(200);
        assert_eq!(spend(&server, "acme", 20), 20);
        change(&mut server, &[with_window("plan", "month")], how);
        assert_eq!(left(&server, "acme", "plan"), 80, "{how:?}");
    }
}

/// The file's own overrides count otherwise than they did: they begin with what was left, too.
#[test]
fn an_override_of_the_file_that_counts_otherwise_begins_with_what_was_left() {
    let file = |window: &str| {
        format!(
            "{}overrides:\n  - {{orgId: acme, policyId: plan, window: {window}}}\n",
            file_of(&[with_window("plan", "day")])
        )
    };
    for running in [true, false] {
        let mut server = Server::launch(&Launch {
            policies: Some(&file("week")),
            flags: &["--threads", "1"],
            ..Launch::default()
        });
        assert_eq!(spend(&server, "acme", 40), 40);
        if running {
            server.reload(&file("month"));
        } else {
            server.end("TERM");
            server.write_policies(&file("month"));
            server.start_again();
        }
        assert_eq!(left(&server, "acme", "plan"), 60, "running: {running}");
        assert_eq!(left(&server, "another", "plan"), 100);
    }
}

#[test]
fn a_record_that_is_gone_or_can_not_be_read_stops_no_start() {
    let mut server = serve(None, &[with_window("plan", "day")]);
    let record = server.data("policies.applied");
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for damage in ["", "{", "{\"at\": 1}", "not at all"] {
        server.end("TERM");
        std::fs::write(&record, damage).unwrap();
        server.start_again();
        server.logs("policies.applied: ");
        server.allowed(&org("acme"));
    }
    server.end("TERM");
    std::fs::remove_file(&record).unwrap();
    server.write_policies(&file_of(&[with_window("plan", "month")]));
    server.start_again();
    server.allowed(&org("acme"));
    // It is written again.
    change(
        &mut server,
        &[with_window("plan", "week")],
        How::StoppedBy("KILL"),
    );
    assert_eq!(left(&server, "acme", "plan"), 99);
}

/// A fleet that is restarted node by node, each with the new file: the usual way to deploy one.
#[test]
fn a_rolling_restart_gives_a_quota_no_more_room() {
    let (postgres, redis) = (Postgres::start(), servers::Server::start());
    for (shared, how) in [
        (None, "TERM"),
        (None, "KILL"),
        (Some(redis.url()), "TERM"),
        (Some(redis.url()), "KILL"),
    ] {
        let url = postgres.create();
        let mut flags = vec!["--threads", "1", "--database", &url];
        flags.extend(shared.iter().flat_map(|redis| ["--redis", redis.as_str()]));
        let zone = noon_zone();
        let policy = |window: &str| {
            let numbers = format!("window: {window}, timezone: {zone}, limit: 100, accuracy: exact");
            file_of(&[format!("{{id: plan, scope: org, algorithm: quota, {numbers}}}")])
        };
        let mut nodes = [(); 2].map(|()| {
            Server::launch(&Launch {
                policies: Some(&policy("day")),
                flags: &flags,
                ..Launch::default()
            })
        });
        let who = format!("acme-{how}-{}", shared.is_some());
        assert_eq!(spend(&nodes[0], &who, 25) + spend(&nodes[1], &who, 25), 50);
        let mut after = 0;
        for (window, times) in [("week", 10), ("month", 100)] {
            for node in &mut nodes {
                node.end(how);
                node.write_policies(&policy(window));
                node.start_again();
                after += spend(node, &who, times);
            }
        }
        assert_eq!(after, 50, "{how} {shared:?}");
    }
}
