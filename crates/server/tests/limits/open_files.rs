//! Fewer open files than connections.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Launch, Server, wait_for};

const COMPLAINT: &str = "could not accept a connection";

fn server() -> Server {
    Server::launch(&Launch {
        policies: Some("policies: []\n"),
        flags: &["--threads", "1"],
        shell: Some("ulimit -n 80"),
        ..Launch::default()
    })
}

fn cpu_seconds(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

#[test]
fn a_server_that_may_open_fewer_files_than_connections_says_so_at_the_start() {
    let log = server().logs("--max-connections");
    assert!(
        log.contains("only 80 files") && log.contains("ulimit -n"),
        "{log}"
    );
    let enough = Server::start("policies: []\n", &["--max-connections", "10"]);
    enough.logs("serving");
    assert!(!enough.stderr().contains("ulimit"), "{}", enough.stderr());
}

#[test]
fn without_file_descriptors_it_complains_once_a_second_and_waits() {
    let server = server();
    // What was not needed for a while must not be made up for.
    server.logs("serving");
    let pause = |length| {
        let (_silent, pause) = std::sync::mpsc::channel::<()>();
        let _ = pause.recv_timeout(length);
    };
    pause(Duration::from_secs(3));
    let open: Vec<TcpStream> = (0..90).map(|_| connect(server.http)).collect();
    server.logs(COMPLAINT);
    let (begun, spent) = (Instant::now(), cpu_seconds(&server));
    pause(Duration::from_secs(3));
    let complaints = server.stderr().matches(COMPLAINT).count();
    assert!(
        (2..=5).contains(&complaints),
        "{complaints} in {:?}",
        begun.elapsed()
    );
    let spent = cpu_seconds(&server) - spent;
    assert!(spent < 1.0, "{spent} s of CPU for waiting");
    drop(open);
    wait_for("room", || {
        let stream = TcpStream::connect(server.http).ok()?;
        drop(stream);
        (server.check(&json!({})).status == 200).then_some(())
    });
}
