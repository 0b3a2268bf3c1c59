//! What is written on one node is in force on the other.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::server::applied;
use crate::common::{Ask, Launch, Server, file_of, hourly};
use crate::fleet::{
    ORG, POLICY, TOKEN, admin, ask_override, ask_policy, delete, found, intact, journal, node, override_to,
    overrides, policy_named, put_policy, revision, seen, sees, two_nodes, until, write,
};
use crate::postgres::Postgres;

#[test]
fn a_change_on_one_node_decides_on_the_other() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    found(&a, 1_000);
    sees(&b, 1_000);
    let policies = (0..30).map(|n| {
        put_policy(&a, 2_000 + n);
        until("the policy on the other node", || seen(&b) == Some(2_000 + n))
    });
    let policies: Vec<Duration> = policies.collect();
    let overrides = (0..30).map(|n| {
        override_to(&a, 3_000 + n);
        until("the override on the other node", || seen(&b) == Some(3_000 + n))
    });
    let overrides: Vec<Duration> = overrides.collect();
    println!("from the answer on one node to a decision of the other, ms");
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "change", "changes", "min", "median", "p99", "max"
    );
    row("policy", policies);
    row("override", overrides);
    assert_eq!(seen(&a), Some(3_029));
    intact(&b, journal(&b).len() as u64);
}

fn row(change: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let last = times.len() - 1;
    let ms = |index: usize| times[index].as_secs_f64() * 1e3;
    println!(
        "{change:<10} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>8.2}",
        times.len(),
        ms(0),
        ms(last / 2),
        // Of so few it is the largest but for rounding.
        ms((times.len() * 99).div_ceil(100) - 1),
        ms(last)
    );
}

#[test]
fn keys_and_tokens_are_made_and_revoked_for_both_nodes() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    found(&a, 1_000);
    sees(&b, 1_000);
    for (one, other) in [(&a, &b), (&b, &a)] {
        let app = format!("/v1/orgs/{ORG}/apps/app");
        write(one, "PUT", &app, &json!({}));
        let key = admin(one, "POST", &format!("{app}/keys")).send().expect(201);
        let knows = |node: &Server| is_known(node, key["secret"].as_str().unwrap());
        assert!(knows(one), "a key works at once where it was made");
        until("the key on the other node", || knows(other));
        let id = key["keyId"].as_str().unwrap();
        delete(one, &format!("{app}/keys/{id}"));
        assert!(!knows(one), "a revoked key ends at once where it was revoked");
        until("the key's end on the other node", || !knows(other));

        let body = json!({"role": "operator"}).to_string();
        let token = admin(one, "POST", "/v1/tokens").body(body).send().expect(201);
        let secret = token["secret"].as_str().unwrap();
        let opens = |node: &Server| {
            let ask = node.ask_admin("GET", "/v1/tiers");
            let answer = ask.header("authorization", &format!("Bearer {secret}")).send();
            assert!(matches!(answer.status, 200 | 401), "{}", answer.text());
            answer.status == 200
        };
        assert!(opens(one));
        until("the token on the other node", || opens(other));
        delete(one, &format!("/v1/tokens/{}", token["id"].as_str().unwrap()));
        assert!(!opens(one));
        until("the token's end on the other node", || !opens(other));
    }
    intact(&a, journal(&b).len() as u64);
}

/// Whether an API key names an org here. One that nobody knows does not.
fn is_known(node: &Server, secret: &str) -> bool {
    let answer = node.check(&json!({"apiKey": secret, "cost": 0}));
    let known = answer.status == 200
        && answer.json()["limits"]
            .as_array()
            .is_some_and(|limits| limits.iter().any(|limit| limit["policyId"] == POLICY));
    assert!(known || answer.status != 500, "{}", answer.text());
    known
}

