//! `Idempotency-Key` in a fleet: what is sent again to another node counts once.

use serde_json::{Value, json};

use crate::common::{Answer, Server, file_of, hourly, wait_for};
use crate::fleet::{comes_to, nodes};
use crate::servers;

fn exact(limit: u64, fail_mode: &str) -> [String; 1] {
    let rest = format!("accuracy: exact, failMode: {fail_mode}");
    [hourly("org", "org", limit, &rest)]
}

fn acme(cost: u64) -> Value {
    json!({"orgId": "acme", "cost": cost})
}

/// An answer, but for its date.
fn told(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let headers = answer.headers.iter().filter(|(name, _)| name != "date");
    (answer.status, headers.cloned().collect(), answer.body.clone())
}

#[test]
fn another_node_gives_the_same_answer() {
    let mut redis = servers::Server::start();
    let [a, b, c] = nodes(&redis, &exact(100, "open"));
    let body = acme(5);
    for route in ["/v1/check", "/v1/check?status=200"] {
        let first = told(&a.post_keyed(route, route, &body));
        assert_eq!(first.0, 200);
        for node in [&b, &c, &a, &b] {
            assert_eq!(told(&node.post_keyed(route, route, &body)), first);
        }
    }
    // What charges nothing may have a key as well.
    let dry = json!({"orgId": "acme", "cost": 5, "dryRun": true});
    let first = told(&a.post_keyed("/v1/check", "dry", &dry));
    a.allowed(&acme(1));
    assert_eq!(told(&b.post_keyed("/v1/check", "dry", &dry)), first);
    // Another org's key is another key.
    let other = json!({"orgId": "other", "cost": 5});
    b.post_keyed("/v1/check", "/v1/check", &other).expect(200);
    comes_to(&c, "org", &body, 89);
    comes_to(&c, "org", &other, 95);
    // Who knows the answer asks nobody.
    redis.kill();
    let first = told(&a.post_keyed("/v1/check", "/v1/check", &body));
    assert_eq!(told(&b.post_keyed("/v1/check", "/v1/check", &body)), first);
}

#[test]
fn another_node_refuses_another_body() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let first = told(&a.post_keyed("/v1/check", "k", &acme(5)));
    let detail = b.post_keyed("/v1/check", "k", &acme(6)).problem(422);
    assert!(detail.contains("another request"), "{detail}");
    b.post_keyed("/v1/check?status=200", "k", &acme(5)).problem(422);
    b.post_keyed("/v1/reserve", "k", &acme(5)).problem(422);
    assert_eq!(told(&b.post_keyed("/v1/check", "k", &acme(5))), first);
    comes_to(&b, "org", &acme(0), 95);
}

#[test]
fn a_reserve_that_is_sent_again_elsewhere_is_one_reservation() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let first = a.post_keyed("/v1/reserve", "k", &acme(40));
    let name = first.expect(200)["reservationId"].as_str().unwrap().to_owned();
    let first = told(&a.post_keyed("/v1/reserve", "k", &acme(40)));
    assert_eq!(told(&b.post_keyed("/v1/reserve", "k", &acme(40))), first);
    comes_to(&b, "org", &acme(0), 60);
    assert_eq!(b.settle(&name, 10).expect(200)["returnedCost"], 30);
    for node in [&a, &b] {
        node.settle(&name, 10).problem(410);
        // The key is still the reserve's.
        assert_eq!(told(&node.post_keyed("/v1/reserve", "k", &acme(40))), first);
    }
    comes_to(&b, "org", &acme(0), 90);
}

