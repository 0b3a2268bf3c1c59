//! Nodes of a fleet: what one reserves another settles, once.

use serde_json::{Value, json};

use crate::common::server::limit;
use crate::common::{Server, file_of, hourly, wait_for};
use crate::servers;

pub fn nodes<const N: usize>(redis: &servers::Server, policies: &[String]) -> [Server; N] {
    [(); N].map(|()| Server::start(&file_of(policies), &["--threads", "1", "--redis", &redis.url()]))
}

/// What is left of a limit comes to this: a node shows what it heard for a moment.
pub fn comes_to(server: &Server, policy: &str, body: &Value, left: u64) {
    wait_for("what is left", || {
        (server.left(policy, body) == left).then_some(())
    });
}

fn of_kind(id: &str, algorithm: &str) -> String {
    format!("{{id: {id}, scope: org, algorithm: {algorithm}, limit: 100, window: 366d, accuracy: exact}}")
}

#[test]
fn another_node_of_the_fleet_settles_it() {
    let redis = servers::Server::start();
    let policies = [
        of_kind("fixed", "fixed_window"),
        of_kind("counter", "sliding_window_counter"),
        of_kind("log", "sliding_window_log"),
        of_kind("bucket", "token_bucket"),
        "{id: all, scope: global, limit: 100, window: 366d, accuracy: exact}".to_owned(),
        "{id: quota, scope: org, algorithm: quota, window: month, limit: 100, accuracy: exact}".to_owned(),
    ];
    let [a, b, c] = nodes(&redis, &policies);
    let acme = json!({"orgId": "acme"});
    a.allowed(&json!({"orgId": "acme", "cost": 5}));
    let name = a.reserve(&json!({"orgId": "acme", "cost": 40}));
    b.allowed(&json!({"orgId": "acme", "cost": 7}));
    let settled = b.settle(&name, 10).expect(200);
    let told = json!({"reservationId": name, "reservedCost": 40, "actualCost": 10, "returnedCost": 30, "extraCost": 0});
    assert_eq!(settled, told);
    // Buckets, and what spans orgs, get nothing back.
    for (policy, left) in [
        ("fixed", 78),
        ("counter", 78),
        ("log", 78),
        ("quota", 78),
        ("bucket", 48),
        ("all", 48),
    ] {
        comes_to(&c, policy, &acme, left);
    }
    for node in [&a, &b, &c] {
        node.settle(&name, 10).problem(410);
    }
    comes_to(&a, "fixed", &acme, 78);
}

#[test]
fn a_fleet_charges_more_than_reserved_if_there_is_room() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 100, "accuracy: exact")]);
    let acme = json!({"orgId": "acme"});
    let name = a.reserve(&json!({"orgId": "acme", "cost": 20}));
    b.settle(&name, 101).problem(409);
    // It stays, and can be settled at once.
    assert_eq!(b.settle(&name, 30).expect(200)["extraCost"], 10);
    comes_to(&a, "org", &acme, 70);
    // Each unit by itself.
    let refused = b.post(
        "/v1/settle",
        &json!({"reservationId": name, "actualCosts": {"tokens": 1}}),
    );
    refused.problem(410);
}

#[test]
fn what_was_leased_and_reserved_goes_back() {
    const LIMIT: u64 = 100_000;
    let redis = servers::Server::start();
    let policy = format!("{{id: org, scope: org, limit: {LIMIT}, window: 366d, algorithm: fixed_window}}");
    let [a, b] = nodes(&redis, &[policy]);
    let acme = json!({"orgId": "acme"});
    let mut used = 0;
    for round in 0..60 {
        for _ in 0..50 {
            a.allowed(&acme);
        }
        used += 50;
        let name = a.reserve(&json!({"orgId": "acme", "cost": 3}));
        b.settle(&name, round % 3).expect(200);
        used += round % 3;
    }
    assert!(a.counted("tollgate_lease_tokens_total{region=\"local\"}") > 0);
    // What lies on lease comes back when nobody asks any more.
    comes_to(&b, "org", &acme, LIMIT - used);
}

