//! Nodes that are alive though nobody asks them anything: each lets through its share of a `local` quota while the ledger
//! is unavailable.

use std::time::Duration;

use serde_json::json;

use crate::common::clock::{Clock, pause};
use crate::common::{Server, file_of, wait_for};
use crate::postgres::Postgres;
use crate::world::quota;

const LIMIT: u64 = 200;
/// Seven tenths of the limit, by three nodes.
const SHARE: u64 = 46;

#[test]
fn nodes_that_are_quiet_are_counted() {
    let mut postgres = Postgres::start();
    let url = postgres.create();
    // It is moved ahead to have nodes quiet for long.
    let clock = Clock::at(i64::try_from(tollgate::clock::now().millis()).unwrap());
    let policies = file_of(&[quota("local", LIMIT, "failMode: local")]);
    let mut nodes = [(); 3].map(|()| clock.serve(&policies, &["--threads", "1", "--database", &url]));
    for node in &nodes {
        node.allowed(&json!({"orgId": "somebody"}));
    }
    let counted = |node: &Server| node.counted("tollgate_ledger_nodes");
    for node in &nodes {
        wait_for("all nodes to be counted", || (counted(node) == 3).then_some(()));
    }
    // What they hold goes back, and after that they have nothing to say.
    clock.set(clock.now() + 60_000);
    pause(Duration::from_secs(3));
    clock.set(clock.now() + 60_000);
    // Long enough for each to count again.
    pause(Duration::from_secs(6));
    assert_eq!(nodes.each_ref().map(counted), [3; 3]);
    postgres.kill();
    let allowed = |node: &Server| {
        let body = json!({"orgId": "acme"});
        let allowed = (0..LIMIT).filter(|_| node.check(&body).status == 200);
        allowed.count() as u64
    };
    assert_eq!(nodes.each_ref().map(allowed), [SHARE; 3]);
    // What a node knew outlives it.
    nodes[0].restart("KILL");
    assert_eq!((counted(&nodes[0]), allowed(&nodes[0])), (3, SHARE));
    // A node that knows nothing reckons with many.
    std::fs::remove_file(nodes[1].data("ledger-nodes")).unwrap();
    nodes[1].restart("KILL");
    assert!(allowed(&nodes[1]) < SHARE);
}
