//! `/v1/ratelimit/rollouts`: an old and a new policy set side by side, from the first trial to the end.

use serde_json::{Value, json};
use tollgate_catalog::model::Share;

use crate::common::server::{applied, limit};
use crate::common::{Admin, Server};
use crate::{POLICIES, ROLLOUTS, golden, hourly};

/// Chosen by the rollout `summer` from 12 percent on.
pub(crate) fn early() -> Value {
    json!({"orgId": "acme"})
}

/// Chosen from 93 percent on, and not known to the catalogue.
fn late() -> Value {
    json!({"orgId": "globex"})
}

/// The rollout `summer` with one policy.
pub(crate) fn summer(percent: u64, policy: &Value) -> Value {
    json!({"id": "summer", "percent": percent, "policies": [policy]})
}

pub(crate) fn close(admin: &Admin, how: &str) -> Value {
    admin
        .post(&format!("{ROLLOUTS}/summer/{how}"), &json!({}))
        .expect(200)
}

/// A server with a policy of all orgs: three calls in an hour.
fn for_all() -> (Server, Admin) {
    let (server, admin) = golden();
    admin.set(POLICIES, &hourly("rate", "*", "org", 3));
    admin.remove(&format!("{POLICIES}/gold-org"));
    (server, admin)
}

#[test]
fn a_candidate_is_tried_widened_and_promoted() {
    let (server, admin) = for_all();
    let tighter = hourly("rate", "*", "org", 1);
    let made = admin.post(ROLLOUTS, &summer(0, &tighter));
    let mut shown = summer(0, &tighter);
    shown["removes"] = json!([]);
    shown["state"] = json!("open");
    assert_eq!(made.expect(201), shown);
    assert_eq!(admin.get(&format!("{ROLLOUTS}/summer")).expect(200), shown);
    assert_eq!(admin.items(ROLLOUTS), [shown]);

    // Tried: nobody is refused, and it is told and counted who would be.
    let series =
        "tollgate_decisions_total{outcome=\"would_deny\",scope=\"org\",tier=\"gold\",class=\"none\"}";
    let first = server.allowed(&early());
    assert_eq!(applied(&first), ["rate", "rate@summer"]);
    assert_eq!(limit(&first, "rate@summer")["violated"], false);
    let answer = server.check(&early());
    let second = answer.expect(200);
    assert_eq!(limit(&second, "rate@summer")["violated"], true);
    assert_eq!(limit(&second, "rate@summer")["mode"], "shadow");
    assert_eq!(
        limit(&second, "rate")["remaining"],
        1,
        "the count in force is its own"
    );
    assert_eq!(server.counted(series), 1);
    assert_eq!(
        answer.header("x-ratelimit-limit"),
        Some("3"),
        "clients see what is in force"
    );
    assert!(!answer.header("ratelimit").unwrap().contains("summer"));

    // Widened: whoever is chosen is decided by it, and keeps what it has used.
    admin.set(&format!("{ROLLOUTS}/summer"), &summer(30, &tighter));
    let refused = server.denied(&early());
    assert_eq!(refused["policyId"], "rate");
    assert_eq!(applied(&refused), ["rate"]);
    server.allowed(&late());
    assert_eq!(limit(&server.allowed(&late()), "rate@summer")["violated"], true);
    assert_eq!(server.counted("tollgate_rollout_open"), 1);
    assert_eq!(server.counted("tollgate_rollout_percent"), 30);

    // Promoted: all are.
    let closed = close(&admin, "promote");
    assert_eq!(
        (&closed["state"], &closed["percent"]),
        (&json!("promoted"), &json!(30))
    );
    server.denied(&late());
    assert_eq!(applied(&server.denied(&early())), ["rate"]);
    assert_eq!(admin.get(&format!("{POLICIES}/rate")).expect(200), tighter);
    assert_eq!(admin.items(ROLLOUTS), [closed]);
    assert_eq!(server.counted("tollgate_rollout_open"), 0);
    assert_eq!(server.counted("tollgate_rollout_percent"), 0);
}

