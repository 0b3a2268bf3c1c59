//! Asking other HTTP servers: one request on a connection of its own, over TLS or not.
//!
//! What is asked and what an answer means is the business of whoever asks, and so are the bounds on time and
//! length.

mod roots;
mod server_url;

use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub(crate) use roots::roots;
pub(crate) use server_url::ServerUrl;

/// Sends a request, over TLS if there is something to speak it with. The body is yet to come; the error is a
/// sentence.
pub(crate) async fn exchange(
    url: &ServerUrl,
    tls: Option<TlsConnector>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String> {
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

async fn send<S>(
    url: &ServerUrl,
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(url, &error))?;
    tokio::spawn(connection);
    let sent = sender.send_request(request).await;
    sent.map_err(|error| failed(url, &error))
}

/// The sentence for an exchange that broke off.
pub(crate) fn failed(url: &ServerUrl, error: &hyper::Error) -> String {
    let address = &url.authority;
    // The reason, such as a certificate that the server did not like, is behind hyper's own words.
    match error.source() {
        Some(reason) => format!("the exchange with {address} failed: {error}: {reason}"),
        None => format!("the exchange with {address} failed: {error}"),
    }
}
