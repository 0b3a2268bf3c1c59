//! A Cluster: slots that move, primaries that change.

use tollgate_counters::redis::{
    Failure, Owner, Redis, SLOTS, Value, Why, slot_of_key, slot_of_tag, tag_of_slot,
};

use crate::node::{
    COUNT_BOTH, connect, count, not_run, outcome, owner, send, settings, until, until_counted,
};
use crate::servers::Cluster;

/// A key of a slot.
fn key(slot: u16, name: &str) -> String {
    format!("{name}:{{{}}}", tag_of_slot(slot))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_to_the_primary_of_their_slot() {
    let cluster = Cluster::start();
    let redis = connect(&cluster.url()).await;
    assert_eq!(redis.slots(), SLOTS);
    let mut owners: Vec<Owner> = Vec::new();
    for (slot, place) in [(0, 0), (5460, 0), (5461, 1), (10922, 1), (10923, 2), (16383, 2)] {
        let key = key(slot, "a");
        assert_eq!(slot_of_key(key.as_bytes()), slot);
        assert_eq!(redis.slot_of(tag_of_slot(slot).to_string().as_bytes()), slot);
        assert_eq!(
            cluster.servers[0].run(&["CLUSTER", "KEYSLOT", &key]),
            slot.to_string()
        );
        assert_eq!(count(&redis, &key).await, Ok(Value::Int(1)));
        assert_eq!(cluster.servers[place].run(&["GET", &key]), "1");
        owners.push(owner(&redis, &key).await);
    }
    owners.dedup();
    assert_eq!(owners.len(), 3);
    assert!(owners.iter().all(|owner| redis.is_alive_primary(owner)));
    assert_eq!(redis.health().len(), 3);
    // Keys of two slots are never taken, whichever is named first.
    let (one, two) = (key(0, "a"), key(1, "a"));
    assert_eq!(
        outcome(send(&redis, &COUNT_BOTH, &[&one, &two])).await,
        not_run(Why::CrossSlot)
    );
    assert_eq!(count(&redis, &one).await, Ok(Value::Int(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_is_followed_and_nothing_is_lost_or_done_twice() {
    let cluster = Cluster::start();
    let redis = connect(&cluster.url()).await;
    let slot = 42;
    let (one, two, new) = (key(slot, "one"), key(slot, "two"), key(slot, "new"));
    assert_eq!(
        outcome(send(&redis, &COUNT_BOTH, &[&one, &two])).await,
        Ok(Value::Int(1))
    );
    let before = owner(&redis, &one).await;
    let elsewhere = owner(&redis, &key(6000, "x")).await;
    assert!(!redis.has_handed_over(&before, slot).await);

    cluster.begin_to_move(slot, 0, 1);
    assert!(redis.has_handed_over(&before, slot).await, "it is about to");
    assert!(!redis.has_handed_over(&before, slot + 1).await);
    // A key that is still there is counted there, and one that is not, at the other end.
    assert_eq!(count(&redis, &one).await, Ok(Value::Int(2)));
    assert_eq!(count(&redis, &new).await, Ok(Value::Int(1)));
    cluster.move_key(&one, 0, 1);
    assert_eq!(count(&redis, &one).await, Ok(Value::Int(3)));
    // With keys at both ends there is nothing to do but wait.
    let mut hasty = settings(&cluster.url());
    hasty.deadline = std::time::Duration::from_millis(20);
    let hasty = Redis::connect(hasty).await.unwrap();
    until("the refusal", async || {
        let result = outcome(send(&hasty, &COUNT_BOTH, &[&one, &two])).await;
        assert!(matches!(result, Err(Failure::NotRun(_))), "{result:?}");
        result == not_run(Why::TryAgain)
    })
    .await;
    // Whoever waits long enough gets through.
    let waiting = send(&redis, &COUNT_BOTH, &[&one, &two]);
    cluster.move_key(&two, 0, 1);
    let waited = outcome(waiting).await;
    let counted = i64::from(waited.is_ok());
    assert!(
        waited == Ok(Value::Int(2)) || waited == not_run(Why::TryAgain),
        "{waited:?}"
    );
    cluster.end_move(slot, 0, 1);

    // The map is wrong now, and is learnt on the way.
    assert_eq!(count(&redis, &one).await, Ok(Value::Int(4 + counted)));
    assert_eq!(count(&hasty, &two).await, Ok(Value::Int(2 + counted)));
    until("the map to be right", async || {
        owner(&redis, &one).await == elsewhere
    })
    .await;
    assert!(redis.is_alive_primary(&before));
    assert!(redis.has_handed_over(&before, slot).await);
    assert!(!redis.has_handed_over(&elsewhere, slot).await);
    assert_eq!(cluster.servers[1].run(&["GET", &new]), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_and_is_another_owner() {
    let cluster = Cluster::start();
    let redis = connect(&cluster.url()).await;
    let key = key(7, "a");
    assert_eq!(count(&redis, &key).await, Ok(Value::Int(1)));
    let before = owner(&redis, &key).await;
    let replica = cluster.replica_of(0);
    cluster.servers[replica].ok(&["CLUSTER", "FAILOVER"]);
    let mut ran = 1;
    until("the promotion", async || {
        match count(&redis, &key).await {
            Ok(value) => {
                ran += 1;
                assert_eq!(value, Value::Int(ran));
            }
            Err(Failure::NotRun(_)) => {}
            Err(other) => panic!("{other}"),
        }
        owner(&redis, &key).await != before
    })
    .await;
    assert_eq!(cluster.primary_of(7), replica);
    until("the old one to be known as replica", async || {
        !redis.is_alive_primary(&before)
    })
    .await;
    assert!(!redis.has_handed_over(&before, 7).await);
    assert_eq!(until_counted(&redis, &key).await, Value::Int(ran + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_a_primary_calls_run_again_and_the_others_never_stop() {
    let mut cluster = Cluster::start_hasty();
    let redis = connect(&cluster.url()).await;
    let (dying, other) = (key(7, "a"), key(16000, "b"));
    assert_eq!(count(&redis, &dying).await, Ok(Value::Int(1)));
    // It must have reached the replica, or the count may go back.
    cluster.servers[0].run(&["WAIT", "1", "0"]);
    let before = owner(&redis, &dying).await;
    cluster.servers[0].kill();
    let mut others = 0;
    until("the promotion", async || {
        others += 1;
        // Every slot but those of the dead one is served, as long as the Cluster has not noticed.
        let result = count(&redis, &other).await;
        assert!(
            result.is_ok() || result == not_run(Why::ClusterDown),
            "{result:?}"
        );
        match count(&redis, &dying).await {
            Ok(value) => value == Value::Int(2),
            // The end of the connection may not have been noticed when the call was sent.
            Err(Failure::NotRun(_) | Failure::Unknown) => false,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    assert!(others > 1, "there was no outage at all");
    assert!(!redis.is_alive_primary(&before));
    assert!(!redis.has_handed_over(&before, 7).await);
    assert_ne!(owner(&redis, &dying).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_nobody_serves_executes_nothing() {
    let cluster = Cluster::start();
    let redis = connect(&cluster.url()).await;
    let slot = slot_of_tag(b"x");
    let place = cluster.primary_of(slot);
    let mut ran = 0;
    until("the refusal", async || {
        until_counted(&redis, "{x}").await;
        ran += 1;
        for server in &cluster.servers {
            server.run(&["CLUSTER", "DELSLOTS", &slot.to_string()]);
        }
        let result = count(&redis, "{x}").await;
        cluster.servers[place].ok(&["CLUSTER", "ADDSLOTS", &slot.to_string()]);
        // The map may have been asked for just then.
        assert!(
            [not_run(Why::ClusterDown), not_run(Why::NotConnected)].contains(&result),
            "{result:?}"
        );
        result == not_run(Why::ClusterDown)
    })
    .await;
    assert_eq!(until_counted(&redis, "{x}").await, Value::Int(ran + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_can_be_connected_to_later_and_by_a_replica() {
    let mut cluster = Cluster::start();
    let only = format!("redis-cluster://{}", cluster.servers[5].address());
    let redis = connect(&only).await;
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    cluster.servers[5].kill();
    let later = Redis::later(settings(&only)).unwrap();
    assert_eq!(count(&later, "a").await, not_run(Why::NotConnected));
    cluster.servers[5].start_again();
    assert_eq!(until_counted(&later, "a").await, Value::Int(2));
}