#[test]
fn rolled_back_the_active_set_decides_at_once_and_nothing_of_it_was_changed() {
    let (server, admin) = for_all();
    let policies = admin.get(POLICIES).expect(200);
    let mut rollout = summer(100, &hourly("shut", "*", "org", 0));
    rollout["removes"] = json!(["rate"]);
    admin.post(ROLLOUTS, &rollout).expect(201);
    assert_eq!(server.denied(&late())["policyId"], "shut");
    assert_eq!(server.denied(&early())["policyId"], "shut");
    let reset = json!({"policyId": "shut", "reason": "counters of a candidate are counters"});
    admin.post("/v1/orgs/acme/ratelimit/reset", &reset).expect(200);
    let closed = close(&admin, "rollback");
    assert_eq!(closed["state"], "rolledBack");
    assert_eq!(applied(&server.allowed(&late())), ["rate"]);
    assert_eq!(applied(&server.allowed(&early())), ["rate"]);
    assert_eq!(admin.get(POLICIES).expect(200), policies);
}

/// The orgs among the first thousand that are refused, in one batch.
fn refused(server: &Server) -> Vec<String> {
    let orgs: Vec<String> = (0..1_000).map(|org| format!("org-{org}")).collect();
    let requests: Vec<Value> = orgs.iter().map(|org| json!({"orgId": org})).collect();
    let batch = server.ask("POST", "/v1/check/batch");
    let batch = batch.body(json!({"requests": requests}).to_string());
    let decisions = batch.send().expect(200);
    let decisions = decisions["decisions"].as_array().unwrap();
    let refused = orgs
        .into_iter()
        .zip(decisions)
        .filter(|(_, one)| one["allowed"] == false);
    refused.map(|(org, _)| org).collect()
}

#[test]
fn a_share_of_the_orgs_is_refused_and_a_larger_one_adds_to_it() {
    let (server, admin) = golden();
    let shut = hourly("shut", "*", "org", 0);
    admin.post(ROLLOUTS, &summer(0, &shut)).expect(201);
    assert_eq!(refused(&server), [""; 0]);
    let mut before = Vec::new();
    for percent in [30, 60, 100] {
        admin.set(&format!("{ROLLOUTS}/summer"), &summer(u64::from(percent), &shut));
        let share = Share {
            rollout: "summer".to_owned(),
            percent,
        };
        let now = refused(&server);
        let chosen = (0..1_000).map(|org| format!("org-{org}"));
        let chosen: Vec<String> = chosen.filter(|org| share.includes(Some(org))).collect();
        assert_eq!(now, chosen);
        assert!(
            now.len().abs_diff(usize::from(percent) * 10) < 80,
            "{} refused",
            now.len()
        );
        assert!(before.iter().all(|org| now.contains(org)));
        before = now;
    }
    admin.set(&format!("{ROLLOUTS}/summer"), &summer(10, &shut));
    assert!(refused(&server).len() < 180);
}

#[test]
fn another_way_to_count_admits_no_more_on_the_way_there_or_back() {
    let (server, admin) = for_all();
    server.allowed(&early());
    server.allowed(&early());
    let mut log = hourly("rate", "*", "org", 3);
    log["algorithm"] = json!("sliding_window_log");
    log.as_object_mut().unwrap().remove("anchor");
    admin.post(ROLLOUTS, &summer(50, &log)).expect(201);
    let last = server.allowed(&early());
    assert_eq!(limit(&last, "rate")["remaining"], 0);
    server.denied(&early());
    close(&admin, "rollback");
    server.denied(&early());

    // And what was used under the candidate only is counted, too.
    let other = json!({"orgId": "org-1"});
    let mut again = summer(100, &log);
    again["id"] = json!("again");
    admin.post(ROLLOUTS, &again).expect(201);
    server.allowed(&other);
    server.allowed(&other);
    admin
        .post(&format!("{ROLLOUTS}/again/rollback"), &json!({}))
        .expect(200);
    assert_eq!(server.left("rate", &other), 1);
    // Promoted, who was never chosen carries over what it has used.
    let never = json!({"orgId": "org-2"});
    server.allowed(&never);
    server.allowed(&never);
    again["id"] = json!("at-last");
    again["percent"] = json!(0);
    admin.post(ROLLOUTS, &again).expect(201);
    admin
        .post(&format!("{ROLLOUTS}/at-last/promote"), &json!({}))
        .expect(200);
    assert_eq!(server.left("rate", &never), 1);
    server.allowed(&never);
    server.denied(&never);
}

