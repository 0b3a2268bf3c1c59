//! Reservations that nobody settles, or too late, or that nobody knows.

use serde_json::json;

use crate::common::server::limit;
use crate::common::{Server, file_of, hourly, wait_for};
use crate::world::{left, quota, serve};

#[test]
fn an_unsettled_reservation_is_charged_in_full() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let body = json!({"orgId": "acme", "cost": 20, "ttlMs": 300});
    let name = server.reserve(&body);
    // More than there is room for leaves it open, until it has expired.
    wait_for("its end", || match server.settle(&name, 1_000).status {
        409 => None,
        410 => Some(()),
        other => panic!("{other}"),
    });
    server.settle(&name, 0).problem(410);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 30);
}

#[test]
fn what_is_not_known_is_not_found() {
    let server = Server::start(&file_of(&[hourly("org", "org", 50, "")]), &[]);
    let name = server.reserve(&json!({"orgId": "acme", "cost": 20}));
    let mut other = name.clone();
    other.pop();
    let fleets = "rsv_________AAAAAAAAAAAAAAAAAAAAAAAA.YWNtZQ";
    for unknown in ["", "rsv_", "something", &other, &format!("{name}A"), fleets] {
        let detail = server.settle(unknown, 5).problem(404);
        assert!(detail.contains("not known here"), "{detail}");
    }
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 30);
    server.settle(&name, 5).expect(200);
}

#[test]
fn nothing_goes_back_to_a_window_that_is_over() {
    let policy = "{id: org, scope: org, algorithm: fixed_window, limit: 50, window: 2s}";
    let server = Server::start(&file_of(&[policy.to_owned()]), &[]);
    let look = json!({"orgId": "acme", "cost": 0});
    let window = || limit(&server.allowed(&look), "org")["resetAt"].clone();
    // Once more if a window ends in between.
    wait_for("a window that lasts", || {
        let name = server.reserve(&json!({"orgId": "acme", "cost": 20}));
        wait_for("another window", || {
            (server.left("org", &look) == 50).then_some(())
        });
        let began = window();
        server.allowed(&json!({"orgId": "acme", "cost": 10}));
        let settled = server.settle(&name, 0).expect(200);
        assert_eq!(settled["returnedCost"], 20, "the statement has it");
        let left = server.left("org", &look);
        (window() == began).then(|| assert_eq!(left, 40))
    });
}

#[test]
fn what_a_stopped_or_killed_node_held_is_charged_in_full() {
    let mut server = serve(None, &[quota("day", 1_000, "")]);
    let mut used = 0;
    for signal in ["TERM", "KILL"] {
        let name = server.reserve(&json!({"orgId": "acme", "cost": 100, "ttlMs": 3_600_000}));
        used += 100;
        let before = left(&server, "acme", "day");
        assert!(before <= 1_000 - used);
        server.restart(signal);
        server.settle(&name, 0).problem(404);
        assert_eq!(left(&server, "acme", "day"), before);
    }
}
