//! Three nodes that are asked for twice what a limit lets through.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use super::server::Server;
use super::{THEIRS, ask_at, median};

const LIMIT: u64 = 10_000;
const NODES: u32 = 3;
const LASTING: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;

pub(super) async fn run(directory: &Path) {
    println!(
        "\n{:<50} {:>12} {:>12}",
        "three nodes, 10,000/s, offered 20,000/s", "passed/s", "short of it"
    );
    for algorithm in [
        "token_bucket",
        "fixed_window",
        "sliding_window_counter",
        "sliding_window_log",
    ] {
        let server = Server::start(THEIRS);
        let policies = format!(
            "policies:\n  - {{id: org, scope: org, algorithm: {algorithm}, limit: {LIMIT}, window: 1s, failMode: closed}}\n"
        );
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Arc::new(Node::join(&server, &policies, directory).await));
        }
        // The burst goes first, and each node gets to know how much it is asked.
        ask_all(&nodes, Duration::from_secs(2)).await;
        let mut rates = vec![];
        for _ in 0..ROUNDS {
            rates.push(ask_all(&nodes, LASTING).await as f64 / LASTING.as_secs_f64());
        }
        let rate = median(rates);
        println!(
            "{algorithm:<50} {rate:>12.0} {:>10.2} %",
            100.0 * (1.0 - rate / LIMIT as f64)
        );
        let undecided: u64 = nodes.iter().map(|node| node.undecided()).sum();
        if undecided > 0 {
            println!("  {undecided} not decided: Redis did not answer in time");
        }
        for node in nodes {
            node.leave().await;
        }
    }
}

async fn ask_all(nodes: &[Arc<Node>], lasting: Duration) -> u64 {
    let per_node = 2 * LIMIT / u64::from(NODES);
    let mut asking = tokio::task::JoinSet::new();
    for node in nodes {
        let node = node.clone();
        asking.spawn(async move { ask_at(&node, per_node, lasting).await });
    }
    let mut passed = 0;
    while let Some(done) = asking.join_next().await {
        passed += done.expect("decisions").1;
    }
    passed
}
