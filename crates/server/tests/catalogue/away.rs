//! The database goes away under load, and comes back: decisions go on, writes are refused, nothing is lost.

use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Ask};
use crate::fleet::{
    ORG, ask_override, ask_policy, found, intact, override_to, pause, put_policy, seen, sees, two_nodes,
    until,
};
use crate::postgres::Postgres;

/// How many decisions each node has to make while there is no database.
const DECISIONS: u64 = 1_000;

#[test]
fn a_killed_database_stops_no_decision() {
    episode(Postgres::kill, Postgres::start_again);
}

#[test]
fn a_hanging_database_stops_no_decision() {
    let waits = episode(|postgres| postgres.pause(), |postgres| postgres.resume());
    // Each waits while the database is given time. One behind the other, the last would wait six times as long.
    for waits in waits {
        let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        assert!(*longest < *shortest * 3, "writes wait for each other: {waits:?}");
    }
}

/// Gives how long the writes that were sent to each node all at once waited to be refused.
fn episode(
    take_away: impl FnOnce(&mut Postgres),
    bring_back: impl FnOnce(&mut Postgres),
) -> [Vec<Duration>; 2] {
    let mut postgres = Postgres::start();
    let nodes = two_nodes(&postgres.create());
    let [a, b] = &nodes;
    found(a, 1_000);
    sees(b, 1_000);
    let loads = nodes.each_ref().map(|node| Load::on(node.http));

    take_away(&mut postgres);
    let before = loads.each_ref().map(Load::made);
    let waits = std::thread::scope(|scope| {
        let sent = nodes.each_ref().map(|node| {
            // Several, of which some have to wait for others.
            let asks = [ask_policy(node, 5_000), ask_override(node, 6_000)];
            let asks = asks.into_iter().flat_map(|ask| [ask.clone(), ask.clone(), ask]);
            asks.map(|ask| scope.spawn(|| refused(ask))).collect::<Vec<_>>()
        });
        sent.map(|asks| asks.into_iter().map(|ask| ask.join().unwrap()).collect())
    });
    for node in &nodes {
        until("the node to notice", || {
            node.counted("tollgate_catalogue_away") == 1
        });
        let ready = node.ask_admin("GET", "/readyz").send().expect(200);
        assert_eq!(ready["catalogue"], "away");
        assert_eq!(ready["status"], "degraded");
        assert_eq!(ready["degraded"][0]["part"], "database");
        let errors = || {
            node.stderr()
                .lines()
                .filter(|line| line.contains("ERROR"))
                .count()
        };
        let before = errors();
        for _ in 0..20 {
            refused(ask_policy(node, 5_000));
        }
        assert!(
            errors() < before + 20,
            "each write is an error: {}",
            node.stderr()
        );
        assert_eq!(seen(node), Some(1_000));
    }
    for (load, before) in loads.iter().zip(before) {
        until("decisions without a database", || {
            load.made() > before + DECISIONS
        });
    }

    bring_back(&mut postgres);
    for node in &nodes {
        until("the node to notice that it is back", || {
            node.counted("tollgate_catalogue_away") == 0
        });
        let ready = node.ask_admin("GET", "/readyz").send().expect(200);
        assert_eq!(ready["catalogue"], "postgres");
        assert_eq!(seen(node), Some(1_000));
        intact(node, 2);
    }
    put_policy(a, 2_000);
    sees(b, 2_000);
    override_to(b, 3_000);
    sees(a, 3_000);
    intact(a, 4);
    intact(b, 4);
    for load in loads {
        load.end();
    }
    for node in &nodes {
        node.logs("answers again");
        let log = node.stderr();
        let times = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        assert_eq!(times("the catalogue's database does not answer"), 1, "{log}");
        assert_eq!(times("the catalogue's database answers again"), 1, "{log}");
    }
    waits
}

/// How long a write waited to be refused.
fn refused(ask: Ask) -> Duration {
    let started = Instant::now();
    ask.send().problem(503);
    started.elapsed()
}

#[test]
fn a_node_ends_although_its_database_hangs() {
    let postgres = Postgres::start();
    let [a, b] = two_nodes(&postgres.create());
    found(&a, 1_000);
    sees(&b, 1_000);
    postgres.pause();
    // One that knows, and one that does not know yet.
    b.terminate();
    assert!(b.wait().success());
    until("the node to notice", || a.counted("tollgate_catalogue_away") == 1);
    a.terminate();
    assert!(a.wait().success());
    postgres.resume();
}

/// Somebody who asks for decisions all the time.
struct Load {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Load {
    fn on(address: SocketAddr) -> Self {
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, making) = (stop.clone(), made.clone());
        let thread = std::thread::spawn(move || ask_until(address, &stopped, &making));
        Self { stop, made, thread }
    }

    /// How many decisions there have been.
    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Ends it; not a single decision may have failed.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("every check is answered");
    }
}

fn ask_until(address: SocketAddr, stopped: &AtomicBool, made: &AtomicU64) {
    let body = json!({"orgId": ORG, "cost": 0}).to_string();
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut reader = BufReader::new(connect(address));
    while !stopped.load(Ordering::Relaxed) {
        reader.get_mut().write_all(request.as_bytes()).unwrap();
        let decision = Answer::read(&mut reader, "POST").expect(200);
        assert_eq!(decision["allowed"], true, "{decision}");
        made.fetch_add(1, Ordering::Relaxed);
        // Not all the machine's time.
        pause(Duration::from_micros(500));
    }
}
