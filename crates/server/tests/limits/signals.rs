//! SIGHUP reads files again and never ends the server; SIGTERM takes it out of readiness before it drains.

use serde_json::json;

use crate::common::{Launch, Server, file_of, hourly, wait_for};

fn policies() -> String {
    file_of(&[hourly("org", "org", 100, ""), hourly("all", "global", 100, "")])
}

fn readiness(server: &Server) -> (u16, String) {
    let answer = server.ask_admin("GET", "/readyz").send();
    let status = answer.json()["status"].as_str().unwrap().to_owned();
    (answer.status, status)
}

#[test]
fn sighup_reads_the_policies_again_and_the_counts_stay() {
    let server = Server::start(&policies(), &[]);
    server.allowed(&json!({"orgId": "acme"}));
    let before = server.counted("tollgate_policy_revision");
    server.signal("HUP");
    server.logs("SIGHUP");
    server.logs("policies reloaded");
    assert!(server.counted("tollgate_policy_revision") > before);
    assert_eq!(server.left("org", &json!({"orgId": "acme"})), 99);
    for times in 1..=5 {
        server.signal("HUP");
        wait_for("the signal to be heard", || {
            (server.stderr().matches("SIGHUP").count() > times).then_some(())
        });
    }
    server.allowed(&json!({"orgId": "acme"}));
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn sighup_does_no_harm_without_files_or_with_bad_ones() {
    let server = Server::launch(&Launch::default());
    server.signal("HUP");
    server.logs("SIGHUP");
    server.allowed(&json!({"orgId": "acme"}));
    let server = Server::start(&policies(), &[]);
    std::fs::write(server.dir.path().join("policies.yaml"), "policies: [").unwrap();
    server.signal("HUP");
    server.logs("policies not reloaded");
    server.allowed(&json!({"orgId": "acme"}));
    std::fs::remove_file(server.dir.path().join("policies.yaml")).unwrap();
    let told = || server.stderr().matches("policies not reloaded").count();
    let before = told();
    server.signal("HUP");
    wait_for("the missing file to be named", || (told() > before).then_some(()));
    server.allowed(&json!({"orgId": "acme"}));
}

#[test]
fn sighup_says_which_settings_need_a_restart() {
    let server = Server::launch(&Launch {
        flags: &["--config", "tollgate.yaml", "--threads", "1"],
        files: &[("tollgate.yaml", "max-counters: 1000\nregion: here\nthreads: 2\n")],
        ..Launch::default()
    });
    let write = |text: &str| std::fs::write(server.dir.path().join("tollgate.yaml"), text).unwrap();
    // A flag is stronger than the file, so its change there is none.
    write("max-counters: 2000\nregion: here\nthreads: 3\ndata-token: a-token-of-sixteen\n");
    server.signal("HUP");
    let log = server.logs("need a restart");
    let line = log.lines().find(|line| line.contains("need a restart")).unwrap();
    assert!(
        line.ends_with("need a restart: --max-counters, --data-token"),
        "{line}"
    );
    assert!(!log.contains("a-token-of-sixteen"));
    write("max-counter: 2000\n");
    server.signal("HUP");
    let log = server.logs("would be refused at a restart");
    assert!(log.contains("tollgate.yaml:1: max-counter"), "{log}");
    server.allowed(&json!({"orgId": "acme"}));
}

#[test]
fn sigterm_turns_readiness_off_before_the_drain() {
    let server = Server::start(&policies(), &["--drain-delay", "1h"]);
    assert_eq!(readiness(&server), (200, "ready".to_owned()));
    server.terminate();
    wait_for("readiness to turn off", || {
        (readiness(&server) == (503, "draining".to_owned())).then_some(())
    });
    server.logs("not ready any more");
    // All is served as before, also on new connections.
    server.allowed(&json!({"orgId": "acme"}));
    assert_eq!(server.ask_admin("GET", "/healthz").send().status, 200);
    server.signal("HUP");
    server.logs("SIGHUP");
    assert_eq!(readiness(&server).0, 503);
    // Whoever can't wait says so.
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn the_drain_begins_by_itself_after_the_delay() {
    let server = Server::launch(&Launch {
        policies: Some(&policies()),
        environment: &[("TOLLGATE_DRAIN_DELAY", "300ms")],
        ..Launch::default()
    });
    let started = std::time::Instant::now();
    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert!(started.elapsed() >= std::time::Duration::from_millis(300));
}

#[test]
fn a_delay_that_is_none_is_an_error() {
    for (delay, wanted) in [("soon", "is not a length of time"), ("2h", "must be at most 1h")] {
        let run = crate::common::run(&["serve", "--drain-delay", delay]);
        let complaint = run.complaint(2);
        assert!(
            complaint.contains("--drain-delay") && complaint.contains(wanted),
            "{complaint}"
        );
    }
}
