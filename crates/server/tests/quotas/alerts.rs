//! Alerts of quotas that are being used up: each threshold once in a period, whatever nodes do.

use serde_json::json;

use crate::common::{Admin, Server, wait_for};
use crate::postgres::Postgres;
use crate::world::{quota, serve, spend};

/// The thresholds that an org's only quota has reached, by what a node shows.
fn alerts(admin: &Admin) -> Vec<u64> {
    let quotas = admin.get("/v1/orgs/acme/quotas").expect(200);
    let items = quotas["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{quotas}");
    let alerts = items[0]["alerts"].as_array().unwrap().iter();
    alerts
        .map(|alert| {
            assert!(alert["at"].as_str().unwrap().ends_with('Z'), "{alert}");
            alert["threshold"].as_u64().unwrap()
        })
        .collect()
}

fn admin_of(server: &Server) -> Admin {
    let admin = server.platform_admin();
    admin.set("/v1/orgs/acme", &json!({}));
    admin
}

#[test]
fn an_alert_is_given_once_with_sqlite() {
    alert_and_restart(None);
}

#[test]
fn an_alert_is_given_once_with_postgres() {
    let postgres = Postgres::start();
    alert_and_restart(Some(&postgres.create()));
}

fn alert_and_restart(database: Option<&str>) {
    let mut server = serve(database, &[quota("day", 100, "")]);
    let admin = admin_of(&server);
    assert!(alerts(&admin).is_empty());
    spend(&server, "acme", 49);
    assert!(alerts(&admin).is_empty());
    spend(&server, "acme", 1);
    assert_eq!(alerts(&admin), [50]);
    server.restart("TERM");
    spend(&server, "acme", 10);
    assert_eq!(alerts(&server.platform_admin()), [50]);
    // Killed with 80 used and not told of, it is told by whoever comes next.
    spend(&server, "acme", 20);
    wait_for("what was used to be told", || {
        (alerts(&server.platform_admin()) == [50, 80]).then_some(())
    });
    server.restart("KILL");
    // Of what the killed one held nobody knows, so it may be used up before a hundred are.
    spend(&server, "acme", 20);
    wait_for("the end of the quota", || {
        let seen = alerts(&server.platform_admin());
        assert!([&[50, 80][..], &[50, 80, 100]].contains(&&*seen), "{seen:?}");
        Some(())
    });
}

#[test]
fn two_nodes_alert_once() {
    let postgres = Postgres::start();
    let url = postgres.create();
    let nodes = [(); 2].map(|()| serve(Some(&url), &[quota("day", 200, "accuracy: exact")]));
    let admins = nodes.each_ref().map(admin_of);
    for _ in 0..50 {
        for node in &nodes {
            spend(node, "acme", 1);
        }
    }
    for admin in &admins {
        wait_for("both to see it", || (alerts(admin) == [50]).then_some(()));
    }
    for node in &nodes {
        spend(node, "acme", 50);
    }
    for admin in &admins {
        wait_for("both to see them", || {
            (alerts(admin) == [50, 80, 100]).then_some(())
        });
    }
}

#[test]
fn thresholds_are_chosen() {
    let server = Server::start(
        &crate::common::file_of(&[quota("day", 100, "")]),
        &["--quota-alerts", "90, 10"],
    );
    let admin = admin_of(&server);
    spend(&server, "acme", 95);
    assert_eq!(alerts(&admin), [10, 90]);
}
