//! Who holds connections to the admin address without using them keeps nobody else out.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::http::connect;
use crate::common::{Answer, Server, wait_for};
use crate::golden;

/// More than there are places.
const CROWD: usize = 300;

fn probes_are_answered(server: &Server) {
    for target in ["/healthz", "/readyz", "/metrics"] {
        let began = Instant::now();
        assert_eq!(server.ask_admin("GET", target).send().status, 200, "{target}");
        assert!(began.elapsed() < Duration::from_secs(5), "{target}");
    }
}

#[test]
fn silent_sockets_keep_no_probe_out() {
    let (server, admin) = golden();
    let silent: Vec<TcpStream> = (0..CROWD).map(|_| connect(server.admin)).collect();
    probes_are_answered(&server);
    // One address has a share, and whoever is beyond it is told so and may try again.
    let refused = admin.get("/v1/tiers");
    refused.problem(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(server.left("gold-org", &json!({"orgId": "acme"})), 3);
    drop(silent);
    wait_for("a place", || (admin.get("/v1/tiers").status == 200).then_some(()));
}

#[test]
fn unfinished_bodies_keep_no_probe_out_and_come_to_an_end() {
    let (server, admin) = golden();
    let viewer = admin.with_role("tenant-viewer", Some("acme"));
    let begin = |_| {
        let mut stream = connect(server.admin);
        let head = format!(
            "POST /v1/tokens HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: 1000\r\n\r\n{{",
            viewer.secret()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut unfinished: Vec<TcpStream> = (0..CROWD).map(begin).collect();
    probes_are_answered(&server);
    // The first have places, and lose them.
    let first = unfinished.swap_remove(0);
    Answer::read(&mut BufReader::new(first), "POST").problem(408);
    wait_for("a place", || (admin.get("/v1/tiers").status == 200).then_some(()));
}

#[test]
fn an_answer_that_nobody_reads_comes_to_an_end() {
    let (server, admin) = golden();
    let name = "x".repeat(1_024);
    for _ in 0..60 {
        admin.set("/v1/orgs/acme/apps/web", &json!({"description": name}));
    }
    let mut stream = connect(server.admin);
    let request = format!(
        "GET /v1/audit?limit=1000 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n",
        admin.secret()
    );
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    // As many as it takes: the client asks and never reads.
    while stream.write_all(request.repeat(50).as_bytes()).is_ok() {}
    wait_for("the end of the connection", || {
        let closed = is_closed(&server, &stream);
        closed.then_some(())
    });
}

/// Whether the server has let go of a connection, by what the kernel says of it.
fn is_closed(server: &Server, stream: &TcpStream) -> bool {
    let port = stream.local_addr().unwrap().port();
    let tcp = std::fs::read_to_string(format!("/proc/{}/net/tcp", server.id())).unwrap();
    let of_server = format!(":{:04X} ", server.admin.port());
    let of_client = format!(":{port:04X} ");
    // The server's side is the line whose local address is its own.
    !tcp.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = format!("{} ", words.next().unwrap_or_default());
        let remote = format!("{} ", words.next().unwrap_or_default());
        let state = words.next().unwrap_or_default();
        local.ends_with(&of_server) && remote.ends_with(&of_client) && state == "01"
    })
}

#[test]
fn connections_are_accepted_on_threads_of_their_own() {
    let (server, _admin) = golden();
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    for wanted in ["admin", "http-door", "grpc-door"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted}: {names:?}");
    }
}

#[test]
fn whoever_hangs_up_finds_the_write_done() {
    let (server, admin) = golden();
    let tenant = admin.with_role("tenant-admin", Some("acme"));
    for number in 0..20 {
        let target = format!("/v1/orgs/acme/apps/app-{number}");
        let mut stream = connect(server.admin);
        let request = format!(
            "PUT {target} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nidempotency-key: k-{number}\r\n\
             content-length: 2\r\n\r\n{{}}",
            tenant.secret()
        );
        stream.write_all(request.as_bytes()).unwrap();
        drop(stream);
        let again = || {
            let ask = tenant
                .ask("PUT", &target)
                .header("Idempotency-Key", &format!("k-{number}"));
            ask.body("{}").send().status
        };
        // At most it is still being carried out, and that for a moment only.
        let status = wait_for("the answer", || Some(again()).filter(|status| *status != 409));
        assert_eq!(status, 201);
    }
}

#[test]
fn no_answer_with_a_secret_is_kept_by_a_cache() {
    let (_server, admin) = golden();
    let token = admin.post("/v1/tokens", &json!({"role": "operator"}));
    admin.set("/v1/orgs/acme/apps/web", &json!({}));
    let key = admin.post("/v1/orgs/acme/apps/web/keys", &json!({"keyId": "k"}));
    let rotated = admin.post("/v1/orgs/acme/apps/web/keys/k/rotate", &json!({}));
    for answer in [token, key, rotated] {
        assert!(answer.expect(201)["secret"].is_string());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
}
