//! An issuer on this machine: it describes itself, publishes keys, and can be away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::authority::Identity;
use crate::common::{DEADLINE, wait_for};
use crate::signer::Signer;

/// A running issuer; it ends with the test's process.
pub struct Issuer {
    scheme: &'static str,
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    /// What it says of itself; made of its address unless a test has something else in mind.
    description: Value,
    /// The answer to whoever asks for keys: status, header lines, body.
    keys: (u16, String, Vec<u8>),
    away: bool,
    /// How often each was asked for.
    descriptions: usize,
    fetches: usize,
}

impl Issuer {
    /// An issuer with the keys of these signers.
    pub fn new(signers: &[&Signer]) -> Self {
        Self::start("http", signers, None)
    }

    /// The same behind TLS, with a certificate and its key in PEM.
    pub fn secure(signers: &[&Signer], identity: &Identity) -> Self {
        let chain = vec![CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self::start("https", signers, Some(Arc::new(config)))
    }

    fn start(scheme: &'static str, signers: &[&Signer], tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            description: json!({
                "issuer": format!("{scheme}://{address}"),
                "jwks_uri": format!("{scheme}://{address}/keys"),
            }),
            keys: (200, String::new(), set(signers).to_string().into_bytes()),
            away: false,
            descriptions: 0,
            fetches: 0,
        }));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(DEADLINE)).unwrap();
                match &tls {
                    None => answer(stream, &shared),
                    Some(tls) => {
                        let session = ServerConnection::new(tls.clone()).unwrap();
                        answer(StreamOwned::new(session, stream), &shared);
                    }
                }
            }
        });
        Self {
            scheme,
            address,
            state,
        }
    }

    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Where its keys are.
    pub fn keys_url(&self) -> String {
        format!("{}/keys", self.url())
    }

    /// Publishes other keys from now on.
    pub fn publish(&self, keys: &Value) {
        self.answer_with(200, "", keys.to_string());
    }

    /// Answers like this from now on when keys are asked for.
    pub fn answer_with(&self, status: u16, headers: &str, body: impl Into<Vec<u8>>) {
        self.state().keys = (status, headers.to_owned(), body.into());
    }

    /// Describes itself like this from now on.
    pub fn describe(&self, description: Value) {
        self.state().description = description;
    }

    /// Goes away, or comes back.
    pub fn away(&self, away: bool) {
        self.state().away = away;
    }

    /// How often keys were asked for.
    pub fn fetches(&self) -> usize {
        self.state().fetches
    }

    /// How often its description was asked for.
    pub fn descriptions(&self) -> usize {
        self.state().descriptions
    }

    /// Waits until keys were asked for once more than before.
    pub fn asked_again(&self, before: usize) {
        wait_for("another fetch", || (self.fetches() > before).then_some(()));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The keys of signers as a JWK set.
pub fn set(signers: &[&Signer]) -> Value {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({ "keys": keys })
}

fn answer(stream: impl Read + Write, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    let (mut request, mut line) = (String::new(), String::new());
    let _ = reader.read_line(&mut request);
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let mut state = state.lock().unwrap();
    let (status, headers, body) = match request.split(' ').nth(1) {
        _ if state.away => return,
        Some("/.well-known/openid-configuration") => {
            state.descriptions += 1;
            (200, String::new(), state.description.to_string().into_bytes())
        }
        Some("/keys") => {
            state.fetches += 1;
            state.keys.clone()
        }
        _ => (404, String::new(), Vec::new()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let stream = reader.get_mut();
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&body);
    let _ = stream.flush();
}
