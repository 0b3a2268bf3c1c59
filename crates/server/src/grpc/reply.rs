//! What is sent for a request.

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tonic::Status;

use super::{TIMEOUT, others};
use crate::workers::Holding;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const OK: HeaderValue = HeaderValue::from_static("0");

/// An answer that its client has no room for yet.
pub(super) struct Unread {
    stream: SendStream<Bytes>,
    message: Bytes,
}

/// Sends a framed message, or why there is none; what the client has no room for is handed back, to be sent as it is
/// [taken](Unread::send). A client that has gone is told nothing.
#[must_use]
pub(super) fn send(respond: &mut SendResponse<Bytes>, answer: Result<Bytes, Status>) -> Option<Unread> {
    match answer {
        Ok(message) => send_message(respond, message).unwrap_or_default(),
        Err(status) => {
            let _ = respond.send_response(status.into_http(), true);
            None
        }
    }
}

fn send_message(respond: &mut SendResponse<Bytes>, message: Bytes) -> Result<Option<Unread>, h2::Error> {
    let mut stream = begin(respond)?;
    stream.reserve_capacity(message.len());
    if stream.capacity() < message.len() {
        return Ok(Some(Unread { stream, message }));
    }
    stream.send_data(message, false)?;
    end(&mut stream)?;
    Ok(None)
}

impl Unread {
    /// Sends it as fast as the client takes it. One that does not is not waited for longer than for its question, and
    /// not at all if the maximum is unread already.
    pub(super) async fn send(self, mut holding: Holding) {
        let Self { mut stream, message } = self;
        if !holding.grow_to(message.len()) {
            return stream.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
        }
        match tokio::time::timeout(TIMEOUT, others::send_all(&mut stream, message)).await {
            Ok(sent) => {
                let _ = sent.and_then(|()| end(&mut stream));
            }
            Err(_) => stream.send_reset(h2::Reason::CANCEL),
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
