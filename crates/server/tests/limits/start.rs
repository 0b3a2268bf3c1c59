//! Starting: where it listens, and when it does not start at all.

use std::net::{TcpListener, TcpStream};

use tempfile::TempDir;

use crate::common::{Finished, Launch, Server, file_of, hourly, run};

/// Tries to start a server that must not start.
fn refused(flags: &[&str]) -> Finished {
    let dir = TempDir::new().unwrap();
    let mut args = vec!["serve", "--data-dir", dir.path().to_str().unwrap()];
    args.extend(["--admin-token", "a-token-for-this-test"]);
    for address in ["--http", "--grpc", "--admin"] {
        if !flags.contains(&address) {
            args.extend([address, "127.0.0.1:0"]);
        }
    }
    args.extend(flags);
    run(&args)
}

#[test]
fn it_says_where_it_listens_once_all_accept_connections() {
    let server = Server::start("policies: []\n", &[]);
    for address in [server.http, server.grpc, server.admin] {
        assert!(address.ip().is_loopback() && address.port() != 0);
        TcpStream::connect(address).unwrap();
    }
}

#[test]
fn it_listens_on_ipv6_loopback_too() {
    let server = Server::launch(&Launch {
        policies: Some("policies: []\n"),
        flags: &[
            "--http",
            "[::1]:0",
            "--grpc",
            "[::1]:0",
            "--admin",
            "[::1]:0",
            "--data-dir",
            "d",
        ],
        bare: true,
        ..Launch::default()
    });
    assert!(server.http.is_ipv6());
    server.check_raw("{}").expect(200);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--http", "--grpc", "--admin"] {
        let run = refused(&[flag, &address]);
        let complaint = run.complaint(2);
        assert!(
            complaint.contains(&address) && complaint.contains(flag),
            "{complaint}"
        );
        assert_eq!(run.stdout, "", "it never says that it listens");
    }
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    for flag in ["--http", "--grpc", "--admin"] {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let run = refused(&[flag, address]);
            let complaint = run.complaint(2);
            assert!(
                complaint.contains(flag) && complaint.contains("--insecure-bind"),
                "{complaint}"
            );
        }
    }
}

#[test]
fn a_bad_flag_is_named() {
    for (flags, named) in [
        (&["--http", "8080"][..], "--http"),
        (&["--http", "localhost:8080"], "--http"),
        (&["--grpc", "127.0.0.1"], "--grpc"),
        (&["--admin", "127.0.0.1:99999"], "--admin"),
        (&["--headers", "y"], "--headers"),
        (&["--trusted-proxies", "10.0.0.0/33"], "--trusted-proxies"),
        (&["--max-connections", "0"], "--max-connections"),
        (&["--max-counters", "0"], "--max-counters"),
        (&["--threads", "0"], "--threads"),
    ] {
        let run = refused(flags);
        let complaint = run.complaint(2);
        assert!(complaint.contains(named), "{complaint}");
    }
    let run = refused(&["--frobnicate"]);
    run.expect(2);
    assert!(run.stderr.contains("--frobnicate"), "{run:?}");
    let run = refused(&["--threads", "many"]);
    run.expect(2);
    assert!(
        run.stderr.contains("--threads") && run.stderr.contains("many"),
        "{run:?}"
    );
}

#[test]
fn a_short_admin_token_is_refused_and_not_repeated() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().to_str().unwrap();
    let run = run(&["serve", "--data-dir", data, "--admin-token", "hunter2"]);
    let complaint = run.complaint(2);
    assert!(
        complaint.contains("--admin-token") && !complaint.contains("hunter2"),
        "{complaint}"
    );
}

#[test]
fn a_bad_policy_file_is_named_with_its_line() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("policies.yaml");
    let file = path.to_str().unwrap();
    let run = refused(&["--policies", file]);
    assert!(run.complaint(2).contains(file), "{run:?}");
    std::fs::write(
        &path,
        file_of(&[hourly("good", "org", 5, ""), hourly("bad", "team", 5, "")]),
    )
    .unwrap();
    let run = refused(&["--policies", file]);
    let complaint = run.complaint(2);
    assert!(
        complaint.contains(&format!("{file}:3: policies[1].scope: `team`")),
        "{complaint}"
    );
    std::fs::write(&path, "overrides:\n  - {orgId: acme, policyId: none, limit: 1}\n").unwrap();
    let run = refused(&["--policies", file]);
    assert!(run.complaint(2).contains(&format!(
        "{file}:2: overrides[0].policyId: there is no policy `none`"
    )));
    std::fs::write(&path, b"policies: \xff\n").unwrap();
    let run = refused(&["--policies", file]);
    assert!(run.complaint(2).contains(file), "{run:?}");
}

#[test]
fn a_data_directory_that_cannot_be_is_named() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let data = file.join("data");
    let run = run(&["serve", "--data-dir", data.to_str().unwrap()]);
    assert!(run.complaint(2).contains("--data-dir"), "{run:?}");
}

#[test]
fn without_a_policy_file_the_demonstration_set_is_in_force() {
    let server = Server::launch(&Launch::default());
    let decision = server.allowed(&serde_json::json!({"orgId": "acme", "appId": "web", "keyId": "k1"}));
    let applied = crate::common::server::applied(&decision);
    assert_eq!(applied, ["enterprise-org-day", "app-rate", "key-burst"]);
}

#[test]
fn a_data_directory_has_one_server_at_a_time() {
    let server = crate::common::Server::start("policies: []", &[]);
    let data = server.data("").to_str().unwrap().to_owned();
    let run = run(&[
        "serve",
        "--data-dir",
        &data,
        "--http",
        "127.0.0.1:0",
        "--grpc",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    let complaint = run.complaint(2);
    let expected = format!("is in use by another process (process {})", server.id());
    assert!(
        complaint.contains("--data-dir") && complaint.contains(&expected),
        "{complaint}"
    );
    server.allowed(&serde_json::json!({"orgId": "acme"}));
    // However it ends, its lock ends with it.
    let mut server = server;
    server.restart("KILL");
    server.allowed(&serde_json::json!({"orgId": "acme"}));
}
