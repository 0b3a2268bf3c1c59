//! What a fallback let through is charged to a count that began with a policy change: that count has no more room than
//! the one before it had left.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Server, file_of, wait_for};
use crate::load::{ORG, nodes};
use crate::servers;

const LIMIT: u64 = 100;

fn policy(rest: &str) -> String {
    format!("{{id: p, limit: {LIMIT}, accuracy: exact, {rest}}}")
}

/// How many of so many checks were let through: by Redis, and by a fallback.
fn admitted(node: &Server, checks: u64) -> (u64, u64) {
    let body = json!({"orgId": ORG, "appId": "web"});
    let answers = (0..checks)
        .map(|_| node.check(&body))
        .filter(|answer| answer.status == 200);
    let answers: Vec<Value> = answers.map(|answer| answer.json()).collect();
    let degraded = answers.iter().filter(|answer| answer["degraded"] == true).count() as u64;
    (answers.len() as u64 - degraded, degraded)
}

/// How many calls of a node were answered.
fn answered(node: &Server) -> u64 {
    let series = |result| format!("tollgate_store_calls_total{{region=\"local\",result=\"{result}\"}}");
    node.counted(&series("ok")) + node.counted(&series("late"))
}

/// When Redis falls silent.
#[derive(PartialEq)]
enum Silent {
    /// After the change: the request that a fallback decides has sent its call.
    AfterChange,
    /// Before it, and nodes know: no call is sent.
    BeforeChange,
}

/// Uses a limit up, changes the policy, has one request decided while Redis says nothing, and asks for more.
fn nothing_is_left(before: &str, after: &str, silent: &Silent) {
    let redis = servers::Server::start();
    let nodes = nodes::<2>(&[policy(before)], &redis.url());
    let (by_redis, by_fallback) = admitted(&nodes[0], LIMIT + 50);
    assert!(by_redis + by_fallback >= LIMIT, "{by_redis} and {by_fallback}");
    let falls_back = |expected: u64| {
        for node in &nodes {
            wait_for("fallbacks to begin or end", || {
                (node.counted("tollgate_fallback_active{region=\"local\"}") == expected).then_some(())
            });
        }
    };
    if *silent == Silent::BeforeChange {
        redis.pause();
        falls_back(1);
    }
    for node in &nodes {
        node.reload(&file_of(&[policy(after)]));
    }
    if *silent == Silent::AfterChange {
        redis.pause();
    }
    let known = answered(&nodes[0]) + u64::from(*silent == Silent::AfterChange);
    let alone = admitted(&nodes[0], 1);
    redis.resume();
    assert_eq!(alone, (0, 1), "a fallback decides");
    falls_back(0);
    // The trap is set as soon as what was let through is charged: by a call of its own, or with the next request.
    let began = Instant::now();
    while answered(&nodes[0]) <= known && began.elapsed() < Duration::from_secs(2) {}
    for node in &nodes {
        let (by_redis, by_fallback) = admitted(node, LIMIT + 50);
        println!("{after}: {by_redis} by Redis, {by_fallback} by fallback");
        assert_eq!(by_redis, 0, "all of the limit was used: {before}, then {after}");
    }
}

#[test]
fn of_another_window() {
    nothing_is_left(
        "scope: org, algorithm: fixed_window, window: 366d",
        "scope: org, algorithm: fixed_window, window: 365d",
        &Silent::AfterChange,
    );
}

#[test]
fn of_another_algorithm() {
    nothing_is_left(
        "scope: org, algorithm: fixed_window, window: 366d",
        "scope: org, algorithm: token_bucket, window: 366d",
        &Silent::AfterChange,
    );
}

#[test]
fn of_another_slot() {
    nothing_is_left(
        "scope: org, algorithm: fixed_window, window: 366d",
        "scope: global, algorithm: fixed_window, window: 366d",
        &Silent::BeforeChange,
    );
}

#[test]
fn where_everything_is_let_through() {
    nothing_is_left(
        "scope: org, algorithm: fixed_window, window: 366d, failMode: open",
        "scope: app, algorithm: sliding_window_log, window: 366d, failMode: open",
        &Silent::BeforeChange,
    );
}

/// Two nodes, of which one lets half of a limit through while Redis says nothing. The policy changes, and the other node is the
/// first to ask for the new count, while the first can't report yet.
fn a_late_report_counts(before: &str, after: &str) {
    let redis = servers::Server::start();
    let [late, first] = nodes::<2>(&[policy(before)], &redis.url());
    let falls_back = |node: &Server, expected: u64| {
        wait_for("fallbacks to begin or end", || {
            (node.counted("tollgate_fallback_active{region=\"local\"}") == expected).then_some(())
        });
    };
    redis.pause();
    falls_back(&late, 1);
    falls_back(&first, 1);
    assert_eq!(admitted(&late, LIMIT / 2), (0, LIMIT / 2), "a fallback decides");
    for node in [&late, &first] {
        node.reload(&file_of(&[policy(after)]));
    }
    late.signal("STOP");
    redis.resume();
    falls_back(&first, 0);
    assert_eq!(admitted(&first, 1), (1, 0), "the new count is in use");
    let known = {
        late.signal("CONT");
        answered(&late)
    };
    falls_back(&late, 0);
    wait_for("the report", || (answered(&late) > known).then_some(()));
    // A denial is remembered by whoever was denied, an allowance by nobody: all that is left is found by asking.
    let (by_redis, by_fallback) = admitted(&first, LIMIT + 50);
    assert_eq!(
        (by_redis, by_fallback),
        (LIMIT / 2 - 1, 0),
        "{before}, then {after}"
    );
    assert_eq!(admitted(&late, 50), (0, 0), "{before}, then {after}");
}

#[test]
fn that_is_reported_after_another_window_has_begun() {
    a_late_report_counts(
        "scope: org, algorithm: fixed_window, window: 366d, failMode: open",
        "scope: org, algorithm: fixed_window, window: 365d, failMode: open",
    );
}

#[test]
fn that_is_reported_after_another_scope_has_begun() {
    a_late_report_counts(
        "scope: org, algorithm: sliding_window_log, window: 366d, failMode: open",
        "scope: app, algorithm: token_bucket, window: 366d, failMode: open",
    );
}

#[test]
fn that_is_reported_after_another_counter_has_begun() {
    a_late_report_counts(
        "scope: org, algorithm: token_bucket, window: 366d, failMode: open",
        "scope: org, algorithm: token_bucket, window: 366d, counter: other, failMode: open",
    );
}
