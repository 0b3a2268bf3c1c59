//! A fleet on a redis-server of the benchmark's own: what decisions cost, what Redis is asked, what is let through, and
//! how long somebody waits.

mod hot;
mod http;
mod node;
mod open_loop;
mod rate;
mod server;
mod steady;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use node::Node;
use tokio::task::JoinSet;
use tollgate_catalog::Request;

use crate::rounds::pin;

/// Where nodes run.
const OURS: usize = 0;
/// Where Redis runs, and whoever asks.
const THEIRS: usize = 1;

pub(crate) fn run(part: Option<&str>) {
    let directory = std::env::temp_dir().join(format!("tollgate-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    for (name, measure) in [
        ("hot", hot as fn(&Path)),
        ("rate", rate),
        ("steady", steady),
        ("http", http::run),
    ] {
        if part.is_none_or(|part| part == name) {
            measure(&directory);
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
}

fn hot(directory: &Path) {
    here().block_on(hot::run(directory));
}

fn rate(directory: &Path) {
    here().block_on(rate::run(directory));
}

fn steady(directory: &Path) {
    here().block_on(steady::run(directory));
}

/// This thread with all that it starts, on one core.
fn here() -> tokio::runtime::Runtime {
    pin(OURS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// A stack of three, the narrowest with so many requests a second.
fn three(limit: u64, accuracy: &str) -> String {
    let policy = |(scope, times): (&str, u64)| {
        let limit = limit * times;
        format!(
            "  - {{id: {scope}, scope: {scope}, algorithm: token_bucket, limit: {limit}, window: 1s, accuracy: {accuracy}, failMode: closed}}\n"
        )
    };
    let policies: String = [("key", 1), ("app", 2), ("org", 4)].map(policy).concat();
    format!("policies:\n{policies}")
}

/// The one who asks.
fn caller() -> Request<'static> {
    Request {
        org: Some("acme"),
        app: Some("web"),
        key: Some("key-7"),
        ..Request::new()
    }
}

/// Asks for so long, at a pace, and counts what was asked and what went through. Whatever has to wait for Redis waits
/// beside the rest.
async fn ask_at(node: &Arc<Node>, per_second: u64, lasting: Duration) -> (u64, u64) {
    let started = Instant::now();
    let (mut asked, mut waiting) = (0u64, JoinSet::new());
    let mut passed = 0;
    while started.elapsed() < lasting {
        let due = u64::try_from(started.elapsed().as_micros()).unwrap_or(0) * per_second / 1_000_000;
        while asked < due {
            asked += 1;
            match node.decide(&caller()) {
                Ok(allowed) => passed += u64::from(allowed),
                Err(wait) => {
                    let node = node.clone();
                    waiting.spawn(async move { node.finish(wait, &caller()).await });
                }
            }
        }
        while let Some(done) = waiting.try_join_next() {
            passed += u64::from(done.expect("a decision"));
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    while let Some(done) = waiting.join_next().await {
        passed += u64::from(done.expect("a decision"));
    }
    (asked, passed)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
