//! A Redis that begins to evict keys while it is in use: it may forget counters, so that it is not used meanwhile.

use serde_json::json;

use crate::common::{Launch, Server, file_of, wait_for};
use crate::load::{ORG, node};
use crate::servers;

const LIMIT: u64 = 10;

fn policies() -> String {
    file_of(&[format!(
        "{{id: p, scope: org, algorithm: fixed_window, limit: {LIMIT}, window: 366d, accuracy: exact, failMode: closed}}"
    )])
}

fn evicts(node: &Server) -> u64 {
    node.counted("tollgate_store_evicts{region=\"local\"}")
}

fn status(node: &Server) -> u16 {
    node.check(&json!({"orgId": ORG, "cost": 0})).status
}

/// Switches eviction on, and waits until it is noticed.
fn begin(redis: &servers::Server, node: &Server) {
    redis.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    wait_for("eviction to be noticed", || (evicts(node) == 1).then_some(()));
    assert_eq!(status(node), 503, "as while Redis is unavailable");
    let ready = node.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(
        (&ready["store"], &ready["storeTrouble"]),
        (&json!("away"), &json!("evicts"))
    );
    let server = &node.platform_admin().get("/v1/fleet").expect(200)["store"]["servers"][0];
    assert_eq!(server["evicts"], true);
    assert!(
        server["trouble"].as_str().unwrap().contains("allkeys-lru"),
        "{server}"
    );
    node.logs("allkeys-lru");
}

/// Switches it off, and waits until Redis is used again.
fn end(redis: &servers::Server, node: &Server) {
    redis.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.ok(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    wait_for("Redis to be used again", || {
        (evicts(node) == 0 && status(node) != 503).then_some(())
    });
    let ready = node.ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(
        (&ready["store"], &ready["storeTrouble"]),
        (&json!("redis"), &json!(null))
    );
}

#[test]
fn counters_that_were_not_evicted_go_on() {
    let redis = servers::Server::start();
    let node = node(&policies(), &redis.url());
    node.allowed(&json!({"orgId": ORG, "cost": 4}));
    begin(&redis, &node);
    end(&redis, &node);
    node.denied(&json!({"orgId": ORG, "cost": LIMIT - 3}));
    node.allowed(&json!({"orgId": ORG, "cost": LIMIT - 4}));
}

#[test]
fn counters_that_were_evicted_count_as_used_up() {
    let redis = servers::Server::start();
    let node = node(&policies(), &redis.url());
    node.allowed(&json!({"orgId": ORG, "cost": 4}));
    begin(&redis, &node);
    let before = redis.run(&["KEYS", "tg:local:{acme}:*"]);
    assert!(!before.is_empty());
    redis.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    wait_for("all keys to be evicted", || {
        redis.run(&["SET", "more", "memory"]);
        (redis.run(&["KEYS", "tg:local:{acme}:*"]).is_empty()).then_some(())
    });
    end(&redis, &node);
    node.denied(&json!({"orgId": ORG, "cost": 1}));
    node.denied(&json!({"orgId": "globex", "cost": 1}));
}

#[test]
fn an_operator_may_allow_it() {
    let redis = servers::Server::start();
    let node = Server::launch(&Launch {
        policies: Some(&policies()),
        flags: &["--redis", &redis.url(), "--redis-allow-eviction"],
        ..Launch::default()
    });
    node.allowed(&json!({"orgId": ORG, "cost": 4}));
    redis.ok(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    wait_for("eviction to be noticed", || (evicts(&node) == 1).then_some(()));
    node.logs("volatile-lru");
    node.allowed(&json!({"orgId": ORG, "cost": LIMIT - 4}));
    node.denied(&json!({"orgId": ORG, "cost": 1}));
}
