//! What each address offers a client that wants to speak TLS.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};

use super::expiry::expires;
use super::files::{TlsFileError, TlsFiles, read_certificates, read_key};

/// An address of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// The data plane over HTTP.
    Http,
    /// The data plane over gRPC.
    Grpc,
    /// The control plane.
    Admin,
    /// The data plane in Redis's protocol.
    Resp,
}

impl Address {
    /// Its flag's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Admin => "admin",
            Self::Resp => "resp",
        }
    }
}

/// What is offered on each address, made from one state of the files.
#[derive(Debug)]
pub struct Offers {
    http: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    admin: Arc<ServerConfig>,
    resp: Arc<ServerConfig>,
    /// When each certificate that is shown runs out, in Unix seconds; the server's own comes first.
    pub expiries: Vec<Option<i64>>,
}

impl Offers {
    /// Reads the files and checks that they fit together.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsFileError> {
        let provider = Arc::new(ring::default_provider());
        let identity = identity(files, &provider)?;
        let expiries = identity.cert.iter().map(expires).collect();
        let identity = Arc::new(SingleCertAndKey::from(identity));
        let roots = match &files.client_ca {
            Some(path) => Some((path, Arc::new(roots("--tls-client-ca", path)?))),
            None => None,
        };
        let offer = |protocols: &[&[u8]], required: bool| {
            let config = ServerConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .map_err(|error| TlsFileError::new("--tls-cert", &files.cert, error.to_string()))?;
            let config = match &roots {
                Some((path, roots)) => {
                    config.with_client_cert_verifier(verifier(path, roots.clone(), &provider, required)?)
                }
                None => config.with_no_client_auth(),
            };
            let mut config = config.with_cert_resolver(identity.clone());
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            if roots.is_some() {
                // A session that is taken up again brings the client's certificate along unexamined, so that one
                // that has expired would still be good.
                config.session_storage = Arc::new(NoServerSessionStorage {});
                config.send_tls13_tickets = 0;
            }
            Ok(Arc::new(config))
        };
        Ok(Self {
            http: offer(&[b"http/1.1"], true)?,
            grpc: offer(&[b"h2"], true)?,
            // Tokens protect it, and probes and browsers have no certificate to show.
            admin: offer(&[b"http/1.1"], false)?,
            // Its clients name no protocol.
            resp: offer(&[], true)?,
            expiries,
        })
    }

    /// What is offered on an address.
    pub fn at(&self, address: Address) -> Arc<ServerConfig> {
        match address {
            Address::Http => self.http.clone(),
            Address::Grpc => self.grpc.clone(),
            Address::Admin => self.admin.clone(),
            Address::Resp => self.resp.clone(),
        }
    }
}

/// The server's certificate with its key.
fn identity(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsFileError> {
    let chain = read_certificates("--tls-cert", &files.cert)?;
    let key = read_key("--tls-key", &files.key)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| {
        TlsFileError::new(
            "--tls-key",
            &files.key,
            "the private key is of a kind that can't be used",
        )
    })?;
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(identity),
        Err(Error::InconsistentKeys(_)) => Err(TlsFileError::new(
            "--tls-key",
            &files.key,
            format!(
                "the key does not belong to the certificate in {}",
                files.cert.display()
            ),
        )),
        Err(error) => Err(TlsFileError::new(
            "--tls-cert",
            &files.cert,
            format!("the first certificate can't be used: {error}"),
        )),
    }
}

/// The authorities in a file.
fn roots(flag: &'static str, path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(flag, path)? {
        roots.add(certificate).map_err(|error| {
            TlsFileError::new(flag, path, format!("a certificate can't be used: {error}"))
        })?;
    }
    Ok(roots)
}

fn verifier(
    path: &Path,
    roots: Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
    required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
    let builder = if required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    let verifier = builder.build();
    verifier.map_err(|error| TlsFileError::new("--tls-client-ca", path, error.to_string()))
}
