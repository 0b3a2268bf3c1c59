//! The three addresses over TLS, to clients that need not show anything.

use std::fmt::Write as _;
use std::io::{BufReader, Write as _};
use std::process::Command;

use serde_json::{Value, json};

use crate::authority::Authority;
use crate::client::Client;
use crate::common::process::finish;
use crate::common::{Answer, Ask};
use crate::grpc::healthy;
use crate::serve;

#[test]
fn a_client_that_trusts_the_authority_is_answered_on_every_address() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    assert_eq!(client.allowed(server.http, "acme"), 99);
    assert_eq!(client.ask(server.admin, "GET", "/healthz", "").text(), "ok\n");
    assert_eq!(healthy(&server, &authority, None), Ok(true));
}

#[test]
fn a_client_that_trusts_another_authority_gives_up() {
    let (authority, another) = (Authority::new("ours"), Authority::new("another"));
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&another);
    for address in [server.http, server.grpc, server.admin] {
        let reason = client.refused(address);
        assert!(reason.contains("UnknownIssuer"), "{reason}");
    }
    assert!(healthy(&server, &another, None).is_err());
    assert_eq!(Client::trusting(&authority).allowed(server.http, "acme"), 99);
}

#[test]
fn both_versions_of_tls_are_spoken() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    for version in rustls::ALL_VERSIONS {
        let client = Client::of(&authority, None, &[version]);
        client.allowed(server.http, "acme");
        let line = client.connect(server.http).unwrap();
        assert_eq!(line.conn.protocol_version(), Some(version.version));
    }
}

#[test]
fn each_address_speaks_its_own_protocol_and_no_other() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    for (address, spoken, other) in [
        (server.http, "http/1.1", "h2"),
        (server.admin, "http/1.1", "h2"),
        (server.grpc, "h2", "http/1.1"),
    ] {
        let line = Client::trusting(&authority).speaking(spoken).connect(address);
        assert_eq!(line.unwrap().conn.alpn_protocol(), Some(spoken.as_bytes()));
        let line = Client::trusting(&authority).speaking(other).connect(address);
        let reason = line.unwrap_err().to_string();
        assert!(reason.contains("NoApplicationProtocol"), "{reason}");
    }
}

#[test]
fn one_connection_carries_many_requests_even_before_their_answers() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let mut line = Client::trusting(&authority).connect(server.http).unwrap();
    let body = r#"{"orgId":"acme"}"#;
    let mut requests = String::new();
    for _ in 0..50 {
        let length = body.len();
        let _ = write!(
            requests,
            "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        );
    }
    line.write_all(requests.as_bytes()).unwrap();
    let mut reader = BufReader::new(line);
    for left in (50..100).rev() {
        assert_eq!(Answer::read(&mut reader, "POST").expect(200)["remaining"], left);
    }
}

#[test]
fn bodies_and_answers_of_many_records_arrive_whole() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    // About a mebibyte there, and several hundred kilobytes back.
    let long = "x".repeat(250);
    let item = json!({"orgId": "acme", "userId": long, "appId": long, "keyId": long, "cost": 0});
    let requests: Vec<Value> = vec![item; 1_000];
    let body = json!({"requests": requests}).to_string();
    assert!(body.len() > 800_000 && body.len() < 1 << 20);
    let answer = client.ask(server.http, "POST", "/v1/check/batch", &body);
    let decisions = answer.expect(200);
    assert_eq!(decisions["decisions"].as_array().unwrap().len(), 1_000);
    assert!(answer.body.len() > 200_000);
}

#[test]
fn curl_speaks_to_it() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[("ca.pem", &authority.pem())]);
    let url = format!("https://localhost:{}/v1/check", server.http.port());
    let curl = |arguments: &[&str]| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--noproxy", "*", &url, "-d", r#"{"orgId":"acme"}"#])
            .args(arguments)
            .current_dir(&server.dir);
        finish(curl, "")
    };
    assert_eq!(curl(&["--cacert", "ca.pem"]).json(0)["remaining"], 99);
    // 60: it does not know who signed the certificate.
    curl(&[]).expect(60);
}

#[test]
fn a_server_without_tls_stays_as_it_was() {
    let server = crate::common::Server::start("policies: []\n", &[]);
    Ask::new(server.http, "POST", "/v1/check")
        .body("{}")
        .send()
        .expect(200);
    let metrics = server.metrics();
    assert!(
        metrics.contains("tollgate_tls_handshake_failures_total 0"),
        "{metrics}"
    );
}
