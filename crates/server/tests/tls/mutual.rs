//! Clients that must show a certificate, and the address that lives without one.

use crate::authority::{Authority, Identity};
use crate::client::Client;
use crate::common::Server;
use crate::grpc::healthy;
use crate::serve;

fn mutual(authority: &Authority, clients: &Authority) -> Server {
    let files = [("clients.pem", clients.pem())];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    serve(authority, &["--tls-client-ca", "clients.pem"], &files)
}

#[test]
fn the_data_plane_answers_only_clients_of_the_authority() {
    let (ours, clients, others) = (
        Authority::new("ours"),
        Authority::new("clients"),
        Authority::new("others"),
    );
    let server = mutual(&ours, &clients);
    let good = Client::showing(&ours, &clients.client());
    assert_eq!(good.allowed(server.http, "acme"), 99);
    assert_eq!(healthy(&server, &ours, Some(&clients.client())), Ok(true));
    // The authority of the server is not that of clients.
    for wrong in [others.client(), ours.client()] {
        for address in [server.http, server.grpc] {
            let reason = Client::showing(&ours, &wrong).refused(address);
            assert!(
                reason.contains("UnknownCA") || reason.contains("reset"),
                "{reason}"
            );
        }
        assert!(healthy(&server, &ours, Some(&wrong)).is_err());
    }
    for address in [server.http, server.grpc] {
        Client::trusting(&ours).refused(address);
    }
    assert!(healthy(&server, &ours, None).is_err());
    assert_eq!(good.allowed(server.http, "acme"), 98, "nothing else was charged");
}

#[test]
fn a_servers_certificate_is_none_of_a_client() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let server = mutual(&ours, &clients);
    Client::showing(&ours, &clients.server()).refused(server.http);
    Client::showing(&ours, &clients.client()).allowed(server.http, "acme");
}

#[test]
fn the_same_holds_in_both_versions_of_tls() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let server = mutual(&ours, &clients);
    for version in rustls::ALL_VERSIONS {
        let good = clients.client();
        let with = |identity: Option<&Identity>| Client::of(&ours, identity, &[version]);
        with(Some(&good)).allowed(server.http, "acme");
        with(Some(&ours.client())).refused(server.http);
        with(None).refused(server.http);
    }
}

#[test]
fn a_certificate_is_examined_on_each_connection() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let server = mutual(&ours, &clients);
    // The same client keeps its sessions, and would take them up again if it could.
    let client = Client::showing(&ours, &clients.client());
    for _ in 0..3 {
        client.allowed(server.http, "acme");
        let line = client.connect(server.http).unwrap();
        assert_eq!(line.conn.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

#[test]
fn the_admin_address_does_without_a_certificate_but_takes_no_wrong_one() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let server = mutual(&ours, &clients);
    for client in [Client::trusting(&ours), Client::showing(&ours, &clients.client())] {
        assert_eq!(client.ask(server.admin, "GET", "/healthz", "").text(), "ok\n");
        // A certificate takes no token's place.
        let explained = client.ask(server.admin, "POST", "/v1/ratelimit/explain", "{}");
        explained.problem(401);
    }
    Client::showing(&ours, &ours.client()).refused(server.admin);
}
