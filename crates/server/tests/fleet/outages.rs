//! Redis is away: each limit does as its `failMode` says.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Answer, Launch, Server, wait_for};
use crate::load::{ORG, hammer, node, nodes};
use crate::servers;

fn policy(fail_mode: &str) -> String {
    format!(
        "{{id: p, scope: org, algorithm: fixed_window, limit: 1000, window: 366d, failMode: {fail_mode}}}"
    )
}

#[test]
fn closed_answers_503() {
    let mut redis = servers::Server::start();
    let [node] = nodes::<1>(&[policy("closed")], &redis.url());
    node.allowed(&json!({"orgId": ORG}));
    redis.kill();
    let away = hammer(&[&node], "p", |tally| tally.unavailable > 20);
    assert!(away.allowed <= 50, "only what was on lease: {away:?}");
    redis.start_again();
    wait_for("Redis to be used again", || {
        (node.check(&json!({"orgId": ORG})).status != 503).then_some(())
    });
}

#[test]
fn open_lets_everything_through_and_says_so() {
    let mut redis = servers::Server::start();
    let [node] = nodes::<1>(&[policy("open")], &redis.url());
    node.allowed(&json!({"orgId": ORG}));
    redis.kill();
    let away = hammer(&[&node], "p", |tally| tally.degraded > 2_000);
    assert_eq!((away.denied, away.unavailable), (0, 0), "{away:?}");
    assert!(node.counted("tollgate_fallback_decisions_total{region=\"local\"}") > 1_000);
    assert_eq!(node.counted("tollgate_fallback_active{region=\"local\"}"), 1);
}

#[test]
fn local_admits_seven_tenths_of_a_share_and_settles_later() {
    let redis = servers::Server::start();
    let [first, second] = nodes::<2>(&[policy("local")], &redis.url());
    // Both have heard of each other, so that each knows its share.
    for node in [&first, &second] {
        wait_for("both nodes to be known", || {
            (node.counted("tollgate_fleet_nodes{region=\"local\"}") == 2).then_some(())
        });
    }
    redis.pause();
    let away = hammer(&[&first], "p", |tally| tally.denied > 50);
    assert!(away.degraded > 0, "{away:?}");
    assert!(away.allowed <= 350, "seven tenths of a half: {away:?}");
    redis.resume();
    wait_for("Redis to be used again", || {
        (first.counted("tollgate_fallback_active{region=\"local\"}") == 0).then_some(())
    });
    // What was let through without it is charged, so that the rest is no more than what is left.
    wait_for("what was let through to be charged", || {
        let left = second.left("p", &json!({"orgId": ORG, "cost": 0}));
        (left <= 1_000 - away.allowed).then_some(())
    });
    let after = hammer(&[&first, &second], "p", |tally| tally.denied > 50);
    assert!(away.allowed + after.allowed <= 1_000, "{away:?} {after:?}");
}

#[test]
fn a_silent_redis_costs_no_more_than_its_deadline() {
    let redis = servers::Server::start();
    let exact = policy("open").replace("limit: 1000", "limit: 1000, accuracy: exact");
    let file = format!("policies:\n  - {exact}\n");
    let [hasty, patient] = [&["--redis-deadline", "2"][..], &[]].map(|flags| {
        Server::launch(&Launch {
            policies: Some(&file),
            flags: &[&["--redis", &redis.url(), "--threads", "1"], flags].concat(),
            ..Launch::default()
        })
    });
    let body = json!({"orgId": ORG}).to_string();
    let ask = |node: &Server| node.ask("POST", "/v1/check").body(body.clone());
    let is_degraded = |answer: Answer| answer.expect(200)["degraded"] == true;
    let (mut quick, mut slow) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..5 {
        for node in [&hasty, &patient] {
            wait_for("Redis to be used", || {
                (!is_degraded(ask(node).send())).then_some(())
            });
        }
        redis.pause();
        let [first, second] = [&hasty, &patient].map(|node| {
            let ask = ask(node);
            std::thread::spawn(move || {
                let asked = Instant::now();
                (ask.send(), asked.elapsed())
            })
        });
        let [(first, hasted), (second, waited)] = [first.join().unwrap(), second.join().unwrap()];
        redis.resume();
        assert!(is_degraded(first) && is_degraded(second));
        quick += hasted;
        slow += waited;
    }
    assert!(quick * 2 < slow, "{quick:?} and {slow:?}");
}

#[test]
fn a_node_starts_without_redis_and_joins_it_later() {
    let mut redis = servers::Server::start();
    redis.kill();
    let file = format!("policies:\n  - {}\n", policy("closed"));
    let node = node(&file, &redis.url());
    assert_eq!(node.check(&json!({"orgId": ORG})).status, 503);
    redis.start_again();
    wait_for("Redis to be used", || {
        (node.check(&json!({"orgId": ORG})).status == 200).then_some(())
    });
}

#[test]
fn an_evicting_redis_is_refused() {
    let redis = servers::Server::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let data = tempfile::tempdir().unwrap();
    let told = crate::common::run(&[
        "serve",
        "--redis",
        &redis.url(),
        "--http",
        "127.0.0.1:0",
        "--data-dir",
        data.path().to_str().unwrap(),
        "--admin-token",
        "known, so that it need not be told",
    ]);
    let told = told.complaint(2);
    assert!(
        told.contains("allkeys-lru") && told.contains("noeviction"),
        "{told}"
    );
}
