//! What becomes of a command whose output nobody takes.
#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::fs::File;
use std::process::{Output, Stdio};

use super::Files;
use crate::common::Server;
use crate::common::process::program;

const POLICIES: &str = "policies:\n  - {id: day, scope: org, limit: 5, window: day}\n";

/// A device without room.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe that is no longer read.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn run_into(args: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = program(args);
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.output().unwrap()
}

/// More requests than are written at once.
fn requests() -> String {
    let mut lines = String::new();
    for at in 0..2_000 {
        let _ = writeln!(lines, "{{\"at\":{at},\"orgId\":\"acme\"}}");
    }
    lines
}

fn check_all(commands: &[&[&str]]) {
    for args in commands {
        let run = run_into(args, full(), Stdio::piped());
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2), "{args:?}: {said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: the output can't be written: No space left"),
            "{args:?}: {said}"
        );
        let run = run_into(args, closed(), Stdio::piped());
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(141), "{args:?}: {said}");
        assert!(
            !said.contains("error") && !said.contains("panicked"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn a_full_device_is_one_sentence_and_a_reader_that_has_gone_none() {
    let files = Files::new();
    let (good, bad) = (
        files.write("good.yaml", POLICIES),
        files.write("bad.yaml", "polices: []\n"),
    );
    let recorded = files.write("r.jsonl", &requests());
    let envoy = files.write("envoy.yaml", "domain: d\n");
    check_all(&[
        &["--help"],
        &["--version"],
        &["plan"],
        &["plan", "--json"],
        &["plan", "--from-requests", &recorded],
        &["plan", "--from-requests", &recorded, "--json"],
        &["validate", &good],
        &["validate", &good, "--json"],
        &["validate", &bad, "--json"],
        &["explain", "--policies", &good, "--org", "acme"],
        &["explain", "--policies", &good, "--json"],
        &["simulate", "--policies", &good, "--requests", &recorded],
        &["import", "envoy", &envoy],
        &["import", "envoy", &envoy, "--json"],
        &["openapi"],
        &["completions", "bash"],
    ]);
}

#[test]
fn an_answer_of_a_server_that_cannot_be_written_is_an_error_too() {
    let server = Server::start(POLICIES, &[]);
    let url = format!("http://{}", server.http);
    check_all(&[
        &["check", "--server", &url],
        &["check", "--server", &url, "--json"],
    ]);
}

#[test]
fn a_server_that_cannot_say_where_it_listens_ends() {
    let files = Files::new();
    let args = [
        "serve",
        "--data-dir",
        &files.path("data"),
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let run = run_into(&args, full(), Stdio::piped());
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(
        said.contains("the output can't be written") && !said.contains("panicked"),
        "{said}"
    );
}

#[test]
fn a_summary_that_cannot_be_written_is_an_error_too() {
    let files = Files::new();
    let (good, bad) = (
        files.write("good.yaml", POLICIES),
        files.write("bad.yaml", "polices: []\n"),
    );
    let recorded = files.write("r.jsonl", &requests());
    let replay = ["simulate", "--policies", &good, "--requests", &recorded];
    for args in [
        &replay[..],
        &[&replay[..], &["--json"]].concat(),
        &["validate", &bad],
        &["plan", "--from-requests", &recorded],
    ] {
        let run = run_into(args, Stdio::null(), full());
        assert_eq!(run.status.code(), Some(2), "{args:?}");
        let run = run_into(args, Stdio::null(), closed());
        assert_eq!(run.status.code(), Some(141), "{args:?}");
    }
}
