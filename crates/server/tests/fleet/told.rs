//! What a fleet tells of itself.

use serde_json::json;

use crate::common::{Launch, Server, file_of, wait_for};
use crate::load::{ORG, hammer_at, nodes};
use crate::servers;

#[test]
fn nodes_store_and_leases_are_shown() {
    let redis = servers::Server::start();
    let policy = "{id: p, scope: org, algorithm: fixed_window, limit: 1000, window: 1h}".to_owned();
    let nodes = nodes::<2>(&[policy], &redis.url());
    nodes[0].allowed(&json!({"orgId": ORG}));
    let fleet = wait_for("both nodes to be known", || {
        let fleet = nodes[0].platform_admin().get("/v1/fleet").expect(200);
        (fleet["nodes"].as_array().unwrap().len() == 2).then_some(fleet)
    });
    assert_eq!(fleet["region"], "local");
    assert_eq!(fleet["store"]["kind"], "redis");
    assert_eq!(fleet["store"]["away"], false);
    assert!(fleet["leases"]["calls"].as_u64().unwrap() >= 1, "{fleet}");
    let ready = nodes[0].ask_admin("GET", "/readyz").send().expect(200);
    assert_eq!(ready["store"], "redis");
}

#[test]
fn readiness_tells_the_truth_while_redis_is_unavailable() {
    let mut redis = servers::Server::start();
    let day = "{id: day, scope: org, algorithm: quota, limit: 1000, window: day}".to_owned();
    let file = file_of(&[day]);
    let launch = |flags: &[&str]| {
        Server::launch(&Launch {
            policies: Some(&file),
            flags: &[&["--redis", &redis.url(), "--threads", "1"], flags].concat(),
            ..Launch::default()
        })
    };
    let nodes = [
        (launch(&[]), 200),
        (launch(&["--ready-when-degraded=false"]), 503),
        (launch(&["--ready-when-degraded", "off"]), 503),
        (launch(&["--ready-when-degraded"]), 200),
    ];
    for (node, _) in &nodes {
        node.allowed(&json!({"orgId": ORG}));
        let ready = node.ask_admin("GET", "/readyz").send().expect(200);
        assert_eq!(
            (&ready["status"], &ready["degraded"]),
            (&json!("ready"), &json!([]))
        );
    }
    redis.kill();
    for (node, status) in &nodes {
        wait_for("a quota to answer 503", || {
            (node.check(&json!({"orgId": ORG, "cost": 100})).status == 503).then_some(())
        });
        let ready = wait_for("the node to say so", || {
            let ready = node.ask_admin("GET", "/readyz").send();
            (ready.json()["status"] == "degraded").then_some(ready)
        });
        let ready = ready.expect(*status);
        assert_eq!(ready["degraded"][0]["part"], "redis", "{ready}");
        let detail = ready["degraded"][0]["detail"].as_str().unwrap();
        assert!(detail.contains("failMode") && detail.contains("503"), "{detail}");
    }
    redis.start_again();
    for (node, _) in &nodes {
        wait_for("all to be well again", || {
            let ready = node.ask_admin("GET", "/readyz").send();
            (ready.status == 200 && ready.json()["status"] == "ready").then_some(())
        });
    }
}

#[test]
fn what_lies_on_lease_is_not_shown_as_left_twice() {
    let redis = servers::Server::start();
    let policy = "{id: p, scope: org, algorithm: fixed_window, limit: 10000, window: 366d}".to_owned();
    let [node] = nodes::<1>(&[policy], &redis.url());
    // Quick enough that tokens are borrowed.
    for asked in 1..=100 {
        node.allowed(&json!({"orgId": ORG, "cost": 10}));
        let left = node.left("p", &json!({"orgId": ORG}));
        assert!(left <= 10_000 - 10 * asked, "{left} after {asked} times 10");
    }
    let fleet = node.platform_admin().get("/v1/fleet").expect(200);
    assert!(fleet["leases"]["tokens"].as_u64().unwrap() > 0, "{fleet}");
}

#[test]
fn what_lies_unused_is_measured_by_class_and_within_it() {
    let redis = servers::Server::start();
    let policies = [
        "{id: a, scope: org, algorithm: fixed_window, limit: 100000, window: 366d, failMode: closed}",
        "{id: b, scope: key, algorithm: fixed_window, limit: 100000, window: 366d, accuracy: exact, failMode: closed}",
        "{id: c, scope: app, algorithm: fixed_window, limit: 100000, window: 366d, accuracy: 1%, failMode: closed}",
    ];
    let leased = [policies[0], policies[2]].map(str::to_owned);
    let nodes = nodes::<2>(&leased, &redis.url());
    let addresses = nodes.each_ref().map(|node| node.http);
    let over = std::sync::atomic::AtomicBool::new(false);
    let fleet = std::thread::scope(|scope| {
        let enough = |_: &crate::load::Tally| over.load(std::sync::atomic::Ordering::Relaxed);
        let load = scope.spawn(move || hammer_at(&addresses, "a", enough));
        let class = |fleet: &serde_json::Value, name: &str| {
            let classes = fleet["accuracy"].as_array().unwrap().clone();
            classes.into_iter().find(|one| one["class"] == name)
        };
        let fleet = wait_for("leases of both nodes", || {
            let fleet = nodes[0].platform_admin().get("/v1/fleet").expect(200);
            let (five, one) = (class(&fleet, "5%")?, class(&fleet, "1%")?);
            let held = |class: &serde_json::Value| class["unusedPercent"].as_f64().unwrap() > 0.0;
            (held(&five) && held(&one)).then_some((five, one))
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        load.join().unwrap();
        fleet
    });
    println!("{fleet:?}");
    assert!(fleet.0["mostUnusedPercent"].as_f64().unwrap() <= 5.0, "{fleet:?}");
    assert!(fleet.1["mostUnusedPercent"].as_f64().unwrap() <= 1.0, "{fleet:?}");
    // Where every decision is the store's, nothing lies about.
    let exact = crate::load::nodes::<1>(&[policies[1].to_owned()], &redis.url());
    exact[0].allowed(&json!({"orgId": ORG, "keyId": "k"}));
    let series =
        |of: &str| format!("tollgate_lease_unused_ratio{{region=\"local\",accuracy=\"exact\",of=\"{of}\"}}");
    let metrics = exact[0].metrics();
    assert!(metrics.contains(&format!("{} 0", series("most"))), "{metrics}");
}

#[test]
fn every_key_expires_and_routes_make_few_keys() {
    let redis = servers::Server::start();
    let policies = [
        "{id: e, scope: endpoint, endpointPattern: \"/v1/*\", algorithm: token_bucket, limit: 1000, window: 1m}",
        "{id: l, scope: org, algorithm: sliding_window_log, limit: 1000, window: 1m}",
        "{id: q, scope: [org, ip], algorithm: quota, limit: 1000, window: month}",
    ];
    let [node] = nodes::<1>(&policies.map(str::to_owned), &redis.url());
    for route in 0..300 {
        node.allowed(
            &json!({"orgId": "a}b{c", "ip": "203.0.113.9", "endpoint": format!("GET /v1/things/{route}")}),
        );
    }
    let keys = redis.run(&["KEYS", "*"]);
    let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
    for key in &keys {
        let left: i64 = redis.run(&["PTTL", key]).trim().parse().unwrap();
        assert!(left > 300_000, "{key} lives for {left} ms");
    }
    let counters = keys
        .iter()
        .filter(|key| !key.contains("{fleet}") && !key.ends_with(":sentinel"));
    assert!(counters.count() <= 4, "{keys:?}");
}
