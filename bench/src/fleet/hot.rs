//! One hot caller, by leases and exactly, beside redis-benchmark.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_catalog::Request;

use super::node::Node;
use super::server::Server;
use super::{OURS, THEIRS, caller, median, three};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
/// Requests that wait for Redis at once: as many as redis-benchmark has under way.
const AT_ONCE: usize = 50 * 16;

pub(super) async fn run(directory: &Path) {
    let server = Server::start(THEIRS);
    // Nobody is ever refused.
    let leased = Node::join(&server, &three(100_000_000, "5%"), directory).await;
    let exact = Arc::new(Node::join(&server, &three(100_000_000, "exact"), directory).await);
    let (mut redis, mut ours, mut exactly, mut commands) = (vec![], vec![], vec![], vec![]);
    for round in 0..=ROUNDS {
        let benchmark = server.benchmark(OURS);
        let before = server.calls();
        let (rate, decided) = one_by_one(&leased).await;
        let calls = (server.calls() - before) as f64;
        let at_once = at_once(&exact).await;
        if round > 0 {
            redis.push(benchmark);
            ours.push(rate);
            commands.push(calls * 1e3 / decided as f64);
            exactly.push(at_once);
        }
    }
    let (redis, ours, exactly) = (median(redis), median(ours), median(exactly));
    println!("\n{:<50} {:>12}", "one org, app and key", "decisions/s");
    println!(
        "{:<50} {redis:>12.0}",
        "redis-benchmark -P 16, a script of three buckets"
    );
    println!("{:<50} {ours:>12.0}   {:.1} x", "accuracy: 5%", ours / redis);
    println!(
        "{:<50} {exactly:>12.0}   {:.2} x",
        "accuracy: exact, 800 requests at once",
        exactly / redis
    );
    println!(
        "{:<50} {:>12.2}",
        "Redis commands for 1,000 decisions at 5%",
        median(commands)
    );
    leased.leave().await;
    exact.leave().await;
}

async fn one_by_one(node: &Node) -> (f64, u64) {
    let (started, mut decided) = (Instant::now(), 0);
    while started.elapsed() < ROUND {
        for _ in 0..100 {
            assert!(node.check(&caller()).await, "refused");
        }
        decided += 100;
    }
    (decided as f64 / started.elapsed().as_secs_f64(), decided)
}

/// Another than the one who is lent something.
fn exact_caller() -> Request<'static> {
    Request {
        org: Some("exacting"),
        ..caller()
    }
}

async fn at_once(node: &Arc<Node>) -> f64 {
    let (started, mut asking) = (Instant::now(), JoinSet::new());
    for _ in 0..AT_ONCE {
        let node = node.clone();
        asking.spawn(async move {
            let mut decided = 0u64;
            while started.elapsed() < ROUND {
                assert!(node.check(&exact_caller()).await, "refused");
                decided += 1;
            }
            decided
        });
    }
    let mut decided = 0;
    while let Some(done) = asking.join_next().await {
        decided += done.expect("decisions");
    }
    decided as f64 / started.elapsed().as_secs_f64()
}
