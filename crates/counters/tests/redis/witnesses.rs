//! Replies that count only once replicas have what was written.

use tollgate_counters::redis::{Failure, Redis, StartError, Trouble, Value, Why};

use crate::node::{count, not_run, refused, settings, until};
use crate::servers::Server;

/// A primary and a replica that follows it.
fn pair() -> (Server, Server) {
    let (primary, replica) = (Server::start(), Server::start());
    replica.ok(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    crate::servers::wait_for("the replica to follow", || {
        replica.info("master_link_status") == "up"
    });
    (primary, replica)
}

/// Counts until a replica has seen it in time, which it need not at first.
async fn until_known(redis: &Redis) -> Value {
    let mut counted = None;
    until("a call that a replica has seen", async || {
        counted = count(redis, "a").await.ok();
        counted.is_some()
    })
    .await;
    counted.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_has_not_seen_does_not_count() {
    let (primary, replica) = pair();
    let mut ways = settings(&primary.url());
    ways.witnesses = 1;
    let redis = Redis::connect(ways).await.unwrap();
    let counted = until_known(&redis).await;
    assert_eq!(Value::Int(replica.run(&["GET", "a"]).parse().unwrap()), counted);
    replica.pause();
    let lost = count(&redis, "b").await;
    assert_eq!(lost, Err(Failure::Unknown));
    assert_eq!(primary.run(&["GET", "b"]), "1", "it ran all the same");
    until("it to be left alone", async || {
        count(&redis, "a").await == not_run(Why::Open)
    })
    .await;
    let health = redis.health();
    assert_eq!(
        health[0].trouble,
        Some(Trouble::Unwell(Why::TooFewReplicas)),
        "{health:?}"
    );
    replica.resume();
    assert_ne!(until_known(&redis).await, counted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_few_replicas_is_not_used() {
    let (primary, _replica) = pair();
    let mut ways = settings(&primary.url());
    ways.witnesses = 2;
    let error = refused(ways).await;
    assert!(
        error.may_pass() && error.to_string().contains("fewer replicas"),
        "{error}"
    );
    assert!(matches!(
        error,
        StartError::Server {
            trouble: Trouble::Unwell(Why::TooFewReplicas),
            ..
        }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_told_as_it_is() {
    let (primary, _replica) = pair();
    let mut ways = settings(&primary.url());
    ways.witnesses = 1;
    let redis = Redis::connect(ways).await.unwrap();
    primary.ok(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(count(&redis, "a").await, not_run(Why::OutOfMemory));
    primary.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    primary.ok(&["SCRIPT", "FLUSH"]);
    until_known(&redis).await;
}
