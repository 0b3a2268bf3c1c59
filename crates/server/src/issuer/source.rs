//! Where the keys are: in a file, at a URL, or where the issuer says.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http_body_util::{BodyExt, Full, Limited};
use rustls::ClientConfig;
use rustls::crypto::ring;
use serde::Deserialize;
use tokio_rustls::TlsConnector;

use super::IssuerSettings;
use super::keys::Keys;
use super::web_url::WebUrl;
use crate::outgoing::{exchange, roots};

/// How long an answer may take, and how long it may be.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 256 * 1024;

/// Where the keys are.
pub(super) enum Source {
    File(PathBuf),
    Web(Web),
}

/// Keys that are fetched.
pub(super) struct Web {
    /// The issuer as tokens name it.
    issuer: String,
    start: Start,
    /// What speaks TLS, if there is a need for it.
    tls: Option<TlsConnector>,
}

enum Start {
    Keys(WebUrl),
    /// The issuer's description of itself.
    Description(WebUrl),
}

/// What of an issuer's description of itself is needed.
#[derive(Deserialize)]
struct Description {
    issuer: String,
    jwks_uri: String,
}

impl Source {
    /// Where the settings say. The error names the flag.
    pub(super) fn of(settings: &IssuerSettings) -> Result<Self, String> {
        let flag = settings.flag;
        let start = match &settings.jwks {
            Some(jwks) if !jwks.contains("://") => return Ok(Self::File(PathBuf::from(jwks))),
            Some(jwks) => {
                Start::Keys(WebUrl::parse(jwks).map_err(|problem| format!("--{flag}-jwks: {problem}"))?)
            }
            None => {
                let issuer = settings.issuer.strip_suffix('/').unwrap_or(&settings.issuer);
                let url = WebUrl::parse(issuer).and_then(|_| {
                    // The path goes behind the issuer's own, which a query would swallow.
                    let query = issuer.contains(['?', '#']);
                    let url = format!("{issuer}/.well-known/openid-configuration");
                    if query {
                        Err(format!("`{issuer}` has more than a path"))
                    } else {
                        WebUrl::parse(&url)
                    }
                });
                Start::Description(url.map_err(|problem| format!("--{flag}-issuer: {problem}"))?)
            }
        };
        let (Start::Keys(first) | Start::Description(first)) = &start;
        let tls = if first.server.secure {
            Some(connector(settings)?)
        } else {
            None
        };
        Ok(Self::Web(Web {
            issuer: settings.issuer.clone(),
            start,
            tls,
        }))
    }
}

impl Web {
    /// Fetches the keys. The error is a sentence.
    pub(super) async fn fetch(&self) -> Result<Keys, String> {
        let read = |text: &[u8], url: &WebUrl| {
            let place = format!("{}{}", url.server.authority, url.path);
            Keys::read(text).map_err(|problem| format!("{place}: {problem}"))
        };
        let url = match &self.start {
            Start::Keys(url) => return read(&self.get(url).await?, url),
            Start::Description(url) => url,
        };
        let place = &url.server.authority;
        let description: Description = serde_json::from_slice(&self.get(url).await?)
            .map_err(|_| format!("{place} does not describe an issuer"))?;
        // Else whoever can put a page there could speak for another issuer.
        if description.issuer != self.issuer {
            return Err(format!("{place} describes another issuer"));
        }
        let keys = WebUrl::parse(&description.jwks_uri).map_err(|problem| format!("jwks_uri: {problem}"))?;
        if url.server.secure && !keys.server.secure {
            return Err(format!(
                "jwks_uri: `{}` must be https, as the issuer is",
                description.jwks_uri
            ));
        }
        read(&self.get(&keys).await?, &keys)
    }

    async fn get(&self, url: &WebUrl) -> Result<Bytes, String> {
        let answer = tokio::time::timeout(TIMEOUT, self.answer(url)).await;
        let late = |_| format!("{} did not answer within {TIMEOUT:?}", url.server.authority);
        answer.map_err(late)?
    }

    async fn answer(&self, url: &WebUrl) -> Result<Bytes, String> {
        let place = format!("{}{}", url.server.authority, url.path);
        let tls = match (url.server.secure, &self.tls) {
            (false, _) => None,
            (true, Some(tls)) => Some(tls.clone()),
            (true, None) => return Err(format!("{place}: an issuer without TLS names keys behind TLS")),
        };
        let request = Request::get(&url.path)
            .header(HOST, &url.server.authority)
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::new()));
        let request = request.map_err(|error| format!("{place}: {error}"))?;
        let response = exchange(&url.server, tls, request).await?;
        // A redirection is no answer either: it would lead to where nobody looked whether it may be asked.
        if response.status() != 200 {
            return Err(format!("{place} answered {}", response.status()));
        }
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
        let body = body.map_err(|error| format!("{place}: {error}"))?;
        Ok(body.to_bytes())
    }
}

/// Reads a file of keys. The error is a sentence.
pub(super) fn read_file(path: &Path) -> Result<Keys, String> {
    let fail = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let size = std::fs::metadata(path).map_err(|error| fail(&error))?.len();
    if size > MAX_BYTES as u64 {
        return Err(fail(&"the file is larger than 256 KiB"));
    }
    let text = std::fs::read(path).map_err(|error| fail(&error))?;
    Keys::read(&text).map_err(|problem| fail(&problem))
}

fn connector(settings: &IssuerSettings) -> Result<TlsConnector, String> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("no TLS: {error}"))?
        .with_root_certificates(roots(settings.ca.0, settings.ca.1.as_deref())?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
