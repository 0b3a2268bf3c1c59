//! Clients that don't get on with their handshake, and what they may take up.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::authority::Authority;
use crate::client::Client;
use crate::common::http::connect;
use crate::common::{Server, wait_for};
use crate::grpc::healthy;
use crate::serve;

/// What comes until the server closes the connection, which must be within the deadline.
fn until_closed(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return all,
            Ok(read) => all.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }
}

fn addresses(server: &Server) -> [SocketAddr; 3] {
    [server.http, server.grpc, server.admin]
}

/// Waits until the metrics have so many failed handshakes; they are counted a little after the client is told.
fn until_failed(client: &Client, server: &Server, number: usize) {
    wait_for("the failed handshakes", || {
        let metrics = client.ask(server.admin, "GET", "/metrics", "");
        let line = format!("tollgate_tls_handshake_failures_total {number}\n");
        metrics.text().contains(&line).then_some(())
    });
}

#[test]
fn who_says_nothing_blocks_nobody_and_is_dropped() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &["--threads", "1"], &[]);
    let client = Client::trusting(&authority);
    let mut silent = Vec::new();
    for address in addresses(&server) {
        for _ in 0..20 {
            silent.push(connect(address));
        }
        // The beginning of a record that never ends.
        let mut halting = connect(address);
        halting
            .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            .unwrap();
        silent.push(halting);
    }
    // One after the other they would be waited for longer than anything may take here.
    assert_eq!(client.allowed(server.http, "acme"), 99);
    assert_eq!(client.ask(server.admin, "GET", "/healthz", "").status, 200);
    assert_eq!(healthy(&server, &authority, None), Ok(true));
    for stream in &silent {
        assert_eq!(until_closed(stream), b"");
    }
    assert_eq!(client.allowed(server.http, "acme"), 98);
    until_failed(&client, &server, silent.len());
}

#[test]
fn a_handshake_takes_one_of_the_places_for_connections() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &["--max-connections", "1"], &[]);
    let client = Client::trusting(&authority);
    let silent = [connect(server.http), connect(server.grpc)];
    // A place over gRPC is refused, one over HTTP is waited for.
    client.connect(server.grpc).unwrap_err();
    assert_eq!(client.allowed(server.http, "acme"), 99);
    silent[0].set_nonblocking(true).unwrap();
    assert_eq!(until_closed(&silent[0]), b"", "it is gone already");
    until_closed(&silent[1]);
    wait_for("the place over gRPC", || healthy(&server, &authority, None).ok());
}

#[test]
fn the_admin_address_answers_probes_while_hundreds_are_silent() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    let silent: Vec<TcpStream> = (0..256).map(|_| connect(server.admin)).collect();
    assert_eq!(client.ask(server.admin, "GET", "/healthz", "").status, 200);
    client.allowed(server.http, "acme");
    for stream in &silent {
        until_closed(stream);
    }
    wait_for("a place", || client.connect(server.admin).ok());
}

#[test]
fn http_without_tls_is_closed_without_harm() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    for address in addresses(&server) {
        let mut stream = connect(address);
        let request = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let answer = until_closed(&stream);
        assert!(
            !answer.starts_with(b"HTTP"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert_eq!(client.allowed(server.http, "acme"), 99);
    assert_eq!(client.ask(server.admin, "GET", "/healthz", "").status, 200);
    assert_eq!(healthy(&server, &authority, None), Ok(true));
    until_failed(&client, &server, 3);
}

#[test]
fn a_server_that_stops_waits_for_no_handshake() {
    let authority = Authority::new("ours");
    let server = serve(&authority, &[], &[]);
    let client = Client::trusting(&authority);
    let _silent = addresses(&server).map(connect);
    let _idle = client.connect(server.http).unwrap();
    client.allowed(server.http, "acme");
    server.terminate();
    assert!(server.wait().success());
}
