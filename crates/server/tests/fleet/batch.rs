//! A batch whose requests all have to ask Redis: they wait together, and each org's are decided in order.

use serde_json::{Value, json};

use crate::common::{Ask, Server, wait_for};
use crate::load::nodes;
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
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    let [node] = nodes::<1>(&[exact(10)], &proxy.url());
    decisions(&node, &[json!({"orgId": "warm"})]);
    let before = calls(&node);
    let orgs: Vec<Value> = (0..40)
        .map(|org| json!({"orgId": format!("org-{org}")}))
        .collect();
    let ask = asked_for(&node, &orgs);
    // While replies are held back, what is sent is all that is not sent one after the other.
    proxy.hold();
    let (answers, sent) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| decided(ask));
        wait_for("all orgs to be asked for", || {
            (calls(&node) >= before + 40).then_some(())
        });
        let sent = calls(&node) - before;
        proxy.pass();
        (asked.join().unwrap(), sent)
    });
    assert_eq!(sent, 40);
    // Replies that were held for too long may have been given up on.
    assert_eq!(answers.len(), 40);
    assert!(
        answers
            .iter()
            .all(|one| one["allowed"] == true || one["status"] == 503),
        "{answers:?}"
    );
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
}
