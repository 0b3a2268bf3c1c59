//! Redis loses what it knew: less is let through, never more.

use crate::common::{Server, wait_for};
use crate::load::{hammer, nodes};
use crate::servers;

const LIMIT: u64 = 3_000;

fn policy() -> Vec<String> {
    let policy = format!(
        "{{id: p, scope: org, algorithm: fixed_window, limit: {LIMIT}, window: 366d, failMode: closed}}"
    );
    vec![policy]
}

#[test]
fn flushed_in_the_middle() {
    let redis = servers::Server::start();
    let nodes = nodes::<3>(&policy(), &redis.url());
    let before = hammer(&nodes.each_ref(), "p", |tally| tally.allowed > 200);
    redis.ok(&["FLUSHALL"]);
    let after = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 200);
    println!("{} before, {} after", before.allowed, after.allowed);
    assert!(before.allowed > 0 && before.denied == 0, "{before:?}");
    assert!(before.allowed + after.allowed <= LIMIT, "{before:?} {after:?}");
    // Every node says so, once.
    let told = |node: &Server| node.stderr().matches("Redis has lost its counters").count();
    wait_for("all nodes to tell of it", || {
        nodes.iter().all(|node| told(node) > 0).then_some(())
    });
    assert_eq!(nodes.each_ref().map(told), [1; 3]);
    let losses = |node: &Server| node.counted("tollgate_store_losses_total{region=\"local\"}");
    assert!(
        nodes.iter().map(losses).sum::<u64>() > 0,
        "{}",
        nodes[0].metrics()
    );
}

#[test]
fn killed_and_started_without_its_data() {
    let mut redis = servers::Server::start();
    let nodes = nodes::<3>(&policy(), &redis.url());
    let before = hammer(&nodes.each_ref(), "p", |tally| tally.allowed > 200);
    redis.kill();
    redis.start_empty();
    let after = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 100);
    println!(
        "{} before, {} after, {} refused",
        before.allowed, after.allowed, after.unavailable
    );
    assert!(before.allowed + after.allowed <= LIMIT, "{before:?} {after:?}");
}

#[test]
fn a_node_that_is_killed_costs_what_it_had_on_lease() {
    let redis = servers::Server::start();
    let [first, second, mut third] = nodes::<3>(&policy(), &redis.url());
    let before = hammer(&[&first, &second, &third], "p", |tally| tally.allowed > 300);
    third.signal("KILL");
    let after = hammer(&[&first, &second], "p", |tally| tally.denied > 200);
    let total = before.allowed + after.allowed;
    println!("{total} of {LIMIT}");
    assert!(total <= LIMIT, "{before:?} {after:?}");
    assert!(total * 100 >= LIMIT * 95, "{before:?} {after:?}");
    third.restart("KILL");
    let late = hammer(&[&third], "p", |tally| tally.denied > 20);
    assert!(total + late.allowed <= LIMIT, "{late:?}");
}

#[test]
fn a_node_that_ends_in_order_gives_back_what_it_had() {
    let redis = servers::Server::start();
    let [first, second] = nodes::<2>(&policy(), &redis.url());
    let before = hammer(&[&first, &second], "p", |tally| tally.allowed > 300);
    second.terminate();
    assert!(second.wait().success());
    let after = hammer(&[&first], "p", |tally| tally.denied > 100);
    let total = before.allowed + after.allowed;
    println!("{total} of {LIMIT}");
    assert!(total <= LIMIT, "{before:?} {after:?}");
    // Of two leases that a node held of one counter only the last can come back; both are 2.5 % of the limit.
    assert!(total * 100 >= LIMIT * 97, "{before:?} {after:?}");
}

#[test]
fn scripts_are_loaded_again() {
    let redis = servers::Server::start();
    let nodes = nodes::<2>(&policy(), &redis.url());
    let before = hammer(&nodes.each_ref(), "p", |tally| tally.allowed > 100);
    redis.ok(&["SCRIPT", "FLUSH"]);
    let after = hammer(&nodes.each_ref(), "p", |tally| tally.denied > 100);
    let total = before.allowed + after.allowed;
    assert!(
        total <= LIMIT && total * 100 >= LIMIT * 95,
        "{before:?} {after:?}"
    );
    assert_eq!(after.unavailable, 0, "{after:?}");
}
