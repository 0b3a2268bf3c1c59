//! The flags that say which servers to believe over https, and with which certificate to ask.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;

use crate::outgoing::roots;
use crate::tls::{read_certificates, read_key};

/// Whom to trust, and who asks.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Trust {
    /// Believe https servers with a certificate of this authority (PEM) [default: the system's authorities]
    #[arg(long, env = "TOLLGATE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show this certificate to https servers that ask for one (PEM)
    #[arg(long, env = "TOLLGATE_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, env = "TOLLGATE_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
}

impl Trust {
    /// What a TLS client needs to know.
    pub(crate) fn config(&self) -> Result<ClientConfig, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("no TLS: {error}"))?
            .with_root_certificates(roots("--ca", self.ca.as_deref())?);
        let mut config = match (&self.client_cert, &self.client_key) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = read_certificates("--client-cert", cert).map_err(|error| error.to_string())?;
                let secret = read_key("--client-key", key).map_err(|error| error.to_string())?;
                let config = config.with_client_auth_cert(chain, secret);
                config.map_err(|error| format!("--client-key: {}: {error}", key.display()))?
            }
            (Some(_), None) => {
                return Err("--client-cert: the certificate needs its key, --client-key".to_owned());
            }
            (None, Some(_)) => {
                return Err("--client-key: the key needs its certificate, --client-cert".to_owned());
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}
