//! Servers that fall silent, die and come back.

use std::io;
use std::sync::{Arc, Mutex};

use tollgate_counters::redis::{Failure, Redis, Value, Why};

use crate::node::{
    COUNT, connect, count, impatient, known, not_run, outcome, owner, refused, send, settings, until,
    until_counted,
};
use crate::servers::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_left_alone_until_it_answers() {
    let server = Server::start();
    let redis = Redis::connect(impatient(&server.url())).await.unwrap();
    assert_eq!(count(&redis, "b").await, Ok(Value::Int(1)));
    server.pause();
    let (mut sent, mut left_alone) = (Vec::new(), false);
    until("the server to be left alone", async || {
        let mut call = send(&redis, &COUNT, &["a"]);
        match call.try_recv() {
            Ok(refusal) => {
                assert_eq!(refusal, not_run(Why::Open));
                left_alone = true;
            }
            Err(_) => sent.push(call),
        }
        left_alone
    })
    .await;
    let health = redis.health();
    assert!(
        health[0].open_since.is_some() && health[0].connected,
        "{health:?}"
    );
    assert_eq!(health[0].in_flight, sent.len());
    server.resume();
    // Its late replies count, and show that it is there.
    let number = i64::try_from(sent.len()).unwrap();
    for call in sent {
        assert!(outcome(call).await.is_ok());
    }
    assert_eq!(until_counted(&redis, "a").await, Value::Int(number + 1));
    assert!(redis.health()[0].open_since.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silence_of_a_server_without_calls_is_noticed_too() {
    let server = Server::start();
    let redis = Redis::connect(impatient(&server.url())).await.unwrap();
    let owner = owner(&redis, "a").await;
    server.pause();
    until("the silence to be noticed", async || {
        redis.health()[0].open_since.is_some()
    })
    .await;
    until("its word to be too old", async || !redis.is_alive_primary(&owner)).await;
    server.resume();
    until("the end of it", async || redis.health()[0].open_since.is_none()).await;
    until("it to be known as the same as before", async || {
        redis.is_alive_primary(&owner)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_and_started_again_is_another_owner() {
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let redis = connect(&server.url()).await;
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    let mut before = owner(&redis, "a").await;
    // With its data, then without.
    for (start, counted) in [
        (Server::start_again as fn(&mut Server), 2),
        (Server::start_empty, 1),
    ] {
        server.kill();
        until("its end to be noticed", async || {
            count(&redis, "a").await == not_run(Why::Open)
        })
        .await;
        assert!(!redis.is_alive_primary(&before));
        assert!(!redis.health()[0].connected);
        start(&mut server);
        assert_eq!(until_counted(&redis, "a").await, Value::Int(counted));
        let after = owner(&redis, "a").await;
        assert_ne!(after, before);
        before = after;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_is_the_same_owner() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let before = owner(&redis, "a").await;
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    server.ok(&["FLUSHALL"]);
    assert_eq!(count(&redis, "a").await, Ok(Value::Int(1)));
    assert_eq!(owner(&redis, "a").await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_promoted_after_a_while_as_replica_is_another_owner() {
    let (server, other) = (Server::start(), Server::start());
    let redis = connect(&server.url()).await;
    let before = owner(&redis, "a").await;
    server.ok(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]);
    until("the copy", async || server.info("master_link_status") == "up").await;
    server.ok(&["REPLICAOF", "NO", "ONE"]);
    until("the change to be noticed", async || {
        until_counted(&redis, "a").await;
        owner(&redis, "a").await != before
    })
    .await;
    assert!(!redis.is_alive_primary(&before));
    let after = known(&redis, "a").await;
    assert!(after.owner().is_same_run(&before) && after.is_promoted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_gets_its_first_replica_is_another_owner_but_the_same_run_and_not_promoted() {
    let (server, replica) = (Server::start(), Server::start());
    let redis = connect(&server.url()).await;
    let before = owner(&redis, "a").await;
    replica.ok(&["REPLICAOF", "127.0.0.1", &server.port.to_string()]);
    until("the change to be noticed", async || {
        owner(&redis, "a").await != before
    })
    .await;
    let after = known(&redis, "a").await;
    assert!(after.owner().is_same_run(&before) && !after.is_promoted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_is_made_again_and_costs_nothing_else() {
    let server = Server::start();
    let redis = connect(&server.url()).await;
    let before = owner(&redis, "a").await;
    for number in 1..=5 {
        server.run(&["CLIENT", "KILL", "TYPE", "normal"]);
        let counted = loop {
            match count(&redis, "a").await {
                Ok(value) => break value,
                // The server closes before it reads, but the client can't know.
                Err(Failure::Unknown | Failure::NotRun(Why::NotConnected)) => {}
                Err(other) => panic!("{other}"),
            }
        };
        assert_eq!(counted, Value::Int(number));
    }
    assert_eq!(owner(&redis, "a").await, before);
}

/// What is logged by this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone());
        tracing::subscriber::set_default(subscriber.finish())
    }

    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

// Everything runs on one thread, whose log is listened to.
#[tokio::test]
async fn an_outage_is_one_line_at_its_beginning_and_one_at_its_end() {
    let log = Log::default();
    let _listening = log.listen();
    let mut server = Server::start_with(&["--requirepass", "secret"]);
    let url = format!("redis://:secret@{}", server.address());
    let redis = Redis::connect(settings(&url)).await.unwrap();
    assert_eq!(log.lines(), Vec::<String>::new());
    server.kill();
    until("several attempts", async || {
        let before = count(&redis, "a").await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        before == not_run(Why::Open)
    })
    .await;
    server.start_again();
    until_counted(&redis, "a").await;
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains("can't be reached"),
        "{lines:?}"
    );
    assert!(lines[1].contains("INFO") && lines[1].contains("answers again") && lines[1].contains("lasted="));
    assert!(
        lines
            .iter()
            .all(|line| line.contains(&server.address()) && !line.contains("secret"))
    );
}

#[tokio::test]
async fn a_user_without_the_right_is_one_clear_line() {
    let log = Log::default();
    let _listening = log.listen();
    let server = Server::start();
    server.ok(&[
        "ACL", "SETUSER", "tollgate", "on", ">secret", "~*", "+@all", "-evalsha",
    ]);
    let redis = connect(&format!("redis://tollgate:secret@{}", server.address())).await;
    for _ in 0..10 {
        assert_eq!(count(&redis, "a").await, not_run(Why::NotPermitted));
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("ERROR") && lines[0].contains("evalsha"),
        "{lines:?}"
    );
    assert!(!lines[0].contains("secret"));
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_for_the_caller_to_tell() {
    let log = Log::default();
    let _listening = log.listen();
    let server = Server::start_with(&["--maxmemory-policy", "allkeys-lru"]);
    refused(settings(&server.url())).await;
    assert_eq!(log.lines(), Vec::<String>::new());
    // Whoever does not wait for it finds it in the log.
    let _redis = Redis::later(settings(&server.url())).unwrap();
    until("the line", async || log.lines().len() == 1).await;
    assert!(
        log.lines()[0].contains("maxmemory-policy allkeys-lru"),
        "{:?}",
        log.lines()
    );
}