#[test]
fn an_override_holds_whichever_set_decides() {
    let (server, admin) = for_all();
    let overrides = "/v1/orgs/acme/ratelimit/overrides";
    admin
        .post(overrides, &json!({"policyId": "rate", "limit": 5}))
        .expect(201);
    admin
        .post(ROLLOUTS, &summer(0, &hourly("rate", "*", "org", 1)))
        .expect(201);
    for _ in 0..4 {
        let decision = server.allowed(&early());
        assert_eq!(limit(&decision, "rate@summer")["violated"], false);
    }
    admin.set(
        &format!("{ROLLOUTS}/summer"),
        &summer(100, &hourly("rate", "*", "org", 1)),
    );
    assert_eq!(server.left("rate", &early()), 1);
    // Made while it is open it holds too, at once.
    admin
        .post(overrides, &json!({"policyId": "rate", "limit": 9}))
        .expect(201);
    assert_eq!(server.left("rate", &early()), 5);
}

#[test]
fn it_is_told_which_set_decides_though_not_to_tenants() {
    let (server, admin) = for_all();
    let effective = "/v1/orgs/acme/ratelimit/policies";
    assert_eq!(admin.get(effective).expect(200)["rollout"], Value::Null);
    admin
        .post(ROLLOUTS, &summer(0, &hourly("rate", "*", "org", 1)))
        .expect(201);
    let explain = |admin: &Admin| admin.post("/v1/ratelimit/explain", &early()).expect(200);
    for (percent, set, ids) in [
        (11, "active", vec!["rate", "rate@summer"]),
        (12, "candidate", vec!["rate"]),
    ] {
        admin.set(
            &format!("{ROLLOUTS}/summer"),
            &summer(percent, &hourly("rate", "*", "org", 1)),
        );
        let side = json!({"id": "summer", "percent": percent, "set": set});
        let shown = admin.get(effective).expect(200);
        assert_eq!(shown["rollout"], side);
        let items = shown["items"].as_array().unwrap();
        let shown: Vec<&str> = items
            .iter()
            .map(|item| item["policyId"].as_str().unwrap())
            .collect();
        assert_eq!(shown, ids);
        let explained = explain(&admin);
        assert_eq!(explained["rollout"], side);
        assert_eq!(explained["applied"].as_array().unwrap().len(), ids.len());
    }
    admin.set(
        &format!("{ROLLOUTS}/summer"),
        &summer(11, &hourly("rate", "*", "org", 1)),
    );
    let from = &explain(&admin)["applied"][1]["from"];
    assert_eq!(
        from,
        "candidate of the rollout summer, tried: policy for every tier"
    );
    for role in ["tenant-admin", "tenant-viewer"] {
        let seen = admin.with_role(role, Some("acme")).get(effective).expect(200);
        assert!(!seen.to_string().contains("summer"), "{seen}");
        assert_eq!(seen["items"].as_array().unwrap().len(), 1);
    }
    let token = std::fs::read_to_string(server.data("admin-token")).unwrap();
    let address = format!("http://{}", server.admin);
    let said = crate::common::run(&[
        "explain",
        "--org",
        "acme",
        "--admin",
        &address,
        "--admin-token",
        token.trim(),
    ]);
    assert!(
        said.stdout
            .contains("decided by the active set of the rollout summer (11 %)"),
        "{}",
        said.stdout
    );
}

#[test]
fn a_rollout_survives_the_end_of_the_server() {
    let (mut server, admin) = for_all();
    admin
        .post(ROLLOUTS, &summer(50, &hourly("rate", "*", "org", 1)))
        .expect(201);
    let before = admin.get(ROLLOUTS).expect(200);
    for signal in ["TERM", "KILL"] {
        server.restart(signal);
        let admin = server.platform_admin();
        assert_eq!(admin.get(ROLLOUTS).expect(200), before);
        assert_eq!(limit(&server.allowed(&early()), "rate")["limit"], 1);
        assert_eq!(applied(&server.allowed(&late())), ["rate", "rate@summer"]);
    }
    let admin = server.platform_admin();
    close(&admin, "promote");
    server.restart("KILL");
    assert_eq!(applied(&server.allowed(&late())), ["rate"]);
    assert_eq!(server.left("rate", &late()), 0);
}
