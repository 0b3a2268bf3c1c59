//! Several descriptors as one, where nodes share their counters in Redis.

use serde_json::json;

use crate::asker::{Asker, codes, descriptor, edge, hits};
use crate::common::server::remaining;
use crate::common::{Server, file_of, wait_for};
use crate::servers;

/// Limits of orgs and across them, all decided in Redis.
fn node(redis: &servers::Server) -> Server {
    let exact = |id: &str, scope: &str, limit: u64, rest: &str| {
        format!(
            "{{id: {id}, scope: '{scope}', algorithm: fixed_window, anchor: first, limit: {limit}, window: 1h, accuracy: exact, failMode: closed{rest}}}"
        )
    };
    let policies = file_of(&[
        exact("org", "org", 40, ""),
        exact("user", "user", 10, ""),
        exact("place", "descriptor:place", 25, ""),
        exact("first", "descriptor:first", 3, ", quotaMode: true"),
        exact("second", "descriptor:second", 5, ", quotaMode: true"),
    ]);
    Server::start(&policies, &["--redis", &redis.url()])
}

#[test]
fn two_nodes_admit_no_more_than_the_tightest_of_all_descriptors() {
    let redis = servers::Server::start();
    let nodes = [node(&redis), node(&redis)];
    let askers = nodes.each_ref().map(Asker::of);
    let (mut admitted, mut decided, mut undecided) = (0, 0, 0);
    while decided < 60 {
        let question = edge(vec![
            descriptor(&[("place", "door")]),
            descriptor(&[("org", "acme"), ("user", &format!("u{}", decided % 5))]),
            descriptor(&[("org", "globex")]),
        ]);
        // On a busy machine Redis may be too slow for some.
        let Ok(answer) = askers[decided % 2].envoy(question) else {
            undecided += 1;
            continue;
        };
        decided += 1;
        admitted += usize::from(codes(&answer).0);
    }
    assert_eq!(admitted, 25);
    // What was lent to those that were refused goes back a little later; of what is not known it may be gone.
    wait_for("what the refused were lent to be back", || {
        let seen = nodes[0].check(&json!({"orgId": "acme", "cost": 0}));
        let left = (seen.status == 200).then(|| remaining(&seen.json(), "org"))?;
        assert!(left <= 15, "the admitted were charged");
        (left + undecided >= 15).then_some(())
    });
}

#[test]
fn quota_mode_asks_one_after_the_other() {
    let redis = servers::Server::start();
    let node = node(&redis);
    let asker = Asker::of(&node);
    let ask = || {
        wait_for("an answer", || {
            let question = edge(vec![
                descriptor(&[("first", "x")]),
                hits(descriptor(&[("second", "x")]), 1),
            ]);
            asker.envoy(question).ok()
        })
    };
    let allowed = (0..8).filter(|_| codes(&ask()).0).count();
    assert_eq!(allowed, 5);
}
