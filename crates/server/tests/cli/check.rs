//! `tollgate check`.

use crate::common::process::{finish, program};
use crate::common::{Finished, Server, file_of, hourly, run};

fn server() -> Server {
    Server::start(
        &file_of(&[
            hourly("org", "org", 2, ""),
            hourly("writes", "org", 1_000_000, "requiredScope: write"),
        ]),
        &[],
    )
}

fn check(server: &Server, args: &[&str]) -> Finished {
    let url = format!("http://{}", server.http);
    run(&[&["check", "--server", &url], args].concat())
}

#[test]
fn exits_0_when_allowed_and_1_when_denied() {
    let server = server();
    let run = check(&server, &["--org", "acme"]);
    assert!(run.expect(0).starts_with("allowed, 1 left\n"), "{run:?}");
    let run = check(&server, &["--org", "acme", "--scope", "write"]);
    let shown = run.expect(0);
    assert!(shown.contains("POLICY") && shown.contains("999,999"), "{shown}");
    let run = check(&server, &["--org", "acme"]);
    let shown = run.expect(1);
    assert!(
        shown.starts_with(
            "denied: This organization has used up its limit of 2 in 1h (policy org). Try again in "
        ),
        "{shown}"
    );
    assert!(shown.contains("no room"), "{shown}");
    assert_eq!(run.stderr, "");
}

#[test]
fn exits_2_when_there_is_no_decision() {
    let server = server();
    let run = check(&server, &["--org", ""]);
    assert!(
        run.complaint(2).contains("400") && run.stderr.contains("orgId"),
        "{run:?}"
    );
    let run = check(&server, &["--descriptor", "region"]);
    assert!(
        run.complaint(2)
            .contains("--descriptor: `region` is not NAME=VALUE"),
        "{run:?}"
    );
    let address = server.http;
    drop(server);
    let run = crate::common::run(&["check", "--server", &format!("http://{address}")]);
    assert!(run.complaint(2).contains(&address.to_string()), "{run:?}");
    let run = crate::common::run(&["check", "--server", "https://example.invalid/v1"]);
    assert!(run.complaint(2).contains("https://example.invalid/v1"), "{run:?}");
    crate::common::run(&["check", "--cost", "-1"]).expect(2);
}

#[test]
fn json_is_the_servers_answer() {
    let server = server();
    let allowed = check(&server, &["--org", "acme", "--cost", "2", "--json"]).json(0);
    assert_eq!(allowed["allowed"], true);
    assert_eq!(allowed["limits"][0]["policyId"], "org");
    let denied = check(&server, &["--org", "acme", "--json"]).json(1);
    assert_eq!(denied["error"], "rate_limit_exceeded");
}

#[test]
fn json_is_the_answer_as_the_server_wrote_it() {
    let server = server();
    let run = check(&server, &["--org", "acme", "--json"]);
    let begins = "{\"allowed\":true,\"scope\":null,\"policyId\":null,\"remaining\":1,";
    assert!(run.expect(0).starts_with(begins), "{run:?}");
    assert!(run.stdout.ends_with("}\n"), "{run:?}");
}

#[test]
fn every_part_of_a_request_has_a_flag() {
    let policies = file_of(&[
        hourly("a-route", "endpoint", 9, "endpointPattern: \"POST /v1/exports\""),
        hourly("b-ip", "ip", 9, ""),
        hourly("c-org", "org", 9, ""),
        hourly("d-app", "app", 9, ""),
        hourly("e-key", "key", 9, ""),
        hourly("f-user", "user", 9, ""),
        hourly("g-region", "\"descriptor:region\"", 9, "requiredScope: write"),
    ]);
    let server = Server::start(&policies, &[]);
    let run = check(
        &server,
        &[
            "--org",
            "acme",
            "--app",
            "web",
            "--key",
            "k",
            "--user",
            "u",
            "--ip",
            "203.0.113.9",
            "--endpoint",
            "POST /v1/exports",
            "--scope",
            "read",
            "--scope",
            "write",
            "--descriptor",
            "region=eu=west",
            "--cost",
            "4",
            "--json",
        ],
    );
    let decision = run.json(0);
    assert_eq!(crate::common::server::applied(&decision).len(), 7);
    assert_eq!(decision["remaining"], 5);
}

#[test]
fn a_dry_run_takes_nothing() {
    let server = server();
    for _ in 0..3 {
        check(&server, &["--org", "acme", "--cost", "2", "--dry-run"]).expect(0);
    }
}

#[test]
fn the_server_can_be_named_in_the_environment() {
    let server = server();
    let mut command = program(&["check", "--org", "acme"]);
    command.env("TOLLGATE_SERVER", format!("http://{}", server.http));
    finish(command, "").expect(0);
}

#[test]
fn what_applies_to_nothing_is_said_so() {
    let server = server();
    let run = check(&server, &["--ip", "203.0.113.9"]);
    assert_eq!(run.expect(0), "allowed\nno policy applies\n");
}
