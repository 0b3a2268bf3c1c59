//! Several limits on one count, or many, shared by three nodes: each is held against all that was counted.

use serde_json::json;

use crate::common::Server;
use crate::load::{hammer, nodes};
use crate::servers;

const WINDOW: &str = "algorithm: fixed_window, anchor: first, window: 1h, failMode: closed, counter: c";

/// Both limits watch every request: the least that refuses says how many pass.
fn together(policies: &[String]) {
    let redis = servers::Server::start();
    let nodes = nodes::<3>(policies, &redis.url());
    let tally = hammer(&nodes.each_ref(), "b", |tally| {
        tally.denied > 300 || tally.allowed > 3_000
    });
    assert!(tally.allowed <= 1_000, "{tally:?}: {policies:?}");
    assert!(tally.allowed >= 950, "{tally:?}: {policies:?}");
}

#[test]
fn a_soft_limit_lets_no_more_through_than_the_hard_one_beside_it() {
    for (soft, hard) in [("a", "b"), ("b", "a")] {
        for rest in ["", ", accuracy: exact"] {
            together(&[
                format!("{{id: {soft}, scope: org, limit: 800, mode: soft, {WINDOW}{rest}}}"),
                format!("{{id: {hard}, scope: org, limit: 1000, {WINDOW}{rest}}}"),
            ]);
        }
    }
}

#[test]
fn the_lesser_of_two_limits_holds() {
    for (less, more) in [("a", "b"), ("b", "a")] {
        together(&[
            format!("{{id: {less}, scope: org, limit: 1000, {WINDOW}}}"),
            format!("{{id: {more}, scope: org, limit: 5000, {WINDOW}}}"),
        ]);
    }
}

#[test]
fn so_does_it_where_the_count_spans_orgs() {
    for (soft, hard) in [("a", "b"), ("b", "a")] {
        for rest in ["", ", accuracy: exact"] {
            together(&[
                format!("{{id: {soft}, scope: global, limit: 800, mode: soft, {WINDOW}{rest}}}"),
                format!("{{id: {hard}, scope: global, limit: 1000, {WINDOW}{rest}}}"),
                format!(
                    "{{id: org, scope: org, limit: 100000, {}}}",
                    WINDOW.replace("counter: c", "counter: d")
                ),
            ]);
        }
    }
}

/// How many of some requests for a route are let through, by turns of the nodes.
fn let_through(nodes: &[Server; 3], route: &str, of: usize) -> usize {
    let body = json!({"orgId": "acme", "endpoint": route}).to_string();
    let asks = (0..of).map(|number| nodes[number % 3].check_raw(body.as_str()).status);
    asks.filter(|status| *status == 200).count()
}

#[test]
fn a_route_with_a_lesser_limit_is_not_served_from_what_another_has_borrowed() {
    let redis = servers::Server::start();
    let route = |id: &str, limit: u64| {
        format!("{{id: {id}, scope: org, endpointPattern: /{id}, limit: {limit}, {WINDOW}}}")
    };
    let nodes = nodes::<3>(&[route("small", 200), route("big", 3_000)], &redis.url());
    assert_eq!(let_through(&nodes, "/small", 100), 100);
    assert_eq!(let_through(&nodes, "/big", 1_000), 1_000, "by its own limit");
    assert_eq!(let_through(&nodes, "/small", 300), 0);
    assert_eq!(
        let_through(&nodes, "/big", 1_000),
        1_000,
        "whatever others are refused"
    );
    let rest = let_through(&nodes, "/big", 1_500);
    assert!((700..=900).contains(&rest), "{rest}");
}

#[test]
fn a_dry_run_charges_nothing_that_spans_orgs() {
    let window = WINDOW.replace(", counter: c", "");
    for rest in ["", ", accuracy: exact"] {
        let redis = servers::Server::start();
        let policies = [
            format!("{{id: all, scope: global, limit: 50, {window}{rest}}}"),
            format!("{{id: org, scope: org, limit: 1000, {window}{rest}}}"),
        ];
        let [node] = nodes::<1>(&policies, &redis.url());
        let dry = json!({"orgId": "acme", "dryRun": true}).to_string();
        for _ in 0..60 {
            assert_eq!(node.check_raw(dry.as_str()).status, 200);
        }
        let wet = json!({"orgId": "acme"}).to_string();
        let allowed = (0..60)
            .filter(|_| node.check_raw(wet.as_str()).status == 200)
            .count();
        assert_eq!(allowed, 50, "{rest}");
    }
}