#[test]
fn a_write_on_a_node_that_is_behind_succeeds() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    found(&a, 1_000);
    // Nobody waits for anything: the node that writes next has not seen what the other has just written.
    let mut last = 2;
    for n in 0..20 {
        for (node, id) in [(&a, "of-a"), (&b, "of-b"), (&b, POLICY), (&a, POLICY)] {
            let at = write(
                node,
                "PUT",
                "/v1/ratelimit/policies",
                &policy_named(id, 2_000 + n),
            );
            assert_eq!(at, last + 1);
            last = at;
        }
    }
    // And both at the same time.
    let revisions: Vec<u64> = std::thread::scope(|scope| {
        let writers = [&a, &b].map(|node| {
            let asks: Vec<Ask> = (0..20).map(|n| ask_override(node, 3_000 + n)).collect();
            scope.spawn(|| {
                let write = |ask: Ask| {
                    let answer = ask.send();
                    answer.expect(201);
                    revision(&answer)
                };
                asks.into_iter().map(write).collect::<Vec<_>>()
            })
        });
        let mut all: Vec<u64> = writers
            .into_iter()
            .flat_map(|writer| writer.join().unwrap())
            .collect();
        all.sort_unstable();
        all
    });
    assert_eq!(revisions, (last + 1..=last + 40).collect::<Vec<_>>());
    for node in [&a, &b] {
        let rows = journal(node);
        assert_eq!(rows.len() as u64, last + 40);
        intact(node, last + 40);
        let newest = rows.last().unwrap()["after"]["limit"].as_u64().unwrap();
        sees(node, newest);
    }
}

#[test]
fn of_two_writes_on_the_same_state_one_wins() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    found(&a, 1_000);
    let target = format!("/v1/ratelimit/policies/{POLICY}");
    for round in 0..15 {
        let tag = admin(&a, "GET", &target).send();
        let tag = tag.header("etag").expect("an ETag").to_owned();
        let put = |node: &Server, limit: u64| ask_policy(node, limit).header("if-match", &tag);
        let limits = [2_000 + 2 * round, 2_001 + 2 * round];
        let answers = std::thread::scope(|scope| {
            let asks = [put(&a, limits[0]), put(&b, limits[1])];
            let both = asks.map(|ask| scope.spawn(|| ask.send()));
            both.map(|one| one.join().unwrap())
        });
        let won = usize::from(answers[0].status != 200);
        answers[won].expect(200);
        answers[1 - won].problem(412);
        assert_eq!(revision(&answers[won]), round + 3);
        sees(&a, limits[won]);
        sees(&b, limits[won]);
    }
    intact(&a, 17);
    intact(&b, 17);
}

#[test]
fn nodes_that_start_at_the_same_moment_share_an_empty_database() {
    let postgres = Postgres::start();
    for _ in 0..3 {
        let database = postgres.create();
        let [a, b] = two_nodes(&database);
        for node in [&a, &b] {
            let ready: Value = node.ask_admin("GET", "/readyz").send().expect(200);
            assert_eq!(ready["catalogue"], "postgres");
        }
        found(&a, 1_000);
        sees(&b, 1_000);
        // One that comes later has it all from the first moment on.
        let late = node(&database);
        assert_eq!(seen(&late), Some(1_000));
        let known = admin(&late, "GET", "/v1/orgs").send().expect(200);
        assert_eq!(known["items"][0]["orgId"], ORG);
        intact(&b, 2);
    }
}

#[test]
fn what_does_not_fit_on_a_node_holds_nothing_else_up() {
    let postgres = Postgres::start();
    let database = postgres.create();
    let a = node(&database);
    found(&a, 1_000);
    // The policy is another one here: it is the file's.
    let b = Server::launch(&Launch {
        policies: Some(&file_of(&[hourly(POLICY, "key", 10, "")])),
        flags: &["--database", &database, "--admin-token", TOKEN],
        ..Launch::default()
    });
    let applied_on_b = || {
        let decision = b.allowed(&json!({"orgId": ORG, "cost": 0}));
        applied(&decision).concat()
    };
    assert_eq!(applied_on_b(), "");
    // Both at once for this node, of which one does not fit.
    b.signal("STOP");
    let body = json!({"policyId": POLICY, "scope": "org", "limit": 7}).to_string();
    let change = admin(&a, "POST", &overrides()).body(body).send().expect(201);
    let other = policy_named("other", 2_000);
    write(&a, "PUT", "/v1/ratelimit/policies", &other);
    b.signal("CONT");
    b.logs("does not fit this node's policy file");
    until("the policy that fits", || applied_on_b() == "other");
    let id = change["id"].as_str().unwrap();
    delete(&a, &format!("{}/{id}", overrides()));
    until("the override to be forgotten", || {
        b.ask_admin("GET", "/readyz").send().expect(200)["leftOutCount"] == 0
    });
    assert_eq!(applied_on_b(), "other");
}