#[test]
fn two_nodes_settle_it_at_once() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 1_000, "accuracy: exact")]);
    for _ in 0..20 {
        let name = a.reserve(&json!({"orgId": "acme", "cost": 30}));
        let statuses = std::thread::scope(|scope| {
            let body = json!({"reservationId": name, "actualCost": 0}).to_string();
            let asks = [&a, &b].map(|node| node.ask("POST", "/v1/settle").body(body.as_str()));
            let both = asks.map(|ask| scope.spawn(move || ask.send().status));
            both.map(|one| one.join().unwrap())
        });
        assert_eq!(
            statuses.iter().filter(|status| **status == 200).count(),
            1,
            "{statuses:?}"
        );
        assert!(
            statuses.iter().all(|status| [200, 409, 410].contains(status)),
            "{statuses:?}"
        );
    }
    comes_to(&a, "org", &json!({"orgId": "acme"}), 1_000);
}

#[test]
fn what_redis_has_lost_gives_nothing_back() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 100, "accuracy: exact")]);
    let name = a.reserve(&json!({"orgId": "acme", "cost": 40}));
    redis.ok(&["FLUSHALL"]);
    for node in [&b, &a] {
        node.settle(&name, 0).problem(404);
    }
    // Everything counts as used up, and stays so.
    wait_for("the loss to be seen", || {
        (b.check(&json!({"orgId": "acme"})).status == 429).then_some(())
    });
    b.settle(&name, 0).problem(404);
    comes_to(&b, "org", &json!({"orgId": "acme"}), 0);
}

#[test]
fn nothing_goes_back_into_another_window_of_the_fleet() {
    let redis = servers::Server::start();
    let policy = "{id: org, scope: org, limit: 100, window: 1s, algorithm: fixed_window, accuracy: exact}";
    let [a, b] = nodes(&redis, &[policy.to_owned()]);
    let first = a
        .post("/v1/reserve", &json!({"orgId": "acme", "cost": 60}))
        .expect(200);
    let name = first["reservationId"].as_str().unwrap();
    let ends = &limit(&first, "org")["resetAt"];
    let next = wait_for("the next window", || {
        let next = b.check(&json!({"orgId": "acme", "cost": 50}));
        (next.status == 200).then(|| next.expect(200))
    });
    assert_ne!(&limit(&next, "org")["resetAt"], ends);
    assert_eq!(b.settle(name, 0).expect(200)["actualCost"], 0);
    let after = b.check(&json!({"orgId": "acme", "cost": 0})).expect(200);
    let same = limit(&after, "org")["resetAt"] == limit(&next, "org")["resetAt"];
    assert!(!same || limit(&after, "org")["remaining"] == 50, "{after}");
}

#[test]
fn what_expires_in_the_fleet_is_charged() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 100, "accuracy: exact")]);
    let name = a.reserve(&json!({"orgId": "acme", "cost": 40, "ttlMs": 1}));
    for node in [&b, &a] {
        wait_for("its end", || (node.settle(&name, 50).status == 410).then_some(()));
    }
    comes_to(&b, "org", &json!({"orgId": "acme"}), 60);
    b.settle("rsv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.YWNtZQ", 0)
        .problem(410);
    b.settle("rsv_________AAAAAAAAAAAAAAAAAAAAAAAA.YWNtZQ", 0)
        .problem(404);
}

#[test]
fn a_node_that_is_killed_leaves_its_reservations_to_others() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 100, "accuracy: exact")]);
    let name = a.reserve(&json!({"orgId": "acme", "cost": 40}));
    a.signal("KILL");
    a.wait();
    assert_eq!(b.settle(&name, 10).expect(200)["returnedCost"], 30);
    comes_to(&b, "org", &json!({"orgId": "acme"}), 90);
}

#[test]
fn another_node_refunds_a_check() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &[hourly("org", "org", 100, "accuracy: exact")]);
    let (acme, check) = (json!({"orgId": "acme"}), json!({"orgId": "acme", "cost": 20}));
    let refund = json!({"orgId": "acme", "idempotencyKey": "k-1"});
    b.post("/v1/refund", &refund).problem(404);
    a.post_keyed("/v1/check", "k-1", &check).expect(200);
    comes_to(&b, "org", &acme, 80);
    assert_eq!(b.post("/v1/refund", &refund).expect(200)["refundedCost"], 20);
    for node in [&a, &b] {
        node.post("/v1/refund", &refund).problem(410);
    }
    comes_to(&b, "org", &acme, 100);
    // A reservation's key is no check's.
    a.post_keyed("/v1/reserve", "k-2", &check).expect(200);
    let other = json!({"orgId": "acme", "idempotencyKey": "k-2"});
    a.post("/v1/refund", &other).problem(422);
}
