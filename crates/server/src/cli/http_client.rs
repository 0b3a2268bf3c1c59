//! One HTTP request to a running server.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::server_url::ServerUrl;
use super::trust::Trust;

const TIMEOUT: Duration = Duration::from_secs(10);

/// What says who asks: a header's name and value.
pub(crate) type Credential = Option<(&'static str, String)>;

/// Posts JSON to a server and returns status and JSON.
pub(crate) fn post(
    server: &str,
    trust: &Trust,
    path: &str,
    credential: Credential,
    body: &Value,
) -> Result<(u16, Value), String> {
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
    let exchange = async { tokio::time::timeout(TIMEOUT, connect(&url, tls, request)).await };
    runtime
        .block_on(exchange)
        .unwrap_or_else(|_| Err(format!("{server} did not answer within {TIMEOUT:?}")))
}

async fn connect(
    url: &ServerUrl,
    tls: Option<TlsConnector>,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Value), String> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await;
    let stream = stream.map_err(|error| format!("could not reach a server at {}: {error}", url.authority))?;
    let Some(tls) = tls else {
        return send(url, stream, request).await;
    };
    let name = ServerName::try_from(url.host.clone());
    let name = name.map_err(|_| format!("`{}` is no name that a certificate could be for", url.host))?;
    let stream = tls.connect(name, stream).await;
    let stream = stream.map_err(|error| format!("no TLS with {}: {error}", url.authority))?;
    send(url, stream, request).await
}

async fn send<S>(url: &ServerUrl, stream: S, request: Request<Full<Bytes>>) -> Result<(u16, Value), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = &url.authority;
    // The reason, such as a certificate that the server did not like, is behind hyper's own words.
    let fail = |error: hyper::Error| match error.source() {
        Some(reason) => format!("the exchange with {address} failed: {error}: {reason}"),
        None => format!("the exchange with {address} failed: {error}"),
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(fail)?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(fail)?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(fail)?.to_bytes();
    let json = serde_json::from_slice(&bytes).map_err(|_| format!("{address} did not answer with JSON"))?;
    Ok((status, json))
}
