//! Certificates that change while the server runs.

use std::io::{BufReader, Write as _};

use crate::authority::{Authority, Identity};
use crate::client::Client;
use crate::common::{Answer, Server, wait_for};
use crate::serve;

/// Puts files in place of those that are there, each at once.
fn replace(server: &Server, files: &[(&str, &str)]) {
    for (name, text) in files {
        let next = server.dir.path().join(format!("{name}.next"));
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, server.dir.path().join(name)).unwrap();
    }
}

fn pair(identity: &Identity) -> [(&str, &str); 2] {
    [
        ("server.crt", &identity.certificate),
        ("server.key", &identity.key),
    ]
}

/// Does something, and waits until the log says this once more than before.
fn until_logged(server: &Server, line: &str, act: impl FnOnce()) {
    let count = || server.stderr().matches(line).count();
    let before = count();
    act();
    wait_for(line, || (count() > before).then_some(()));
}

const RELOADED: &str = "certificates reloaded";
const NOT_RELOADED: &str = "certificates not reloaded";

#[test]
fn a_new_pair_is_in_force_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = serve(&old, &[], &[]);
    assert_eq!(Client::trusting(&old).allowed(server.http, "acme"), 99);
    let held = Client::trusting(&old).connect(server.http).unwrap();
    let identity = new.server();
    until_logged(&server, RELOADED, || replace(&server, &pair(&identity)));
    assert_eq!(
        Client::trusting(&new).allowed(server.http, "acme"),
        98,
        "the counts stayed"
    );
    assert_eq!(
        Client::trusting(&new)
            .ask(server.admin, "GET", "/healthz", "")
            .status,
        200
    );
    assert_eq!(crate::grpc::healthy(&server, &new, None), Ok(true));
    for address in [server.http, server.grpc, server.admin] {
        let reason = Client::trusting(&old).refused(address);
        assert!(reason.contains("UnknownIssuer"), "{reason}");
    }
    // Who was connected stays so.
    let mut held = BufReader::new(held);
    let request = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"orgId\":\"acme\"}";
    held.get_mut().write_all(request.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut held, "POST").expect(200)["remaining"], 97);
}

#[test]
fn it_is_told_when_they_run_out() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    let told = || -> Vec<String> {
        let metrics = client.ask(server.admin, "GET", "/metrics", "");
        let lines = metrics.text().lines().filter_map(|line| {
            let told = line.strip_prefix("tollgate_tls_certificate_expiry_seconds")?;
            Some(told.to_owned())
        });
        lines.collect()
    };
    let line = |position: u32, year: i32| {
        let at = format!("{year:04}-01-01T00:00:00Z")
            .parse::<jiff::Timestamp>()
            .unwrap();
        format!("{{position=\"{position}\"}} {}", at.as_second())
    };
    // What the tests' certificates have unless told otherwise.
    assert_eq!(told(), [line(0, 4096)]);
    // Years are written in two ways, and a chain has several certificates.
    for year in [2049, 2050] {
        let mut next = authority.server_until(year);
        next.certificate.push_str(&authority.pem());
        until_logged(&server, RELOADED, || replace(&server, &pair(&next)));
        assert_eq!(told(), [line(0, year), line(1, 4096)]);
    }
    let mut bad = authority.server_until(2060);
    bad.key = authority.server().key;
    until_logged(&server, NOT_RELOADED, || replace(&server, &pair(&bad)));
    assert_eq!(told(), [line(0, 2050), line(1, 4096)], "those that are served");
}

#[test]
fn a_bad_new_pair_is_logged_and_the_old_one_stays() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    let (one, other) = (authority.server(), authority.server());
    let mismatched = [
        ("server.crt", one.certificate.as_str()),
        ("server.key", other.key.as_str()),
    ];
    for (number, bad) in [
        &mismatched[..],
        &[("server.crt", "nonsense\n")],
        &[("server.key", "")],
    ]
    .iter()
    .enumerate()
    {
        until_logged(&server, NOT_RELOADED, || replace(&server, bad));
        client.allowed(server.http, "acme");
        let metrics = client.ask(server.admin, "GET", "/metrics", "");
        let failures = metrics.text().lines().find_map(|line| {
            let count = line.strip_prefix("tollgate_tls_reload_failures_total ")?;
            count.parse::<usize>().ok()
        });
        assert!(failures > Some(number), "{failures:?}");
    }
    assert!(!server.stderr().contains(RELOADED), "{}", server.stderr());
    until_logged(&server, NOT_RELOADED, || {
        std::fs::remove_file(server.dir.path().join("server.crt")).unwrap();
    });
    client.allowed(server.http, "acme");
    until_logged(&server, RELOADED, || replace(&server, &pair(&one)));
    client.allowed(server.http, "acme");
}

#[test]
fn the_authority_of_clients_can_be_replaced_too() {
    let (ours, old, new) = (
        Authority::new("ours"),
        Authority::new("old"),
        Authority::new("new"),
    );
    let old_pem = old.pem();
    let server = serve(
        &ours,
        &["--tls-client-ca", "clients.pem"],
        &[("clients.pem", &old_pem)],
    );
    let (old_client, new_client) = (
        Client::showing(&ours, &old.client()),
        Client::showing(&ours, &new.client()),
    );
    old_client.allowed(server.http, "acme");
    new_client.refused(server.http);
    // Both for a while, so that clients can be moved one by one.
    let both = format!("{old_pem}{}", new.pem());
    until_logged(&server, RELOADED, || replace(&server, &[("clients.pem", &both)]));
    old_client.allowed(server.http, "acme");
    new_client.allowed(server.http, "acme");
    until_logged(&server, RELOADED, || {
        replace(&server, &[("clients.pem", &new.pem())]);
    });
    old_client.refused(server.http);
    new_client.allowed(server.http, "acme");
}

#[test]
fn sighup_reads_them_again_though_they_did_not_change() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    until_logged(&server, RELOADED, || server.signal("HUP"));
    assert_eq!(Client::trusting(&authority).allowed(server.http, "acme"), 99);
}
