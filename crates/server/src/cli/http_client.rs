//! One HTTP request to a running server.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts JSON to `http://HOST:PORT` and returns status and JSON.
pub(crate) fn post(
    server: &str,
    path: &str,
    token: Option<&str>,
    body: &Value,
) -> Result<(u16, Value), String> {
    let address = server
        .strip_prefix("http://")
        .unwrap_or(server)
        .trim_end_matches('/');
    if address.contains('/') {
        return Err(format!(
            "`{server}` is not a server such as http://127.0.0.1:8080"
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let exchange = async { tokio::time::timeout(TIMEOUT, send(address, path, token, body)).await };
    runtime
        .block_on(exchange)
        .unwrap_or_else(|_| Err(format!("{server} did not answer within {TIMEOUT:?}")))
}

async fn send(address: &str, path: &str, token: Option<&str>, body: &Value) -> Result<(u16, Value), String> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|error| format!("could not reach a server at {address}: {error}"))?;
    let fail = |error: hyper::Error| format!("the exchange with {address} failed: {error}");
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(fail)?;
    tokio::spawn(connection);
    let mut request = Request::post(path)
        .header(HOST, address)
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let request = request.map_err(|error| format!("not a request: {error}"))?;
    let response = sender.send_request(request).await.map_err(fail)?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(fail)?.to_bytes();
    let json = serde_json::from_slice(&bytes).map_err(|_| format!("{address} did not answer with JSON"))?;
    Ok((status, json))
}
