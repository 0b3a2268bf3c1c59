//! The Redis protocol over TLS, as redis-cli speaks it.

use std::process::Command;

use tempfile::TempDir;

use crate::authority::{Authority, Identity};
use crate::common::Server;
use crate::serve;

/// What redis-cli says to a check of a caller who trusts this authority and shows this certificate.
fn ask(server: &Server, trusted: &Authority, shown: Option<&Identity>) -> String {
    let directory = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut client = Command::new("redis-cli");
    client
        .args([
            "-p",
            &server.resp.unwrap().port().to_string(),
            "--tls",
            "--cacert",
        ])
        .arg(file("ca.pem", &trusted.pem()));
    if let Some(Identity { certificate, key }) = shown {
        client.arg("--cert").arg(file("client.crt", certificate));
        client.arg("--key").arg(file("client.key", key));
    }
    client.args(["CL.THROTTLE", "user", "15", "1", "3600"]);
    let output = client.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn redis_cli_asks_over_tls() {
    let ours = Authority::new("ours");
    let server = serve(&ours, &["--resp", "127.0.0.1:0"], &[]);
    assert_eq!(ask(&server, &ours, None), "0\n16\n15\n-1\n3600\n");
    let refused = ask(&server, &Authority::new("others"), None);
    assert!(refused.contains("certificate"), "{refused}");
    assert_eq!(ask(&server, &ours, None), "0\n16\n14\n-1\n7200\n");
}

#[test]
fn redis_cli_shows_a_certificate() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let flags = ["--resp", "127.0.0.1:0", "--tls-client-ca", "clients.pem"];
    let server = serve(&ours, &flags, &[("clients.pem", &clients.pem())]);
    assert_eq!(
        ask(&server, &ours, Some(&clients.client())),
        "0\n16\n15\n-1\n3600\n"
    );
    for wrong in [None, Some(&ours.client())] {
        let refused = ask(&server, &ours, wrong);
        assert!(!refused.starts_with('0'), "{refused}");
    }
    assert_eq!(
        ask(&server, &ours, Some(&clients.client())),
        "0\n16\n14\n-1\n7200\n"
    );
}
