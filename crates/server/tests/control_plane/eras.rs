//! A way of counting that comes back: its old count lacks what was used meanwhile, so it is not gone on with.

use serde_json::{Value, json};

use crate::common::{Admin, Server};
use crate::rollouts::{close, early, summer};
use crate::{POLICIES, ROLLOUTS, empty, hourly};

/// Four calls in an hour that begins with the first.
fn by_window() -> Value {
    hourly("rate", "*", "org", 4)
}

/// Four calls in any hour.
fn by_log() -> Value {
    json!({"id": "rate", "algorithm": "sliding_window_log", "limit": 4, "window": "1h"})
}

fn counting_by_window() -> (Server, Admin) {
    let (server, admin) = empty();
    admin.set(POLICIES, &by_window());
    (server, admin)
}

/// Two more calls are all that is left of four.
fn has_two_left(server: &Server) {
    assert_eq!(server.left("rate", &early()), 2);
    server.allowed(&early());
    server.allowed(&early());
    server.denied(&early());
}

#[test]
fn an_org_that_is_chosen_again_has_used_what_it_used_in_between() {
    let (server, admin) = counting_by_window();
    admin.post(ROLLOUTS, &summer(50, &by_log())).expect(201);
    server.allowed(&early());
    admin.set(&format!("{ROLLOUTS}/summer"), &summer(0, &by_log()));
    server.allowed(&early());
    admin.set(&format!("{ROLLOUTS}/summer"), &summer(50, &by_log()));
    has_two_left(&server);
    close(&admin, "promote");
    server.denied(&early());
}

#[test]
fn who_stays_chosen_while_others_are_let_go_keeps_what_it_has_used() {
    let (server, admin) = counting_by_window();
    admin.post(ROLLOUTS, &summer(100, &by_log())).expect(201);
    server.allowed(&early());
    server.allowed(&early());
    admin.set(&format!("{ROLLOUTS}/summer"), &summer(50, &by_log()));
    has_two_left(&server);
}

#[test]
fn a_candidate_that_is_opened_again_knows_what_was_used_in_between() {
    let (server, admin) = counting_by_window();
    admin.post(ROLLOUTS, &summer(100, &by_log())).expect(201);
    server.allowed(&early());
    close(&admin, "rollback");
    server.allowed(&early());
    let mut again = summer(100, &by_log());
    again["id"] = json!("again");
    admin.post(ROLLOUTS, &again).expect(201);
    has_two_left(&server);
    admin
        .post(&format!("{ROLLOUTS}/again/rollback"), &json!({}))
        .expect(200);
    server.denied(&early());
}

#[test]
fn a_policy_that_is_changed_to_and_fro_adds_up_what_is_used() {
    let (server, admin) = counting_by_window();
    server.allowed(&early());
    admin.set(POLICIES, &by_log());
    server.allowed(&early());
    admin.set(POLICIES, &by_window());
    assert_eq!(server.left("rate", &early()), 2);
    server.allowed(&early());
    admin.set(POLICIES, &by_log());
    assert_eq!(server.left("rate", &early()), 1);
    server.allowed(&early());
    // Another limit still keeps the count, in whichever era.
    let mut more = by_log();
    more["limit"] = json!(5);
    admin.set(POLICIES, &more);
    assert_eq!(server.left("rate", &early()), 1);
    for policy in [by_log(), by_window(), by_log()] {
        admin.set(POLICIES, &policy);
        server.denied(&early());
    }
}

#[test]
fn a_policy_that_is_deleted_and_put_again_has_used_what_it_had() {
    let (server, admin) = counting_by_window();
    server.allowed(&early());
    server.allowed(&early());
    for policy in [by_window(), by_log(), by_window()] {
        admin.remove(&format!("{POLICIES}/rate"));
        // Nothing limits it meanwhile, and nothing counts that.
        server.allowed(&early());
        admin.set(POLICIES, &policy);
        assert_eq!(server.left("rate", &early()), 2);
    }
    has_two_left(&server);
}

#[test]
fn a_quota_that_policies_share_begins_anew_for_all_of_them() {
    let (server, admin) = empty();
    let quota = |id: &str, tier: &str, window: &str| json!({"id": id, "orgTier": tier, "limit": 40, "window": window, "timezone": crate::common::noon_zone()});
    for tier in ["free", "pro"] {
        admin.set(&format!("/v1/tiers/{tier}"), &json!({}));
        admin.set(POLICIES, &quota(tier, tier, "day"));
    }
    admin.set("/v1/orgs/acme", &json!({"tier": "free"}));
    admin.set("/v1/orgs/globex", &json!({"tier": "pro"}));
    let three = |org: &str| json!({"orgId": org, "cost": 3});
    server.allowed(&three("acme"));
    server.allowed(&three("globex"));
    admin.set(POLICIES, &quota("free", "free", "month"));
    server.allowed(&three("acme"));
    admin.set(POLICIES, &quota("free", "free", "day"));
    assert_eq!(server.left("free", &json!({"orgId": "acme"})), 34);
    assert_eq!(server.left("pro", &json!({"orgId": "globex"})), 37);
    // A change of plan still keeps what was used.
    server.allowed(&three("acme"));
    admin.set("/v1/orgs/acme", &json!({"tier": "pro"}));
    assert_eq!(server.left("pro", &json!({"orgId": "acme"})), 31);
}

#[test]
fn eras_are_noted_with_the_change_that_begins_them_and_outlive_the_server() {
    let (mut server, admin) = counting_by_window();
    let noted = |admin: &Admin| {
        let rows = admin.items("/v1/audit");
        let mut eras = rows.into_iter().filter(|row| row["kind"] == "eras");
        eras.next()
            .map(|row| (row["revision"].clone(), row["after"].clone()))
    };
    admin.set(POLICIES, &hourly("rate", "*", "org", 9));
    assert_eq!(noted(&admin), None, "another limit begins none");
    let before = admin.changes();
    admin.set(POLICIES, &by_log());
    assert_eq!(admin.changes(), before + 2);
    let (revision, eras) = noted(&admin).unwrap();
    assert_eq!(revision, before + 1);
    assert_eq!(eras["active"], json!({"rate": revision}));
    assert_eq!(eras["pasts"][0]["policy"]["limit"], 9);
    server.restart("KILL");
    let admin = server.platform_admin();
    admin.set(POLICIES, &by_window());
    let (revision, eras) = noted(&admin).unwrap();
    assert_eq!(eras["active"], json!({"rate": revision}));
    let pasts: Vec<&Value> = eras["pasts"].as_array().unwrap().iter().collect();
    let since: Vec<u64> = pasts.iter().map(|past| past["since"].as_u64().unwrap()).collect();
    assert_eq!(since, [0, before + 1]);
}
