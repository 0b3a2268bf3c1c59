//! The same on a Redis Cluster.

use tollgate_counters::redis::slot_of_tag;

use crate::load::{ORG, hammer, hammer_at, nodes};
use crate::servers;

const LIMIT: u64 = 3_000;

fn policies() -> Vec<String> {
    [
        "{id: all, scope: global, algorithm: fixed_window, limit: 100000, window: 366d, failMode: closed}"
            .to_owned(),
        format!(
            "{{id: p, scope: org, algorithm: fixed_window, limit: {LIMIT}, window: 366d, failMode: closed}}"
        ),
        "{id: key, scope: key, algorithm: sliding_window_log, limit: 100000, window: 1h, failMode: closed}"
            .to_owned(),
    ]
    .to_vec()
}

#[test]
fn one_limit_for_three_nodes() {
    let cluster = servers::Cluster::start();
    let nodes = nodes::<3>(&policies(), &cluster.url());
    let tally = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 200);
    println!("{} of {LIMIT}", tally.allowed);
    assert!(
        tally.allowed <= LIMIT && tally.allowed * 100 >= LIMIT * 95,
        "{tally:?}"
    );
}

#[test]
fn a_failover_under_load_lets_nothing_more_through() {
    let cluster = servers::Cluster::start();
    let nodes = nodes::<3>(&policies(), &cluster.url());
    let slot = slot_of_tag(ORG.as_bytes());
    let addresses = nodes.each_ref().map(|node| node.http);
    let tally = std::thread::scope(|scope| {
        let load = scope.spawn(|| hammer_at(&addresses, "p", |tally| tally.denied > 100));
        let primary = cluster.primary_of(slot);
        let replica = cluster.replica_of(primary);
        cluster.servers[replica].ok(&["CLUSTER", "FAILOVER"]);
        load.join().unwrap()
    });
    println!("{} of {LIMIT}, {} refused", tally.allowed, tally.unavailable);
    assert!(tally.allowed <= LIMIT, "{tally:?}");
}

#[test]
fn a_primary_that_is_killed_under_load_lets_nothing_more_through() {
    let mut cluster = servers::Cluster::start_hasty();
    let nodes = nodes::<3>(&policies(), &cluster.url());
    let primary = cluster.primary_of(slot_of_tag(ORG.as_bytes()));
    let addresses = nodes.each_ref().map(|node| node.http);
    let tally = std::thread::scope(|scope| {
        let load = scope.spawn(|| hammer_at(&addresses, "p", |tally| tally.denied > 100));
        cluster.servers[primary].kill();
        load.join().unwrap()
    });
    println!("{} of {LIMIT}, {} refused", tally.allowed, tally.unavailable);
    assert!(tally.allowed <= LIMIT, "{tally:?}");
}

#[test]
fn a_slot_that_moves_under_load_keeps_its_counts() {
    let cluster = servers::Cluster::start();
    let nodes = nodes::<2>(&policies(), &cluster.url());
    let slot = slot_of_tag(ORG.as_bytes());
    let from = cluster.primary_of(slot);
    let to = cluster.primary_of(if from == cluster.primary_of(0) { 16_383 } else { 0 });
    let addresses = nodes.each_ref().map(|node| node.http);
    let tally = std::thread::scope(|scope| {
        let load = scope.spawn(|| hammer_at(&addresses, "p", |tally| tally.denied > 100));
        cluster.begin_to_move(slot, from, to);
        loop {
            let keys = cluster.servers[from].run(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"]);
            let keys: Vec<&str> = keys.lines().filter(|key| !key.is_empty()).collect();
            if keys.is_empty() {
                break;
            }
            for key in keys {
                cluster.move_key(key, from, to);
            }
        }
        cluster.end_move(slot, from, to);
        load.join().unwrap()
    });
    println!("{} of {LIMIT}, {} refused", tally.allowed, tally.unavailable);
    assert!(tally.allowed <= LIMIT, "{tally:?}");
    assert!(
        tally.allowed * 100 >= LIMIT * 90,
        "a planned migration loses nothing: {tally:?}"
    );
}
