//! The number of nodes that a limit is shared by while Redis is unavailable: what a node knows of it outlives the node, and
//! where nothing is known it is rather too high.

use std::time::Duration;

use serde_json::json;

use crate::common::{Launch, Server, file_of, wait_for};
use crate::load::{ORG, hammer, nodes};
use crate::proxy::Proxy;
use crate::servers;

const LIMIT: u64 = 1_000;

fn policy() -> String {
    format!("{{id: p, scope: org, algorithm: fixed_window, limit: {LIMIT}, window: 366d, failMode: local}}")
}

/// How many nodes a limit is shared by, and how that is known.
fn sharing(node: &Server) -> (u64, String) {
    let of_fleet = || {
        let fleet = node.platform_admin().get("/v1/fleet").expect(200);
        let source = fleet["sharedByFrom"].as_str().unwrap().to_owned();
        (fleet["sharedBy"].as_u64().unwrap(), source)
    };
    wait_for("metrics that say what the fleet says", || {
        let (nodes, source) = of_fleet();
        let series = format!("tollgate_fleet_nodes_source{{region=\"local\",source=\"{source}\"}}");
        let shown = (
            node.counted("tollgate_fleet_nodes{region=\"local\"}"),
            node.counted(&series),
        );
        // It may change between the looks.
        (shown == (nodes, 1)).then_some((nodes, source))
    })
}

/// Waits until nodes know each other.
fn all_known(nodes: &[Server]) {
    let expected = (nodes.len() as u64, "redis".to_owned());
    for node in nodes {
        wait_for("all nodes to be known", || {
            let kept = std::fs::read_to_string(node.data("fleet-size")).unwrap_or_default();
            (sharing(node) == expected && kept.starts_with(&format!("{} ", expected.0))).then_some(())
        });
    }
}

#[test]
fn what_nodes_knew_outlives_them() {
    for signal in ["KILL", "TERM"] {
        let redis = servers::Server::start();
        let mut nodes = nodes::<3>(&[policy()], &redis.url());
        all_known(&nodes);
        redis.pause();
        std::thread::scope(|scope| {
            for node in &mut nodes {
                scope.spawn(|| node.restart(signal));
            }
        });
        for node in &nodes {
            assert_eq!(sharing(node), (3, "dataDirectory".to_owned()));
            let told = node.logs("retrying (next message in 60 s)");
            assert!(told.contains("dataDirectory"), "{told}");
        }
        for node in &nodes {
            let away = hammer(&[node], "p", |tally| tally.denied > 50);
            assert_eq!(away.allowed, LIMIT * 7 / 30, "a third of seven tenths: {away:?}");
        }
        redis.resume();
        for node in &nodes {
            // Those that were killed may still count among the living for a while.
            wait_for("all nodes to be known again", || {
                let (nodes, source) = sharing(node);
                (nodes >= 3 && source == "redis").then_some(())
            });
        }
    }
}

#[test]
fn a_node_that_knows_nothing_assumes_that_there_are_many() {
    let mut redis = servers::Server::start();
    redis.kill();
    let file = file_of(&[policy()]);
    let launch = |flags: &[&str], environment: &[(&str, &str)]| {
        Server::launch(&Launch {
            policies: Some(&file),
            flags: &[&["--redis", &redis.url(), "--threads", "1"], flags].concat(),
            environment,
            ..Launch::default()
        })
    };
    let unknowing = launch(&[], &[]);
    assert_eq!(sharing(&unknowing), (10, "assumption".to_owned()));
    let told = unknowing.logs("retrying (next message in 60 s)");
    assert!(told.contains("assumption"), "{told}");
    let away = hammer(&[&unknowing], "p", |tally| tally.denied > 50);
    assert_eq!((away.allowed, away.degraded), (LIMIT * 7 / 100, LIMIT * 7 / 100));
    let told = launch(&["--fleet-nodes", "4"], &[]);
    assert_eq!(sharing(&told), (4, "setting".to_owned()));
    let away = hammer(&[&told], "p", |tally| tally.denied > 50);
    assert_eq!(away.allowed, LIMIT * 7 / 40);
    assert_eq!(
        sharing(&launch(&[], &[("TOLLGATE_FLEET_NODES", "2")])),
        (2, "setting".to_owned())
    );
    redis.start_again();
    for (node, known) in [(unknowing, (2, "redis")), (told, (4, "setting"))] {
        wait_for("the fleet to be known", || {
            let (nodes, source) = sharing(&node);
            ((nodes, source.as_str()) == known).then_some(())
        });
    }
}

#[test]
fn nodes_know_each_other_on_a_redis_that_is_slower_than_requests_wait() {
    let redis = servers::Server::start();
    let proxy = Proxy::before(redis.port);
    proxy.delay(Duration::from_millis(100));
    let nodes = nodes::<2>(&[policy()], &proxy.url());
    all_known(&nodes);
    let body = json!({"orgId": ORG});
    assert!(nodes.iter().all(|node| node.check(&body).status == 200));
}
