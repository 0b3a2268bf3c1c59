//! A fleet on Redis that is restarted node by node, each with a changed policy file: what was used stays used.

use serde_json::{Value, json};

use crate::common::{Launch, Server, file_of};
use crate::servers;

fn asks(cost: u64) -> Value {
    json!({"orgId": "acme", "appId": "web", "endpoint": "GET /a", "cost": cost})
}

fn node(redis: &str, policies: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(policies),
        flags: &["--threads", "1", "--redis", redis],
        ..Launch::default()
    })
}

/// A policy of 100 in a window of which nothing flows back while a test runs.
fn policy(rest: &str) -> String {
    file_of(&[format!("{{id: p, limit: 100, accuracy: exact, {rest}}}")])
}

/// How many of some calls a node lets through.
fn through(node: &Server, times: usize) -> usize {
    let body = asks(1).to_string();
    let asked = (0..times).map(|_| node.check_raw(body.as_str()).status);
    asked.filter(|status| *status == 200).count()
}

fn restarted(node: &mut Server, signal: &str, policies: &str) {
    node.end(signal);
    node.write_policies(policies);
    node.start_again();
}

#[test]
fn a_rolling_restart_gives_a_changed_rate_no_more_room() {
    const BEFORE: &str = "scope: org, algorithm: fixed_window, anchor: first, window: 100d";
    for (number, after) in [
        "scope: org, algorithm: fixed_window, anchor: first, window: 200d",
        "scope: org, algorithm: sliding_window_log, window: 100d",
        "scope: org, algorithm: token_bucket, window: 366d",
        "scope: app, algorithm: fixed_window, anchor: first, window: 100d",
        "scope: org, algorithm: fixed_window, anchor: first, window: 100d, counter: another",
        "scope: org, endpointPattern: \"/*\", algorithm: fixed_window, anchor: first, window: 100d",
    ]
    .iter()
    .enumerate()
    {
        let signal = ["TERM", "KILL"][number % 2];
        let redis = servers::Server::start();
        let mut nodes = [(); 2].map(|()| node(&redis.url(), &policy(BEFORE)));
        assert_eq!(through(&nodes[0], 30) + through(&nodes[1], 40), 70);
        let mut rest = 0;
        for node in &mut nodes {
            restarted(node, signal, &policy(after));
            rest += through(node, 40);
        }
        assert_eq!(rest, 30, "{signal} {after}");
    }
}

#[test]
fn several_rolling_restarts_give_a_rate_no_more_room() {
    for signal in ["TERM", "KILL"] {
        let redis = servers::Server::start();
        let file = |days: usize| {
            policy(&format!(
                "scope: org, algorithm: fixed_window, anchor: first, window: {days}d"
            ))
        };
        let mut nodes = [(); 2].map(|()| node(&redis.url(), &file(100)));
        assert_eq!(through(&nodes[0], 20) + through(&nodes[1], 20), 40);
        let mut rest = 0;
        for (days, times) in [(110, 5), (120, 0), (130, 5), (140, 80)] {
            for node in &mut nodes {
                restarted(node, signal, &file(days));
                rest += through(node, times);
            }
        }
        assert_eq!(rest, 60, "{signal}");
    }
}

/// Envoy's own files, in a directory: another unit is another window. Their counts span orgs, and nobody knows all of
/// the old ones, so the new ones begin as used up, as they do while the servers run.
#[test]
fn a_rolling_restart_gives_a_changed_directory_of_envoys_no_more_room() {
    let limits = |unit: &str| {
        format!(
            "domain: edge\ndescriptors:\n  - key: who\n    rate_limit: {{unit: {unit}, requests_per_unit: 100}}\n"
        )
    };
    let redis = servers::Server::start();
    let start = || {
        Server::launch(&Launch {
            files: &[("limits.yaml", &limits("month"))],
            flags: &["--threads", "1", "--redis", &redis.url(), "--policies", "."],
            ..Launch::default()
        })
    };
    let mut nodes = [start(), start()];
    let question = json!({
        "domain": "edge",
        "descriptors": [{"entries": [{"key": "who", "value": "someone"}]}],
    });
    let through = |node: &Server, times: usize| {
        let asked = (0..times).map(|_| {
            let ask = node.ask("POST", "/json");
            ask.body(question.to_string()).send().status
        });
        asked.filter(|status| *status == 200).count()
    };
    assert_eq!(through(&nodes[0], 35) + through(&nodes[1], 35), 70);
    for node in &mut nodes {
        node.end("TERM");
    }
    let mut rest = 0;
    for node in &mut nodes {
        std::fs::write(node.dir.path().join("limits.yaml"), limits("year")).unwrap();
        node.start_again();
        rest += through(node, 60);
    }
    assert_eq!(rest, 0);
}
