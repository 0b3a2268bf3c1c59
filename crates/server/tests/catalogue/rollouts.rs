//! A rollout is the same on every node, and stays what it is without the database.

use serde_json::{Value, json};

use crate::common::Server;
use crate::fleet::{
    ORG, POLICY, admin, delete, intact, journal, node, policy, put_policy, seen, two_nodes, until, write,
};
use crate::postgres::Postgres;

const ROLLOUTS: &str = "/v1/ratelimit/rollouts";

/// The orgs among the first five hundred that a node decides by another limit than before.
fn chosen(node: &Server, limit: u64) -> Vec<usize> {
    let requests: Vec<Value> = (0..500)
        .map(|org| json!({"orgId": format!("org-{org}"), "cost": 0}))
        .collect();
    let batch = node.ask("POST", "/v1/check/batch");
    let batch = batch.body(json!({"requests": requests}).to_string());
    let answer = batch.send().expect(200);
    let decisions = answer["decisions"].as_array().unwrap();
    let by_limit = |decision: &Value| {
        let limits = decision["limits"].as_array().unwrap();
        let of_policy = limits.iter().find(|one| one["policyId"] == POLICY);
        of_policy.is_some_and(|one| one["limit"] == limit)
    };
    let numbered = decisions.iter().enumerate();
    let chosen = numbered.filter(|(_, decision)| by_limit(decision));
    chosen.map(|(org, _)| org).collect()
}

fn rollout(percent: u64) -> Value {
    json!({"id": "summer", "percent": percent, "policies": [policy(1)]})
}

fn close(node: &Server, id: &str, how: &str) {
    let answer = admin(node, "POST", &format!("{ROLLOUTS}/{id}/{how}")).send();
    answer.expect(200);
}

#[test]
fn all_nodes_decide_the_same_orgs_by_the_candidate() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    put_policy(&a, 1_000);
    // Some of the orgs are known to the catalogue, some are not.
    for org in 0..40 {
        write(&a, "PUT", &format!("/v1/orgs/org-{org}"), &json!({}));
    }
    write(&a, "POST", ROLLOUTS, &rollout(30));
    let by_candidate = chosen(&a, 1);
    assert!((100..200).contains(&by_candidate.len()), "{by_candidate:?}");
    until("the rollout on the other node", || chosen(&b, 1) == by_candidate);
    write(&b, "PUT", &format!("{ROLLOUTS}/summer"), &rollout(60));
    let more = chosen(&b, 1);
    assert!(more.len() > by_candidate.len());
    assert!(by_candidate.iter().all(|org| more.contains(org)));
    until("the larger share on the first", || chosen(&a, 1) == more);

    // On the other node one is open, too.
    let other = json!({"id": "winter", "policies": [policy(2)]}).to_string();
    let refused = admin(&b, "POST", ROLLOUTS).body(other.clone()).send();
    assert!(refused.problem(409).contains("`summer` is open"));
    close(&b, "summer", "rollback");
    until("the end of it on the first", || chosen(&a, 1_000).len() == 500);
    admin(&a, "POST", ROLLOUTS).body(other).send().expect(201);
    close(&a, "winter", "promote");
    assert_eq!(chosen(&a, 2).len(), 500);
    until("the promotion on the other", || chosen(&b, 2).len() == 500);
    delete(&b, &format!("{ROLLOUTS}/summer"));
    intact(&b, journal(&b).len() as u64);
}

#[test]
fn a_way_of_counting_that_comes_back_is_another_count_on_every_node() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    let caller = |cost: u64| json!({"orgId": ORG, "cost": cost});
    put_policy(&a, 1_000);
    until("the policy on the other node", || seen(&b) == Some(1_000));
    b.allowed(&caller(3));
    let log = json!({"id": POLICY, "algorithm": "sliding_window_log", "limit": 999, "window": "1h"});
    write(&a, "PUT", "/v1/ratelimit/policies", &log);
    until("another way to count on the other", || seen(&b) == Some(999));
    b.allowed(&caller(2));
    put_policy(&a, 1_000);
    until("the first way on the other", || seen(&b) == Some(1_000));
    // What the log left of its own, which began with what the window had left.
    assert_eq!(b.left(POLICY, &caller(0)), 995);
    // By a rollout it is the same, and what comes back with it.
    let mut rollout = rollout(100);
    rollout["policies"] = json!([log]);
    write(&a, "POST", ROLLOUTS, &rollout);
    until("the candidate on the other", || seen(&b) == Some(999));
    b.allowed(&caller(5));
    close(&a, "summer", "rollback");
    until("its end on the other", || seen(&b) == Some(1_000));
    assert_eq!(b.left(POLICY, &caller(0)), 990);
    b.allowed(&caller(10));
    rollout["id"] = json!("again");
    write(&a, "POST", ROLLOUTS, &rollout);
    until("the candidate on the other", || seen(&b) == Some(999));
    assert_eq!(b.left(POLICY, &caller(0)), 980);
}

#[test]
fn a_node_that_starts_without_its_database_goes_on_with_the_rollout() {
    let mut postgres = Postgres::start();
    let mut a = node(&postgres.create());
    put_policy(&a, 1_000);
    let last = write(&a, "POST", ROLLOUTS, &rollout(30));
    let before = chosen(&a, 1);
    let file = a.data("catalogue.snapshot");
    until("the file to be up to date", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.ends_with(&format!("[{last}]\n"))
    });
    postgres.kill();
    a.restart("KILL");
    assert_eq!(a.counted("tollgate_catalogue_from_disk"), 1);
    assert_eq!(chosen(&a, 1), before);
    assert_eq!(a.counted("tollgate_rollout_percent"), 30);
}
