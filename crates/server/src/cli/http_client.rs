//! One HTTP request to a running server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tokio_rustls::TlsConnector;

use super::trust::Trust;
use crate::outgoing::{ServerUrl, exchange, failed};

const TIMEOUT: Duration = Duration::from_secs(10);

/// What says who asks: a header's name and value.
pub(crate) type Credential = Option<(&'static str, String)>;

/// What a server said.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The body, as it came and as it reads.
    pub(crate) body: Bytes,
    pub(crate) json: Value,
}

/// Posts JSON to a server that answers with JSON.
pub(crate) fn post(
    server: &str,
    trust: &Trust,
    path: &str,
    credential: Credential,
    body: &Value,
) -> Result<Answer, String> {
    let url = ServerUrl::parse(server)?;
    let mut request = Request::post(path)
        .header(HOST, &url.authority)
        .header(CONTENT_TYPE, "application/json");
    if let Some((name, value)) = credential {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let request = request.map_err(|error| format!("not a request: {error}"))?;
    let tls = if url.secure {
        Some(TlsConnector::from(Arc::new(trust.config()?)))
    } else {
        None
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let exchange = async { tokio::time::timeout(TIMEOUT, ask(&url, tls, request)).await };
    runtime
        .block_on(exchange)
        .unwrap_or_else(|_| Err(format!("{server} did not answer within {TIMEOUT:?}")))
}

async fn ask(
    url: &ServerUrl,
    tls: Option<TlsConnector>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let response = exchange(url, tls, request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| failed(url, &error))?.to_bytes();
    let json = serde_json::from_slice(&body);
    let json = json.map_err(|_| format!("{} did not answer with JSON", url.authority))?;
    Ok(Answer { status, body, json })
}
