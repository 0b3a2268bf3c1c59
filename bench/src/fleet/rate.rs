//! How often Redis is asked about one caller who is decided a hundred thousand times a second, with room and without.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::node::Node;
use super::server::Server;
use super::{THEIRS, ask_at, three};

const PER_SECOND: u64 = 100_000;
const LASTING: Duration = Duration::from_secs(5);

pub(super) async fn run(directory: &Path) {
    println!(
        "\n{:<50} {:>12} {:>12} {:>12}",
        "one org, app and key, 5%", "asked/s", "passed/s", "calls/s"
    );
    for (what, limit) in [
        ("ten times the room it needs", 1_000_000),
        ("a tenth of the room it needs", 10_000),
    ] {
        let server = Server::start(THEIRS);
        let node = Arc::new(Node::join(&server, &three(limit, "5%"), directory).await);
        ask_at(&node, PER_SECOND, Duration::from_secs(1)).await;
        let before = server.calls();
        let (asked, passed) = ask_at(&node, PER_SECOND, LASTING).await;
        let each = |count: u64| count as f64 / LASTING.as_secs_f64();
        let calls = server.calls() - before;
        println!(
            "{what:<50} {:>12.0} {:>12.0} {:>12.0}",
            each(asked),
            each(passed),
            each(calls)
        );
        node.leave().await;
    }
}
