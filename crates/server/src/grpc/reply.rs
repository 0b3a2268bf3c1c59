//! What is sent for a request.

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tonic::Status;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Sends a framed message, or why there is none. A client that has gone is told nothing.
pub(super) fn send(respond: &mut SendResponse<Bytes>, answer: Result<Bytes, Status>) {
    let _ = match answer {
        Ok(message) => send_message(respond, message),
        Err(status) => respond.send_response(status.into_http(), true).map(drop),
    };
}

fn send_message(respond: &mut SendResponse<Bytes>, message: Bytes) -> Result<(), h2::Error> {
    let mut head = Response::new(());
    head.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    let mut stream = respond.send_response(head, false)?;
    stream.send_data(message, false)?;
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, OK);
    stream.send_trailers(trailers)
}

/// Refuses what is no gRPC.
pub(super) fn refuse(respond: &mut SendResponse<Bytes>, status: StatusCode) {
    let mut head = Response::new(());
    *head.status_mut() = status;
    let _ = respond.send_response(head, true);
}