#[test]
fn two_nodes_are_asked_at_once() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(1_000, "closed"));
    for round in 0..30 {
        let key = format!("k-{round}");
        let asks = [&a, &b].map(|node| node.ask_keyed("/v1/check", &key, &acme(10)));
        let both = asks.map(|ask| std::thread::spawn(move || ask.send()));
        let both = both.map(|one| one.join().unwrap());
        let done: Vec<_> = both.iter().filter(|answer| answer.status == 200).collect();
        let same = done.iter().all(|answer| answer.body == done[0].body);
        let told = both.each_ref().map(|answer| (answer.status, answer.text()));
        assert!(!done.is_empty() && same, "{told:?}");
        assert!(both.iter().all(|answer| [200, 409].contains(&answer.status)));
        for node in [&a, &b] {
            assert_eq!(node.post_keyed("/v1/check", &key, &acme(10)).body, done[0].body);
        }
    }
    comes_to(&a, "org", &acme(0), 700);
}

#[test]
fn a_denial_is_kept_in_the_fleet_as_long() {
    let redis = servers::Server::start();
    let policy = "{id: org, scope: org, algorithm: fixed_window, anchor: first, limit: 5, window: 2s, accuracy: exact}";
    let [a, b] = nodes(&redis, &[policy.to_owned()]);
    a.allowed(&acme(4));
    let first = a.post_keyed("/v1/check", "k", &acme(4));
    let again = b.post_keyed("/v1/check", "k", &acme(4));
    if (first.status, again.status) == (429, 429) {
        assert_eq!(told(&first), told(&again));
    }
    let allowed = wait_for("the next window", || {
        let answer = b.post_keyed("/v1/check", "k", &acme(4));
        (answer.status == 200).then(|| told(&answer))
    });
    // The first node may hold on to the denial for as long as that said.
    let same = wait_for("its end", || {
        let answer = a.post_keyed("/v1/check", "k", &acme(4));
        (answer.status == 200).then(|| told(&answer))
    });
    assert_eq!(same, allowed);
}

#[test]
fn what_was_repeated_is_refunded_once() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let first = a.post_keyed("/v1/check", "k", &acme(20)).expect(200);
    assert_eq!(b.post_keyed("/v1/check", "k", &acme(20)).expect(200), first);
    let refund = json!({"orgId": "acme", "idempotencyKey": "k"});
    assert_eq!(b.post("/v1/refund", &refund).expect(200)["refundedCost"], 20);
    for node in [&a, &b] {
        node.post("/v1/refund", &refund).problem(410);
    }
    comes_to(&b, "org", &acme(0), 100);
    // What was not charged is nobody's loss.
    let dry = json!({"orgId": "acme", "dryRun": true});
    a.post_keyed("/v1/check", "dry", &dry).expect(200);
    b.post_keyed("/v1/check", "dry", &dry).expect(200);
    let refund = json!({"orgId": "acme", "idempotencyKey": "dry"});
    assert_eq!(b.post("/v1/refund", &refund).expect(200)["refundedCost"], 0);
}

#[test]
fn a_refund_frees_the_key_on_every_node() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let refund = json!({"orgId": "acme", "idempotencyKey": "k"});
    // Both remember the answer, and one hears of the refund.
    let first = a.post_keyed("/v1/check", "k", &acme(20)).expect(200);
    assert_eq!(b.post_keyed("/v1/check", "k", &acme(20)).expect(200), first);
    b.post("/v1/refund", &refund).expect(200);
    comes_to(&a, "org", &acme(0), 100);
    // Whichever is asked charges it anew, once, and both give that answer.
    let again = told(&a.post_keyed("/v1/check", "k", &acme(30)));
    assert_eq!(again.0, 200);
    for node in [&a, &b] {
        assert_eq!(told(&node.post_keyed("/v1/check", "k", &acme(30))), again);
        node.post_keyed("/v1/check", "k", &acme(20)).problem(422);
    }
    comes_to(&b, "org", &acme(0), 70);
    // The refund is of that check now, once.
    assert_eq!(a.post("/v1/refund", &refund).expect(200)["refundedCost"], 30);
    b.post("/v1/refund", &refund).problem(410);
    comes_to(&b, "org", &acme(0), 100);
    assert_eq!(
        b.post_keyed("/v1/check", "k", &acme(20)).expect(200)["allowed"],
        true
    );
    comes_to(&a, "org", &acme(0), 80);
}

