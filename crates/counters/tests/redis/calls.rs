//! Calls that work, and what scripts and the server's time have to do with them.

use std::time::Instant;

use tokio::sync::oneshot;
use tollgate_counters::redis::{Failure, Link, Parts, Script, Value};

use crate::node::{COUNT, COUNT_BOTH, connect, count, outcome, owner, send, settings};
use crate::servers::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_runs_once_and_its_result_comes_back() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    assert_eq!(redis.slots(), 1);
    for number in 1..=3 {
        assert_eq!(count(&redis, "a").await, Ok(Value::Int(number)));
    }
    assert_eq!(server.run(&["GET", "a"]), "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_at_once_share_a_connection() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let calls: Vec<_> = (0..1000).map(|_| send(&redis, &COUNT, &["a"])).collect();
    let mut results = Vec::new();
    for call in calls {
        let Ok(Value::Int(number)) = outcome(call).await else {
            panic!("a call failed")
        };
        results.push(number);
    }
    results.sort_unstable();
    assert_eq!(results, (1..=1000).collect::<Vec<_>>());
    let clients = server.run(&["CLIENT", "LIST"]);
    let own = clients
        .lines()
        .filter(|line| !line.contains("cmd=client"))
        .count();
    assert_eq!(own, 1, "{clients}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_the_server_has_forgotten_is_told_again_and_runs_once() {
    let server = Server::start();
    let mut with_script = settings(&server.url());
    with_script.scripts = vec![&COUNT];
    let redis = tollgate_counters::redis::Redis::connect(with_script)
        .await
        .unwrap();
    assert_eq!(
        server.run(&["SCRIPT", "EXISTS", COUNT.hash()]),
        "1",
        "told when connected to"
    );
    server.ok(&["SCRIPT", "FLUSH"]);
    let calls: Vec<_> = (0..50).map(|_| send(&redis, &COUNT, &["a"])).collect();
    for call in calls {
        assert!(outcome(call).await.is_ok());
    }
    assert_eq!(server.run(&["GET", "a"]), "50");
    // One that it was never told is no different.
    assert_eq!(
        outcome(send(&redis, &COUNT_BOTH, &["b", "c"])).await,
        Ok(Value::Int(1))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_fails_may_have_written_before() {
    static HALF: Script = Script::new(
        "half",
        "redis.call('INCR', KEYS[1]) return redis.call('HGET', KEYS[1], 'x')",
    );
    static OWN: Script = Script::new(
        "own error",
        "redis.call('INCR', KEYS[1]) return redis.error_reply('MINE it is')",
    );
    static NONSENSE: Script = Script::new("nonsense", "return nothing.at.all");
    let server = Server::start();
    let redis = connect(&server.url()).await;
    for (script, text) in [(&HALF, "WRONGTYPE"), (&OWN, "MINE it is"), (&NONSENSE, "ERR")] {
        match outcome(send(&redis, script, &["a"])).await {
            Err(Failure::Failed(error)) => assert!(error.contains(text), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.run(&["GET", "a"]), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_time_lies_within_the_bounds() {
    static TIME: Script = Script::new(
        "time",
        "local t = redis.call('TIME') return tonumber(t[1]) * 1000000 + tonumber(t[2])",
    );
    let server = Server::start();
    let redis = connect(&server.url()).await;
    for _ in 0..100 {
        let (told, bounds) = oneshot::channel();
        let (sender, outcome) = oneshot::channel();
        let mut told = Some(told);
        let build = move |link: &Link| {
            // What is known of the time when a call is sent must hold when it is executed, however much later.
            let link = link.clone();
            if let Some(told) = told.take() {
                let _ = told.send((link, Instant::now()));
            }
            Parts::new()
        };
        redis.call(0, &TIME, build, |result| {
            let _ = sender.send((result, Instant::now()));
        });
        let ((link, sent), (result, received)) = (bounds.await.unwrap(), outcome.await.unwrap());
        let Ok(Value::Int(time)) = result else {
            panic!("{result:?}")
        };
        let time = u64::try_from(time).unwrap();
        let (least, greatest) = (*link.store_time(sent).start(), *link.store_time(received).end());
        assert!(
            (least..=greatest).contains(&time),
            "{time} is not in {least}..={greatest}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_know_whom_they_reach() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let expected = format!("{}:{}", server.info("run_id"), server.info("master_replid"));
    let owner = owner(&redis, "a").await;
    assert_eq!(owner.as_str(), expected);
    assert!(redis.is_alive_primary(&owner));
    let other = tollgate_counters::redis::Owner::new("someone", "else");
    assert!(!redis.is_alive_primary(&other));
}
