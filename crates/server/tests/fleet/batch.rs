//! A batch whose requests all have to ask Redis: they wait together, and those that share a counter are decided in order.

use serde_json::{Value, json};
use tollgate_proto::v1::CheckLimitRequest;

use crate::asker::Asker;
use crate::common::{Ask, Server, wait_for};
use crate::load::{ORG, nodes};
use crate::proxy::Proxy;
use crate::servers;

fn asked_for(node: &Server, requests: &[Value]) -> Ask {
    let body = json!({"requests": requests}).to_string();
    node.ask("POST", "/v1/check/batch").body(body)
}

fn decided(ask: Ask) -> Vec<Value> {
    let answer = ask.send().expect(200);
    answer["decisions"].as_array().unwrap().clone()
}

fn decisions(node: &Server, requests: &[Value]) -> Vec<Value> {
    let decisions = decided(asked_for(node, requests));
    assert_eq!(decisions.len(), requests.len());
    decisions
}

/// Asks for an org until Redis has decided everything: on a busy machine it may be too slow for some.
fn all_decided(node: &Server, org: &str, mut requests: impl FnMut(&str) -> Vec<Value>) -> Vec<Value> {
    let mut attempt = 0;
    wait_for("a batch that Redis decides", || {
        attempt += 1;
        let decided = decisions(node, &requests(&format!("{org}-{attempt}")));
        decided.iter().all(|one| one["status"] != 503).then_some(decided)
    })
}

/// How many calls a node has sent.
fn calls(node: &Server) -> u64 {
    node.platform_admin().get("/v1/fleet").expect(200)["leases"]["calls"]
        .as_u64()
        .unwrap()
}

fn exact(limit: u64) -> String {
    format!(
        "{{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h, accuracy: exact, failMode: closed}}"
    )
}

#[test]
fn orgs_wait_together() {
    all_are_sent_at_once(&[exact(10)], |org| json!({"orgId": org}));
}

#[test]
fn limits_that_fit_none_of_the_checks_make_none_of_them_wait() {
    let spanning = [
        spanning("other-model", "global", ", match: {model: other}"),
        spanning("address", "ip", ""),
        exact(10),
    ];
    all_are_sent_at_once(&spanning, |org| json!({"orgId": org}));
}

#[test]
fn checks_of_other_addresses_share_no_counter_of_addresses() {
    let policies = [spanning("address", "ip", ""), exact(10)];
    let mut address = 0;
    all_are_sent_at_once(&policies, move |org| {
        address += 1;
        json!({"orgId": org, "ip": format!("192.0.2.{address}")})
    });
}

/// Asks for 40 orgs, over HTTP and over gRPC. While replies are held back, what is sent is all that is not sent one after
/// the other.
fn all_are_sent_at_once(policies: &[String], mut check: impl FnMut(&str) -> Value) {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let [node] = nodes::<1>(policies, &proxy.url());
    let mut checks =
        |round: &str| -> Vec<Value> { (0..40).map(|org| check(&format!("{round}-{org}"))).collect() };
    let asker = Asker::of(&node);
    for over in ["http", "grpc"] {
        // Replies that were held for too long may have been given up on: Redis counts as unavailable for a while.
        wait_for("Redis to decide", || {
            (decisions(&node, &[json!({"orgId": "warm"})])[0]["allowed"] == true).then_some(())
        });
        let before = calls(&node);
        let checks = checks(over);
        let ask = asked_for(&node, &checks);
        proxy.hold();
        let (answers, sent) = std::thread::scope(|scope| {
            let batch = scope.spawn(|| match over {
                "http" => decided(ask).len(),
                _ => asker.check_all(messages(&checks)).unwrap().decisions.len(),
            });
            wait_for("all orgs to be asked for", || {
                (calls(&node) >= before + 40).then_some(())
            });
            let sent = calls(&node) - before;
            proxy.pass();
            (batch.join().unwrap(), sent)
        });
        assert_eq!((answers, sent), (40, 40), "over {over}");
    }
}

/// The same checks as gRPC has them.
fn messages(checks: &[Value]) -> Vec<CheckLimitRequest> {
    let text = |check: &Value, name: &str| check[name].as_str().map(str::to_owned);
    let message = |check: &Value| CheckLimitRequest {
        org_id: text(check, "orgId"),
        app_id: text(check, "appId"),
        ip: text(check, "ip"),
        cost: check["cost"].as_u64(),
        ..CheckLimitRequest::default()
    };
    checks.iter().map(message).collect()
}

fn spanning(id: &str, scope: &str, rest: &str) -> String {
    format!(
        "{{id: {id}, scope: {scope}, algorithm: fixed_window, anchor: first, limit: 100, window: 1h, accuracy: exact, failMode: closed{rest}}}"
    )
}

