//! `TOLLGATE_LOG`.

use serde_json::json;

use crate::common::process::{finish, program};
use crate::common::{Launch, Server, file_of, hourly};

fn logging(level: &str) -> Server {
    Server::launch(&Launch {
        policies: Some(&file_of(&[hourly("org", "org", 100, "")])),
        environment: &[("TOLLGATE_LOG", level)],
        ..Launch::default()
    })
}

#[test]
fn a_wrong_level_is_an_error_and_not_silence() {
    for level in ["verbose", "inf", "tollgate=loud", "info,dbug"] {
        let mut command = program(&["serve", "--http", "127.0.0.1:0"]);
        command.env("TOLLGATE_LOG", level);
        let run = finish(command, "");
        let complaint = run.complaint(2);
        assert!(complaint.contains("TOLLGATE_LOG: `"), "{level}: {complaint}");
    }
}

#[test]
fn debug_shows_our_own_lines_and_not_the_drivers() {
    let server = logging("debug");
    server.ask_admin("GET", "/v1/orgs").send().problem(401);
    server.allowed(&json!({"orgId": "acme"}));
    let log = server.logs("DEBUG tollgate::");
    assert!(!log.contains("sqlx"), "{log}");
    for line in log.lines().filter(|line| line.contains(" DEBUG ")) {
        assert!(line.contains(" tollgate"), "{line}");
    }
}

#[test]
fn directives_go_through() {
    let server = logging("warn,sqlx=debug");
    server.logs(" DEBUG sqlx");
    assert!(!server.stderr().contains("serving"), "{}", server.stderr());
}
