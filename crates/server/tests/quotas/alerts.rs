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

/// A server with a plan for each limit, on which `acme` is on the first, and an admin.
fn plans(database: Option<&str>, limits: &[u64]) -> (Server, Admin) {
    let tiers: Vec<String> = limits.iter().map(|limit| format!("{{tier: t{limit}}}")).collect();
    let quotas: Vec<String> = limits
        .iter()
        .map(|limit| quota(&format!("day-{limit}"), *limit, &format!("orgTier: t{limit}")))
        .collect();
    let file = format!(
        "tiers: [{}]\n{}",
        tiers.join(", "),
        crate::common::file_of(&quotas)
    );
    let mut flags = vec!["--threads", "1"];
    flags.extend(database.iter().flat_map(|database| ["--database", database]));
    let server = Server::start(&file, &flags);
    let admin = server.platform_admin();
    plan(&admin, limits[0], "");
    (server, admin)
}

fn plan(admin: &Admin, limit: u64, usage: &str) {
    admin.set(
        &format!("/v1/orgs/acme{usage}"),
        &json!({"tier": format!("t{limit}")}),
    );
}

/// For a while only these, and so they stay.
fn stay(admin: &Admin, wanted: &[u64]) {
    for _ in 0..4 {
        assert_eq!(alerts(admin), wanted);
        crate::common::clock::pause(std::time::Duration::from_millis(700));
    }
    assert_eq!(alerts(admin), wanted);
}

#[test]
fn alerts_go_by_the_limit_in_force_with_sqlite() {
    change_plans(|| None);
}

#[test]
fn alerts_go_by_the_limit_in_force_with_postgres() {
    let postgres = Postgres::start();
    change_plans(|| Some(postgres.create()));
}

fn change_plans(database: impl Fn() -> Option<String>) {
    // An upgrade: what is used from then on is a smaller part.
    let (server, admin) = plans(database().as_deref(), &[1_000, 2_000]);
    spend(&server, "acme", 798);
    wait_for("the first", || (alerts(&admin) == [50]).then_some(()));
    plan(&admin, 2_000, "");
    spend(&server, "acme", 3);
    stay(&admin, &[50]);
    // The same part of a larger one, and of a smaller one.
    let (server, admin) = plans(database().as_deref(), &[1_000, 2_000]);
    spend(&server, "acme", 501);
    wait_for("the first", || (alerts(&admin) == [50]).then_some(()));
    plan(&admin, 2_000, "?usage=proportional");
    stay(&admin, &[50]);
    spend(&server, "acme", 100);
    plan(&admin, 1_000, "?usage=proportional");
    stay(&admin, &[50]);
    // The true ones come when they are due.
    spend(&server, "acme", 260);
    wait_for("the second", || (alerts(&admin) == [50, 80]).then_some(()));
}

#[test]
fn a_lowered_limit_alerts_with_sqlite() {
    lower(|| None);
}

#[test]
fn a_lowered_limit_alerts_with_postgres() {
    let postgres = Postgres::start();
    lower(|| Some(postgres.create()));
}

fn lower(database: impl Fn() -> Option<String>) {
    for refused in [false, true] {
        let (server, admin) = plans(database().as_deref(), &[2_000, 1_000]);
        spend(&server, "acme", 1_500);
        wait_for("the first", || (alerts(&admin) == [50]).then_some(()));
        plan(&admin, 1_000, "");
        wait_for("all of them", || {
            if refused {
                server.denied(&json!({"orgId": "acme"}));
            }
            (alerts(&admin) == [50, 80, 100]).then_some(())
        });
    }
    // An override ends, and nobody asks.
    let (server, admin) = plans(database().as_deref(), &[200]);
    let end = i64::try_from(tollgate::clock::now().millis()).unwrap() + 6_000;
    let end = jiff::Timestamp::from_millisecond(end).unwrap().to_string();
    let more = json!({"policyId": "day-200", "limit": 1_000, "reason": "a fair", "expiresAt": end});
    let answer = admin.post("/v1/orgs/acme/ratelimit/overrides", &more);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(spend(&server, "acme", 400), 400);
    assert!(alerts(&admin).is_empty());
    wait_for("all of them", || (alerts(&admin) == [50, 80, 100]).then_some(()));
}