#[test]
fn a_killed_node_leaves_its_answers() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let check = told(&a.post_keyed("/v1/check", "k", &acme(20)));
    let reserve = told(&a.post_keyed("/v1/reserve", "r", &acme(30)));
    a.signal("KILL");
    a.wait();
    assert_eq!(told(&b.post_keyed("/v1/check", "k", &acme(20))), check);
    let again = b.post_keyed("/v1/reserve", "r", &acme(30));
    assert_eq!(told(&again), reserve);
    let name = again.json()["reservationId"].as_str().unwrap().to_owned();
    assert_eq!(b.settle(&name, 0).expect(200)["returnedCost"], 30);
    comes_to(&b, "org", &acme(0), 80);
}

#[test]
fn without_redis_each_node_remembers_for_itself() {
    let redis = servers::Server::start();
    let policies = file_of(&exact(1_000, "open"));
    let closed = file_of(&exact(1_000, "closed"));
    let node = |policies: &str| Server::start(policies, &["--threads", "1", "--redis", &redis.url()]);
    let [a, b, strict] = [&policies, &policies, &closed].map(|policies| node(policies));
    let before = told(&a.post_keyed("/v1/check", "before", &acme(1)));
    redis.pause();
    let during = a.post_keyed("/v1/check", "during", &acme(1));
    assert_eq!(during.expect(200)["degraded"], true);
    let during = told(&during);
    assert_eq!(told(&a.post_keyed("/v1/check", "during", &acme(1))), during);
    assert_eq!(told(&a.post_keyed("/v1/check", "before", &acme(1))), before);
    a.post_keyed("/v1/check", "during", &acme(2)).problem(422);
    // Another decides for itself, and what the policies refuse is refused.
    for key in ["before", "during"] {
        let own = told(&b.post_keyed("/v1/check", key, &acme(1)));
        assert_eq!(own.0, 200);
        assert_eq!(told(&b.post_keyed("/v1/check", key, &acme(1))), own);
    }
    strict.post_keyed("/v1/check", "strict", &acme(1)).problem(503);
    redis.resume();
    for node in [&a, &b, &strict] {
        wait_for("Redis to be used again", || {
            let answer = node.check(&acme(0));
            (answer.status == 200 && answer.json()["degraded"] == false).then_some(())
        });
    }
    assert_eq!(told(&a.post_keyed("/v1/check", "during", &acme(1))), during);
    let after = wait_for("an answer", || {
        let answer = strict.post_keyed("/v1/check", "strict", &acme(1));
        (answer.status == 200).then(|| told(&answer))
    });
    for node in [&a, &b] {
        assert_eq!(told(&node.post_keyed("/v1/check", "strict", &acme(1))), after);
    }
}

#[test]
fn what_redis_forgets_the_node_still_knows() {
    let redis = servers::Server::start();
    let [a, b] = nodes(&redis, &exact(100, "closed"));
    let first = told(&a.post_keyed("/v1/check", "k", &acme(20)));
    redis.ok(&["FLUSHALL"]);
    assert_eq!(told(&a.post_keyed("/v1/check", "k", &acme(20))), first);
    // Everything counts as used up since, and another node decides that.
    let other = b.post_keyed("/v1/check", "k", &acme(20));
    assert_eq!(other.expect(429)["allowed"], false);
    assert_eq!(told(&a.post_keyed("/v1/check", "k", &acme(20))), first);
    // From then on keys are remembered again.
    let next = wait_for("the loss to be seen", || {
        let next = a.post_keyed("/v1/check", "next", &acme(20));
        (next.status == 429).then(|| told(&next))
    });
    assert_eq!(told(&b.post_keyed("/v1/check", "next", &acme(20))), next);
}
