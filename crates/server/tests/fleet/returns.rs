//! Hits that are given back: to what the node that is asked holds on lease, and never more than it let through.

use serde_json::{Value, json};

use crate::common::{Answer, Server};
use crate::load::nodes;
use crate::servers;

const LIMIT: u64 = 2_000;

fn ask(node: &Server, descriptor: &Value) -> Answer {
    let body = json!({"domain": "edge", "descriptors": [descriptor]});
    node.ask("POST", "/json").body(body.to_string()).send()
}

fn hits(org: &str, number: u64, negative: bool) -> Value {
    json!({
        "entries": [{"key": "org", "value": org}],
        "hitsAddend": number.to_string(),
        "isNegativeHits": negative,
    })
}

/// Takes one after the other until there are no more, or as many as wanted.
fn take(node: &Server, org: &str, most: u64) -> u64 {
    let taken = (0..most).take_while(|_| ask(node, &hits(org, 1, false)).status == 200);
    taken.count() as u64
}

#[test]
fn what_a_node_holds_is_given_back_and_no_more() {
    let policy = format!(
        "{{id: p, scope: org, algorithm: fixed_window, anchor: first, limit: {LIMIT}, window: 1h, accuracy: 20%, failMode: closed}}"
    );
    let redis = servers::Server::start();
    let [node, other] = nodes::<2>(&[policy], &redis.url());
    // A node that is kept from running for a moment has given its leases back itself, and is asked again.
    let given = (0..5).any(|attempt| {
        let org = format!("org-{attempt}");
        let taken = take(&node, &org, LIMIT / 2);
        assert_eq!(taken, LIMIT / 2);
        // The other one has let nothing through that it could give back, whatever it is told.
        for node in [&node, &other] {
            ask(node, &hits(&org, LIMIT, true)).expect(200);
        }
        let rest = take(&node, &org, 2 * LIMIT) + take(&other, &org, 2 * LIMIT);
        assert!(rest <= LIMIT, "{rest} of {LIMIT}");
        rest > LIMIT - taken
    });
    assert!(given, "nothing was given back");
}
