//! A Redis that gets replicas, loses them and is promoted: what it keeps is not taken for lost, what it lost is.

use std::time::{Duration, Instant};

use crate::common::{Launch, Server, file_of, wait_for};
use crate::load::{Tally, hammer, hammer_at, node, nodes};
use crate::servers;

const LIMIT: u64 = 6_000;

fn policy() -> String {
    format!("{{id: p, scope: org, algorithm: fixed_window, limit: {LIMIT}, window: 366d, failMode: closed}}")
}

fn losses(node: &Server) -> u64 {
    node.counted("tollgate_store_losses_total{region=\"local\"}")
}

/// Makes a server follow another one.
fn follow(replica: &servers::Server, primary: &servers::Server) {
    replica.ok(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    servers::wait_for("the replica to follow", || {
        replica.info("master_link_status") == "up"
    });
}

#[test]
fn the_first_replica_costs_nothing() {
    let (redis, replica) = (servers::Server::start(), servers::Server::start());
    let nodes = nodes::<2>(&[policy()], &redis.url());
    let addresses = nodes.each_ref().map(|node| node.http);
    let before = redis.info("master_replid");
    let first = std::thread::scope(|scope| {
        let load = scope.spawn(|| hammer_at(&addresses, "p", |tally| tally.allowed > 1_000));
        follow(&replica, &redis);
        load.join().unwrap()
    });
    assert_ne!(
        redis.info("master_replid"),
        before,
        "the id has to change, or this shows nothing"
    );
    for node in &nodes {
        node.logs("has another replication id");
    }
    // One that has not seen the change hears of it.
    let late = node(&format!("policies:\n  - {}\n", policy()), &redis.url());
    let [one, two] = &nodes;
    let second = hammer(&[one, two, &late], "p", |tally| tally.denied > 100);
    let total = first.allowed + second.allowed;
    println!("{total} of {LIMIT}");
    assert!(
        total <= LIMIT && total * 100 >= LIMIT * 95,
        "{first:?} {second:?}"
    );
    assert_eq!([one, two, &late].map(losses), [0; 3]);
}

#[test]
fn a_primary_that_came_back_with_an_older_state_has_lost_something() {
    let (redis, other) = (servers::Server::start(), servers::Server::start());
    let [node] = nodes::<1>(&[policy()], &redis.url());
    let first = hammer(&[&node], "p", |tally| tally.allowed > 300);
    // The other one stays behind with what it knows by now.
    follow(&other, &redis);
    other.ok(&["REPLICAOF", "NO", "ONE"]);
    let second = hammer(&[&node], "p", |tally| tally.allowed > 300);
    follow(&redis, &other);
    redis.ok(&["REPLICAOF", "NO", "ONE"]);
    wait_for("the promoted server to be used", || {
        let answer = node.check(&serde_json::json!({"orgId": "else"}));
        (answer.status != 503).then_some(())
    });
    let third = hammer(&[&node], "p", |tally| tally.denied > 50);
    let total = first.allowed + second.allowed + third.allowed;
    println!("{total} of {LIMIT}, {} after the promotion", third.allowed);
    assert!(total <= LIMIT, "{first:?} {second:?} {third:?}");
    assert!(losses(&node) > 0, "{}", node.metrics());
}

/// A primary is cut off with a node beside it, its replica is promoted for another node, and both are asked for two
/// seconds: what was let through, and what a bucket of `RATE` a second allows meanwhile.
fn split(flags: &[&str]) -> (Tally, u64) {
    const RATE: u64 = 500;
    let (primary, replica) = (servers::Server::start(), servers::Server::start());
    follow(&replica, &primary);
    let policies = file_of(&[format!(
        "{{id: p, scope: org, algorithm: token_bucket, limit: {RATE}, window: 1s, failMode: closed}}"
    )]);
    let launch = |redis: &servers::Server, flags: &[&str]| {
        let url = redis.url();
        let own = ["--redis", url.as_str(), "--threads", "1"];
        Server::launch(&Launch {
            policies: Some(&policies),
            flags: &[&own, flags].concat(),
            ..Launch::default()
        })
    };
    let near = launch(&primary, flags);
    let began = Instant::now();
    let before = hammer(&[&near], "p", |tally| tally.denied > 50);
    replica.ok(&["REPLICAOF", "NO", "ONE"]);
    let far = launch(&replica, &[]);
    let both = hammer(&[&near, &far], "p", |tally| tally.took > Duration::from_secs(2));
    let took = u64::try_from(began.elapsed().as_millis()).unwrap();
    let total = Tally {
        allowed: before.allowed + both.allowed,
        ..both
    };
    (total, RATE + RATE * took / 1000 + 1)
}

#[test]
fn a_primary_that_is_cut_off_grants_nothing_that_no_replica_knows_of() {
    let (alone, most) = split(&[]);
    println!("without witnesses {} of {most}", alone.allowed);
    assert!(
        alone.allowed > most,
        "two primaries have to let too much through, or this shows nothing: {alone:?}"
    );
    let (witnessed, most) = split(&["--redis-wait", "1"]);
    println!("with a witness {} of {most}", witnessed.allowed);
    assert!(witnessed.allowed <= most, "{witnessed:?}");
    assert!(
        witnessed.unavailable > 0,
        "the node beside it has nobody to ask: {witnessed:?}"
    );
}
