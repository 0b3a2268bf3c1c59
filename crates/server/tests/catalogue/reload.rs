//! A policy file that changes while the database is away.

use serde_json::{Value, json};

use crate::common::{Launch, Server};
use crate::fleet::{ORG, TOKEN, admin, limit_of, override_of, until, write};
use crate::postgres::Postgres;

/// The policy of the file that all orgs have.
fn file(limit: u64) -> String {
    format!(
        "policies: [{{id: org-rate, scope: org, algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h}}]\n"
    )
}

fn node(database: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(&file(1_000)),
        flags: &["--database", database, "--admin-token", TOKEN, "--threads", "1"],
        ..Launch::default()
    })
}

fn ready(node: &Server) -> Value {
    node.ask_admin("GET", "/readyz").send().expect(200)
}

/// A node whose copy on disk is up to date, with an org of its own limit.
fn settled(database: &str) -> Server {
    let node = node(database);
    assert_eq!(ready(&node)["policyFile"], "inForce");
    write(&node, "PUT", &format!("/v1/orgs/{ORG}"), &json!({}));
    override_of(&node, ORG, 70);
    let last = ready(&node)["catalogueRevision"].clone();
    let copy = node.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&copy).unwrap_or_default();
        text.ends_with(&format!("\n[{last}]\n"))
    });
    node
}

#[test]
fn it_comes_into_force_beside_what_is_on_disk() {
    let mut postgres = Postgres::start();
    let database = postgres.create();
    let a = settled(&database);
    postgres.kill();
    a.write_policies(&file(2_000));
    until("the new file to be in force", || {
        limit_of(&a, "other") == Some(2_000)
    });
    assert_eq!(limit_of(&a, ORG), Some(70));
    a.logs("policies reloaded");
    until("readiness to say so", || ready(&a)["policyFile"] == "inForce");
    until("the node to notice", || a.counted("tollgate_catalogue_away") == 1);
    a.write_policies(&file(3_000));
    until("the next to be in force", || limit_of(&a, "other") == Some(3_000));
    a.write_policies("policies: [{}]\n");
    until("a bad one to be refused", || ready(&a)["policyFile"] == "refused");
    assert_eq!(a.counted("tollgate_policy_reload_failures_total"), 1);
    assert_eq!(limit_of(&a, "other"), Some(3_000));

    postgres.start_again();
    let b = node(&database);
    until("the node to go on", || a.counted("tollgate_catalogue_away") == 0);
    override_of(&b, ORG, 80);
    until("what is written elsewhere", || limit_of(&a, ORG) == Some(80));
    override_of(&a, ORG, 90);
    until("what is written here", || limit_of(&b, ORG) == Some(90));
    assert_eq!(limit_of(&a, "other"), Some(3_000));
}

#[test]
fn without_its_like_on_disk_it_waits_for_the_database() {
    let mut postgres = Postgres::start();
    let a = settled(&postgres.create());
    postgres.kill();
    // As if the last change had not been copied yet: to go back to before it would undo it.
    let copy = a.data("catalogue.snapshot");
    let text = std::fs::read_to_string(&copy).unwrap();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.contains("override"))
        .collect();
    std::fs::write(&copy, format!("{}\n", first.join("\n"))).unwrap();
    a.write_policies(&file(2_000));
    until("readiness to say that it waits", || {
        ready(&a)["policyFile"] == "waiting"
    });
    a.logs("the last good ones stay in force until the catalogue's database answers");
    assert_eq!(limit_of(&a, "other"), Some(1_000));
    assert_eq!(limit_of(&a, ORG), Some(70));

    postgres.start_again();
    until("the file to be in force by itself", || {
        limit_of(&a, "other") == Some(2_000)
    });
    assert_eq!(limit_of(&a, ORG), Some(70));
    until("readiness to say so", || ready(&a)["policyFile"] == "inForce");
    assert_eq!(a.counted("tollgate_policy_reload_failures_total"), 1);
    let listed = admin(&a, "GET", "/v1/ratelimit/policies").send().expect(200);
    assert_eq!(listed["items"][0]["limit"], 2_000);
}
