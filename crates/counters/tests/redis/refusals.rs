//! Calls that a server refuses: nothing of them was executed.

use std::process::{Command, Stdio};

use tollgate_counters::redis::{Failure, Redis, Script, Trouble, Value, Why};

use crate::node::{
    COUNT, COUNT_BOTH, DECLARED, connect, count, impatient, not_run, outcome, send, settings, until,
    until_counted,
};
use crate::proxy::Proxy;
use crate::servers::Server;

/// Calls, plain and declared, until both were refused for a reason. The server may be left alone before, because it
/// is asked who it is now and then; so it is set right and wrong again.
async fn provoke(redis: &Redis, why: Why, wrong: impl Fn(), right: impl Fn()) {
    for script in [&COUNT, &DECLARED] {
        until("the refusal", async || {
            until_counted(redis, "b").await;
            wrong();
            let result = outcome(send(redis, script, &["a"])).await;
            right();
            let other = [not_run(Why::Open), not_run(Why::NotConnected)];
            assert!(result == not_run(why) || other.contains(&result), "{result:?}");
            result == not_run(why)
        })
        .await;
    }
    assert_eq!(
        until_counted(redis, "a").await,
        Value::Int(1),
        "none was executed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_out_of_memory_executes_nothing() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let set = |bytes| server.ok(&["CONFIG", "SET", "maxmemory", bytes]);
    provoke(&redis, Why::OutOfMemory, || set("1"), || set("0")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_replicas_executes_nothing() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let set = |number| server.ok(&["CONFIG", "SET", "min-replicas-to-write", number]);
    provoke(&redis, Why::TooFewReplicas, || set("1"), || set("0")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_full_disk_executes_nothing() {
    let server = Server::start_with(&["--dbfilename", "blocked"]);
    let redis = connect(&server.url()).await;
    std::fs::create_dir(server.directory().join("blocked")).unwrap();
    server.ok(&["CONFIG", "SET", "save", "3600 1"]);
    server.ok(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    server.run(&["BGSAVE"]);
    until("the failure", async || {
        server.info("rdb_last_bgsave_status") == "err"
    })
    .await;
    let set = |stop| server.ok(&["CONFIG", "SET", "stop-writes-on-bgsave-error", stop]);
    provoke(&redis, Why::DiskError, || set("yes"), || set("no")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_become_a_replica_executes_nothing_and_is_left() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let follow = || server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
    let lead = || server.ok(&["REPLICAOF", "NO", "ONE"]);
    provoke(&redis, Why::ReadOnly, follow, lead).await;
    follow();
    until("it to be left", async || {
        redis.health()[0].trouble == Some(Trouble::Replica) && count(&redis, "a").await == not_run(Why::Open)
    })
    .await;
    lead();
    assert_eq!(until_counted(&redis, "a").await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_has_lost_its_primary_executes_nothing() {
    let server = Server::start();
    server.ok(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    let redis = connect(&server.url()).await;
    until("the refusal", async || {
        until_counted(&redis, "b").await;
        server.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        let result = count(&redis, "a").await;
        server.ok(&["REPLICAOF", "NO", "ONE"]);
        assert!(matches!(result, Err(Failure::NotRun(_))), "{result:?}");
        result == not_run(Why::MasterDown)
    })
    .await;
    assert_eq!(until_counted(&redis, "a").await, Value::Int(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_reads_its_data_executes_nothing_until_it_has() {
    let server = Server::start();
    server.ok(&["DEBUG", "POPULATE", "40", "key", "2000"]);
    let redis = connect(&server.url()).await;
    assert!(count(&redis, "a").await.is_ok());
    server.ok(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
    server.ok(&["CONFIG", "SET", "key-load-delay", "50000"]);
    let mut reload = client(&server, &["DEBUG", "RELOAD"]);
    let mut results = Vec::new();
    until("the server to have been loading", async || {
        results.push(count(&redis, "a").await);
        results.contains(&not_run(Why::Loading))
    })
    .await;
    until("it to be left alone", async || {
        count(&redis, "a").await == not_run(Why::Open)
    })
    .await;
    reload.wait().unwrap();
    let ran = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(
        until_counted(&redis, "a").await,
        Value::Int(2 + i64::try_from(ran).unwrap())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_held_up_by_a_script_executes_nothing_else() {
    let server = Server::start_with(&["--busy-reply-threshold", "1"]);
    let redis = connect(&server.url()).await;
    assert!(count(&redis, "a").await.is_ok());
    let mut busy = client(&server, &["EVAL", "while true do end", "0"]);
    let mut ran = 1;
    until("the refusal", async || match count(&redis, "a").await {
        Ok(_) => {
            ran += 1;
            false
        }
        other => {
            assert_eq!(other, not_run(Why::Busy));
            true
        }
    })
    .await;
    server.ok(&["SCRIPT", "KILL"]);
    busy.wait().unwrap();
    assert_eq!(until_counted(&redis, "a").await, Value::Int(ran + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_right_executes_nothing_and_one_with_half_of_it_perhaps_something() {
    static TWO: Script = Script::new(
        "two",
        "redis.call('INCR', KEYS[1]) return redis.call('SET', KEYS[1], 7)",
    );
    let server = Server::start();
    let user = |rules: &[&str]| server.ok(&[&["ACL", "SETUSER", "tollgate"], rules].concat());
    user(&["on", ">secret", "~*", "+@all"]);
    let redis = connect(&format!("redis://tollgate:secret@{}", server.address())).await;
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    user(&["-evalsha"]);
    assert_eq!(count(&redis, "a").await, not_run(Why::NotPermitted));
    user(&["+evalsha", "resetkeys", "~b"]);
    assert_eq!(count(&redis, "a").await, not_run(Why::NotPermitted));
    user(&["~*", "-set"]);
    match outcome(send(&redis, &TWO, &["a"])).await {
        Err(Failure::Failed(error)) => assert!(error.contains("can't run this command"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.run(&["GET", "a"]), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_bound_are_not_sent() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let mut few = settings(&proxy.url());
    few.in_flight = 10;
    let redis = Redis::connect(few).await.unwrap();
    proxy.hold();
    let mut calls: Vec<_> = (0..15).map(|_| send(&redis, &COUNT, &["a"])).collect();
    for call in calls.drain(10..) {
        assert_eq!(outcome(call).await, not_run(Why::Full));
    }
    proxy.pass();
    for call in calls {
        assert!(outcome(call).await.is_ok());
    }
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(11)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_not_told_again_after_the_deadline() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let redis = Redis::connect(impatient(&proxy.url())).await.unwrap();
    proxy.hold();
    let call = send(&redis, &COUNT_BOTH, &["a", "b"]);
    until("the deadline to pass", async || {
        redis.health()[0].open_since.is_some()
    })
    .await;
    proxy.pass();
    assert_eq!(outcome(call).await, not_run(Why::NoScript));
    assert_eq!(server.run(&["EXISTS", "a", "b"]), "0");
}

/// A client that waits for its reply.
fn client(server: &Server, words: &[&str]) -> std::process::Child {
    Command::new("redis-cli")
        .args(["-p", &server.port.to_string()])
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}
