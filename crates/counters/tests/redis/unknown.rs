//! Calls that are sent and have no reply: they count as unknown, and are never sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot::error::TryRecvError;
use tollgate_counters::redis::{Failure, Parts, Redis, Script, Value, Why};

use crate::node::{COUNT, connect, count, impatient, not_run, outcome, send, until, until_counted};
use crate::proxy::Proxy;
use crate::servers::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_lost_after_the_call_was_executed_is_unknown_and_the_call_is_not_repeated() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let redis = connect(&proxy.url()).await;
    assert_eq!(count(&redis, "before").await, Ok(Value::Int(1)));
    proxy.lose();
    assert_eq!(count(&redis, "a").await, Err(Failure::Unknown));
    proxy.pass();
    // On the next connection everything works; what comes before it in time has been executed by then.
    assert_eq!(until_counted(&redis, "after").await, Value::Int(1));
    assert_eq!(proxy.accepted(), 2);
    assert_eq!(server.run(&["GET", "a"]), "1");
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_calls_each_is_executed_at_most_once_and_each_known_result_is_true() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let redis = connect(&proxy.url()).await;
    let (mut ran, mut unknown) = (0, 0);
    for round in 0..20 {
        let calls: Vec<_> = (0..20).map(|_| send(&redis, &COUNT, &["a"])).collect();
        if round % 2 == 0 {
            proxy.lose();
        }
        for call in calls {
            match outcome(call).await {
                Ok(_) => ran += 1,
                Err(Failure::Unknown) => unknown += 1,
                Err(Failure::NotRun(Why::NotConnected)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        proxy.pass();
        until_counted(&redis, "b").await;
    }
    let counted: i32 = server.run(&["GET", "a"]).parse().unwrap();
    assert!(unknown > 0, "no reply was lost");
    assert!(
        (ran..=ran + unknown).contains(&counted),
        "{ran} {unknown} {counted}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_after_the_deadline_still_counts() {
    let server = Server::start();
    let proxy = Proxy::before(server.port);
    let redis = Redis::connect(impatient(&proxy.url())).await.unwrap();
    proxy.hold();
    let mut call = send(&redis, &COUNT, &["a"]);
    // Long after its deadline and its execution there is no outcome yet: waiting is for the caller to end.
    until("the call to be executed", async || {
        server.run(&["GET", "a"]) == "1"
    })
    .await;
    until("the silence to be noticed", async || {
        redis.health()[0].open_since.is_some()
    })
    .await;
    assert_eq!(call.try_recv(), Err(TryRecvError::Empty));
    proxy.pass();
    assert_eq!(outcome(call).await, Ok(Value::Int(1)));
    // The late reply shows that the server is there.
    assert_eq!(until_counted(&redis, "a").await, Value::Int(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_with_a_call_leaves_it_unknown() {
    static ENDLESS: Script = Script::new("endless", "redis.call('INCR', KEYS[1]) while true do end");
    let mut server = Server::start_with(&["--busy-reply-threshold", "1"]);
    let redis = connect(&server.url()).await;
    let call = send(&redis, &ENDLESS, &["a"]);
    until("the call to be executed", async || {
        server.run(&["PING"]).contains("BUSY")
    })
    .await;
    server.kill();
    assert_eq!(outcome(call).await, Err(Failure::Unknown));
    // Nothing is sent where nobody is.
    let next = count(&redis, "a").await;
    assert!(
        [not_run(Why::NotConnected), not_run(Why::Open)].contains(&next),
        "{next:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_a_reply_ends_as_unknown_and_may_be_executed_later() {
    let server = Server::start();
    let redis = Redis::connect(impatient(&server.url())).await.unwrap();
    assert!(count(&redis, "b").await.is_ok());
    server.pause();
    let call = send(&redis, &COUNT, &["a"]);
    assert_eq!(outcome(call).await, Err(Failure::Unknown));
    server.resume();
    assert_eq!(until_counted(&redis, "b").await, Value::Int(2));
    until("the call to be executed", async || {
        server.run(&["GET", "a"]) == "1"
    })
    .await;
}

#[test]
fn the_outcome_is_told_even_if_the_runtime_ends() {
    let server = Server::start();
    let told = Arc::new(AtomicUsize::new(0));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(async { connect(&server.url()).await });
    server.pause();
    for _ in 0..10 {
        let told = told.clone();
        let then = move |outcome| {
            assert_eq!(outcome, Err(Failure::Unknown));
            told.fetch_add(1, Ordering::SeqCst);
        };
        let build = |_: &_| {
            let mut parts = Parts::new();
            parts.key("a");
            parts
        };
        redis.call(0, &COUNT, build, then);
    }
    assert_eq!(told.load(Ordering::SeqCst), 0);
    drop(runtime);
    assert_eq!(told.load(Ordering::SeqCst), 10);
}
