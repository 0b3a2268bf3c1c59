//! A client that speaks TLS, and sees what becomes of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::authority::{Authority, Identity};
use crate::common::http::connect;
use crate::common::{Answer, Ask};

/// An open connection.
pub type Secured = StreamOwned<ClientConnection, TcpStream>;

/// A client that trusts an authority.
pub struct Client(Arc<ClientConfig>);

impl Client {
    pub fn trusting(authority: &Authority) -> Self {
        Self::of(authority, None, rustls::ALL_VERSIONS)
    }

    /// With a certificate to show.
    pub fn showing(authority: &Authority, identity: &Identity) -> Self {
        Self::of(authority, Some(identity), rustls::ALL_VERSIONS)
    }

    pub fn of(
        authority: &Authority,
        identity: Option<&Identity>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        Self(Arc::new(match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        }))
    }

    /// The same client, speaking only this protocol inside.
    pub fn speaking(mut self, protocol: &str) -> Self {
        Arc::make_mut(&mut self.0).alpn_protocols = vec![protocol.as_bytes().to_vec()];
        self
    }

    /// Makes a connection. That a server does not like this client's certificate may show only later.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Secured> {
        let name = ServerName::from(address.ip());
        let mut session = ClientConnection::new(self.0.clone(), name).unwrap();
        let mut stream = connect(address);
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(session, stream))
    }

    /// Sends a request on a connection of its own.
    pub fn ask(&self, address: SocketAddr, method: &str, target: &str, body: &str) -> Answer {
        let stream = self.connect(address).unwrap();
        Ask::new(address, method, target).body(body).send_on(stream)
    }

    /// Asks for a decision for an org, which must be to allow, and gives what is left.
    pub fn allowed(&self, address: SocketAddr, org: &str) -> u64 {
        let body = format!("{{\"orgId\":\"{org}\"}}");
        let decision = self.ask(address, "POST", "/v1/check", &body).expect(200);
        decision["remaining"].as_u64().unwrap()
    }

    /// Why a request comes to nothing, which it must.
    pub fn refused(&self, address: SocketAddr) -> String {
        let mut stream = match self.connect(address) {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
        };
        let request = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
        let mut answer = Vec::new();
        let asked = stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_end(&mut answer));
        assert_eq!(String::from_utf8_lossy(&answer), "", "it was answered");
        asked
            .expect_err("a refused connection is not closed in peace")
            .to_string()
    }
}
