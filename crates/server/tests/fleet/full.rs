//! A node of a fleet that has no room for more counters.

use serde_json::json;

use crate::common::{Launch, Server, file_of, hourly};
use crate::servers;

#[test]
fn whoever_finds_no_room_is_counted() {
    let redis = servers::Server::start();
    let node = Server::launch(&Launch {
        policies: Some(&file_of(&[hourly("by-key", "key", 10, "")])),
        flags: &["--redis", &redis.url(), "--threads", "1", "--max-counters", "100"],
        ..Launch::default()
    });
    let mut refused = 0;
    for number in 0..150 {
        let answer = node.check(&json!({"orgId": format!("org-{number}"), "keyId": "k"}));
        match answer.status {
            200 => {}
            503 => {
                let detail = answer.problem(503);
                assert!(detail.contains("the counter store is full"), "{detail}");
                refused += 1;
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert!(refused > 0);
    assert_eq!(node.counted("tollgate_counters_refused_total"), refused);
    assert_eq!(node.counted("tollgate_counters"), 150 - refused);
}
