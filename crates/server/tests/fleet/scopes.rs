//! A policy that comes to count more or fewer together, on one node and on Redis.

use serde_json::{Value, json};

use crate::common::{Launch, Server};
use crate::load::ORG;
use crate::servers;

const LIMIT: u64 = 10;

fn node(flags: &[&str]) -> Server {
    Server::launch(&Launch {
        policies: Some("policies: []"),
        flags,
        ..Launch::default()
    })
}

fn put(node: &Server, scope: &str, algorithm: &str) {
    let policy = json!({
        "id": "p", "scope": scope, "algorithm": algorithm, "limit": LIMIT, "window": "366d", "failMode": "closed",
        "accuracy": "exact",
    });
    node.platform_admin().set("/v1/ratelimit/policies", &policy);
}

fn asks(app: &str, cost: u64) -> Value {
    json!({"orgId": ORG, "appId": app, "cost": cost})
}

/// What is let through before and after, whichever way the limit counts.
fn scopes_change(flags: &[&str]) {
    for algorithm in [
        "token_bucket",
        "leaky_bucket",
        "fixed_window",
        "sliding_window_log",
        "sliding_window_counter",
    ] {
        // A fleet of one node each.
        let node = node(&[flags, &["--region", algorithm]].concat());
        node.platform_admin().set(&format!("/v1/orgs/{ORG}"), &json!({}));
        put(&node, "app", algorithm);
        node.allowed(&asks("a", LIMIT));
        // What other apps have used is not known to this one: everything may be.
        put(&node, "org", algorithm);
        node.denied(&asks("b", 1));
        node.denied(&asks("a", 1));
        // An operator who knows better may empty it.
        let emptied = json!({"policyId": "p", "reason": "counts by org from now on"});
        let target = format!("/v1/orgs/{ORG}/ratelimit/reset");
        node.platform_admin().post(&target, &emptied).expect(200);
        node.allowed(&asks("b", 7));
        // What the org has left is the most that each app begins with.
        put(&node, "app", algorithm);
        node.denied(&asks("a", 4));
        node.allowed(&asks("a", 3));
        node.denied(&asks("a", 1));
        node.allowed(&asks("b", 3));
        node.denied(&asks("b", 1));
    }
}

#[test]
fn on_one_node() {
    scopes_change(&[]);
}

#[test]
fn on_redis() {
    let redis = servers::Server::start();
    scopes_change(&["--redis", &redis.url()]);
}