#[test]
fn who_names_no_org_is_counted_in_one_place_whichever_node_is_asked() {
    let redis = servers::Server::start();
    let window = WINDOW.replace(", counter: c", "");
    for rest in ["", ", accuracy: exact"] {
        let scoped = |scope: &str| format!("{{id: {scope}, scope: {scope}, limit: 100, {window}{rest}}}");
        let name = if rest.is_empty() { "u" } else { "v" };
        let nodes = nodes::<3>(&[scoped("user"), scoped("app")], &redis.url());
        // Each node meets another counter first.
        for (number, node) in nodes.iter().enumerate() {
            let first = json!({"appId": format!("{name}-{number}")}).to_string();
            assert_eq!(node.check_raw(first.as_str()).status, 200);
        }
        let body = json!({"userId": name}).to_string();
        let asks = (0..300).map(|number| nodes[number % 3].check_raw(body.as_str()).status);
        assert_eq!(asks.filter(|status| *status == 200).count(), 100, "{rest}");
    }
}

#[test]
fn a_stack_may_have_many_counters_that_span_orgs() {
    let redis = servers::Server::start();
    let window = WINDOW.replace(", counter: c", "");
    let spans =
        |number: u64| format!("{{id: all-{number}, scope: global, limit: 30, {window}, accuracy: exact}}");
    let mut policies: Vec<String> = (0..12).map(spans).collect();
    policies.push(format!("{{id: org, scope: org, limit: 1000, {window}}}"));
    let [node] = nodes::<1>(&policies, &redis.url());
    let body = json!({"orgId": "acme"}).to_string();
    let answers: Vec<u16> = (0..60).map(|_| node.check_raw(body.as_str()).status).collect();
    assert_eq!(
        answers.iter().filter(|status| **status == 200).count(),
        30,
        "{answers:?}"
    );
    assert_eq!(
        answers.iter().filter(|status| **status == 429).count(),
        30,
        "{answers:?}"
    );
}

/// Where each node has a catalogue of its own, one that counts anew would do so beside the others.
#[test]
fn counters_are_not_emptied_for_one_node_alone() {
    let redis = servers::Server::start();
    let window = WINDOW.replace(", counter: c", "");
    let policies = [format!("{{id: org, scope: org, limit: 100, {window}}}")];
    let nodes = nodes::<3>(&policies, &redis.url());
    servers::wait_for("the nodes know each other", || {
        let reset = json!({"reason": "a gift"});
        let admin = nodes[0].platform_admin();
        admin
            .post("/v1/orgs/acme/ratelimit/reset?dryRun=true", &reset)
            .status
            == 409
    });
}

/// A node that never heard of Redis knows what time it is.
#[test]
fn a_node_without_redis_tells_times_of_today() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let policies = [
        "{id: org, scope: org, algorithm: fixed_window, limit: 100, window: 1h, failMode: open}".to_owned(),
    ];
    let [node] = nodes::<1>(&policies, &format!("redis://{port}"));
    let told = node.check_raw(json!({"orgId": "acme"}).to_string()).json();
    let reset = told["limits"][0]["resetAt"].as_str().unwrap().to_owned();
    assert!(reset.as_str() > "2026", "{told}");
}

/// What it takes of limits that span orgs while it waits for its org goes back.
#[test]
fn requests_that_their_org_refuses_charge_nothing_that_spans_orgs() {
    for algorithm in ["token_bucket", "sliding_window_log"] {
        let redis = servers::Server::start();
        let policies = [
            format!(
                "{{id: all, scope: global, algorithm: {algorithm}, limit: 1000, window: 366d, failMode: closed}}"
            ),
            format!(
                "{{id: org, scope: org, limit: 1, {}}}",
                WINDOW.replace(", counter: c", ", accuracy: exact")
            ),
        ];
        let [node] = nodes::<1>(&policies, &redis.url());
        let other = json!({"orgId": "other"}).to_string();
        assert_eq!(node.check_raw(other.as_str()).status, 200);
        for number in 0..30 {
            // The org has room for one, so that the store has to be asked each time what it says to more.
            let body = json!({"orgId": "acme", "cost": 500 - number}).to_string();
            assert_eq!(node.check_raw(body).status, 429);
        }
        let body = json!({"orgId": "another"}).to_string();
        servers::wait_for("all that was lent has come back", || {
            let told = node.check_raw(body.as_str()).json();
            let limits = told["limits"].as_array().unwrap();
            let all = limits.iter().find(|limit| limit["policyId"] == "all").unwrap();
            all["remaining"].as_u64().unwrap() >= 900
        });
    }
}
