//! The settings of TLS and tokens, from each place they can come from.

use crate::authority::Authority;
use crate::client::Client;
use crate::common::{Ask, Launch, Server};

const TOKEN: &str = "a-token-from-somewhere";

/// Whether a server has certificate, authority of clients and token in force.
fn is_protected(server: &Server, ours: &Authority, clients: &Authority) {
    Client::trusting(ours).refused(server.http);
    let client = Client::showing(ours, &clients.client());
    client.ask(server.http, "POST", "/v1/check", "{}").problem(401);
    let ask = Ask::new(server.http, "POST", "/v1/check").body("{}");
    let ask = ask.header("X-Tollgate-Token", TOKEN);
    ask.send_on(client.connect(server.http).unwrap()).expect(200);
}

#[test]
fn they_can_come_from_the_environment_or_the_configuration_file() {
    let (ours, clients) = (Authority::new("ours"), Authority::new("clients"));
    let (identity, ca) = (ours.server(), clients.pem());
    let config = format!(
        "tls-cert: cert.pem\ntls-key: key.pem\ntls-client-ca: ca.pem\ndata-token: [another-token-0123456, {TOKEN}]\n"
    );
    let files = [
        ("cert.pem", identity.certificate.as_str()),
        ("key.pem", &identity.key),
        ("ca.pem", &ca),
        ("tollgate.yaml", &config),
    ];
    for environment in [
        &[
            ("TOLLGATE_TLS_CERT", "cert.pem"),
            ("TOLLGATE_TLS_KEY", "key.pem"),
            ("TOLLGATE_TLS_CLIENT_CA", "ca.pem"),
            ("TOLLGATE_DATA_TOKEN", TOKEN),
        ][..],
        &[("TOLLGATE_CONFIG", "tollgate.yaml")],
    ] {
        let server = Server::launch(&Launch {
            policies: Some("policies: []\n"),
            environment,
            files: &files,
            ..Launch::default()
        });
        is_protected(&server, &ours, &clients);
    }
}
