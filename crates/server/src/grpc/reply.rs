//! What is sent for a request.

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tonic::Status;

use super::{TIMEOUT, others};

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// An answer of so many bytes is kept for a client that does not take it. Streams have a bound, and so has what they keep.
const SMALL_BYTES: usize = 16 * 1024;

/// Sends a framed message, or why there is none; a large one is handed back, to be [sent as it is taken](send_as_taken). A
/// client that has gone is told nothing.
#[must_use]
pub(super) fn send(respond: &mut SendResponse<Bytes>, answer: Result<Bytes, Status>) -> Option<Bytes> {
    let _ = match answer {
        Ok(message) if message.len() > SMALL_BYTES => return Some(message),
        Ok(message) => send_message(respond, message),
        Err(status) => respond.send_response(status.into_http(), true).map(drop),
    };
    None
}

fn send_message(respond: &mut SendResponse<Bytes>, message: Bytes) -> Result<(), h2::Error> {
    let mut stream = begin(respond)?;
    stream.send_data(message, false)?;
    end(&mut stream)
}

/// Sends a message as fast as the client takes it. One that does not is not waited for longer than for its question.
pub(super) async fn send_as_taken(
    respond: &mut SendResponse<Bytes>,
    message: Bytes,
) -> Result<(), h2::Error> {
    let mut stream = begin(respond)?;
    match tokio::time::timeout(TIMEOUT, others::send_all(&mut stream, message)).await {
        Ok(sent) => sent.and_then(|()| end(&mut stream)),
        Err(_) => {
            stream.send_reset(h2::Reason::CANCEL);
            Ok(())
        }
    }
}

fn begin(respond: &mut SendResponse<Bytes>) -> Result<SendStream<Bytes>, h2::Error> {
    let mut head = Response::new(());
    head.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    respond.send_response(head, false)
}

fn end(stream: &mut SendStream<Bytes>) -> Result<(), h2::Error> {
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