/// Which of some checks are allowed, over HTTP or gRPC, once Redis has decided all of them.
fn verdicts(node: &Server, asker: &Asker, over: &str, checks: &[Value]) -> Option<Vec<bool>> {
    if over == "http" {
        let decided = decisions(node, checks);
        let known = decided.iter().all(|one| one["status"] != 503);
        return known.then(|| decided.iter().map(|one| one["allowed"] == true).collect());
    }
    let decided = asker.check_all(messages(checks)).unwrap().decisions;
    let known = |allowed: bool, reason: Option<&str>| allowed || reason.is_some();
    let known = decided
        .iter()
        .all(|one| known(one.allowed, one.policy_id.as_deref()));
    known.then(|| decided.iter().map(|one| one.allowed).collect())
}

#[test]
fn checks_that_share_a_spanning_counter_are_decided_in_order() {
    let redis = servers::Server::start();
    let policies = [spanning("address", "ip", ""), exact(1_000)];
    let [node] = nodes::<1>(&policies, &redis.url());
    let asker = Asker::of(&node);
    let mut address = 0;
    for over in ["http", "grpc", "http", "grpc"] {
        // On a busy machine Redis may be too slow for some.
        let allowed = wait_for("a batch that Redis decides", || {
            address += 1;
            let costs = [60, 30, 20, 10, 1].into_iter().enumerate();
            let checks = costs.map(|(org, cost)| {
                json!({"orgId": format!("{over}-{address}-{org}"), "ip": format!("198.51.100.{address}"), "cost": cost})
            });
            verdicts(&node, &asker, over, &checks.collect::<Vec<_>>())
        });
        assert_eq!(allowed, [true, true, false, true, false], "over {over}");
    }
}

#[test]
fn apps_of_an_org_with_counters_of_their_own_go_in_few_calls() {
    let redis = servers::Server::start();
    let [node] = nodes::<1>(&[exact(3).replace("scope: org", "scope: app")], &redis.url());
    let asker = Asker::of(&node);
    for over in ["http", "grpc"] {
        let (mut before, mut round) = (0, 0);
        let allowed = wait_for("a batch that Redis decides", || {
            (before, round) = (calls(&node), round + 1);
            let checks =
                |app: u64| json!({"orgId": ORG, "appId": format!("{over}-{round}-{app}"), "cost": 2});
            // Each app twice, of which only the first fits.
            let checks: Vec<Value> = (0..40).chain(0..40).map(checks).collect();
            verdicts(&node, &asker, over, &checks)
        });
        let sent = calls(&node) - before;
        println!("{sent} calls for 80 checks over {over}");
        assert_eq!(allowed, [vec![true; 40], vec![false; 40]].concat());
        assert!(sent <= 20, "{sent} calls over {over}");
    }
}

#[test]
fn requests_of_an_org_are_decided_in_order() {
    let redis = servers::Server::start();
    let [node] = nodes::<1>(&[exact(100)], &redis.url());
    for round in 0..5 {
        let costs = [60, 30, 20, 10, 1];
        let requests = |org: &str| costs.map(|cost| json!({"orgId": org, "cost": cost})).to_vec();
        let decided = all_decided(&node, &format!("org-{round}"), requests);
        let allowed: Vec<bool> = decided.iter().map(|one| one["allowed"] == true).collect();
        assert_eq!(allowed, [true, true, false, true, false], "{decided:?}");
    }
}

#[test]
fn the_same_request_many_times_goes_in_few_calls() {
    let redis = servers::Server::start();
    let [node] = nodes::<1>(&[exact(100)], &redis.url());
    decisions(&node, &[json!({"orgId": "warm"})]);
    let mut before = 0;
    let decided = all_decided(&node, "acme", |org| {
        before = calls(&node);
        vec![json!({"orgId": org}); 128]
    });
    let allowed = decided.iter().filter(|one| one["allowed"] == true).count();
    assert_eq!(allowed, 100, "{decided:?}");
    let sent = calls(&node) - before;
    println!("{sent} calls for 128 requests");
    assert!(sent <= 16, "{sent} calls");
    let asker = Asker::of(&node);
    let mut attempt = 0;
    let decided = wait_for("a batch that Redis decides", || {
        (before, attempt) = (calls(&node), attempt + 1);
        let checks = vec![json!({"orgId": format!("globex-{attempt}")}); 128];
        verdicts(&node, &asker, "grpc", &checks)
    });
    assert_eq!(decided.iter().filter(|allowed| **allowed).count(), 100);
    let sent = calls(&node) - before;
    println!("{sent} calls for 128 requests over gRPC");
    assert!(sent <= 16, "{sent} calls over gRPC");
}
