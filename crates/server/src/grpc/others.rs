//! Services that are tonic's: those that stream.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::time::timeout;
use tonic::Status;
use tonic::service::Routes;
use tower::Service;

use super::TIMEOUT;

/// A request's body, as tonic takes it.
struct Incoming(RecvStream);

impl Body for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let body = &mut self.0;
        if let Some(piece) = ready!(body.poll_data(context)) {
            let piece = piece?;
            let _ = body.flow_control().release_capacity(piece.len());
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let trailers = ready!(body.poll_trailers(context))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// Has a request answered by tonic's services.
pub(super) async fn ask(mut routes: Routes, request: Request<RecvStream>) -> Response<tonic::body::Body> {
    match routes.call(request.map(Incoming)).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// Sends what they answer, as fast as the client takes it: each part of it within the time that any answer has, and all
/// within what it may last, if that is given.
pub(super) async fn send(
    answer: Response<tonic::body::Body>,
    respond: &mut SendResponse<Bytes>,
    most: Option<Duration>,
) -> Result<(), h2::Error> {
    let (head, mut body) = answer.into_parts();
    let is_all = body.is_end_stream();
    let mut stream = respond.send_response(Response::from_parts(head, ()), is_all)?;
    if is_all {
        return Ok(());
    }
    let end = async {
        match most {
            Some(most) => tokio::time::sleep(most).await,
            None => std::future::pending().await,
        }
    };
    let mut end = pin!(end);
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            // The client does not want the rest.
            _ = std::future::poll_fn(|context| stream.poll_reset(context)) => return Ok(()),
            () = &mut end => return stream.send_trailers(open_another()),
        };
        match frame {
            Some(Ok(frame)) => match frame.into_data().map_err(Frame::into_trailers) {
                Ok(data) => match timeout(TIMEOUT, send_all(&mut stream, data)).await {
                    Ok(sent) => sent?,
                    Err(_) => {
                        stream.send_reset(h2::Reason::CANCEL);
                        return Ok(());
                    }
                },
                Err(Ok(trailers)) => return stream.send_trailers(trailers),
                Err(Err(_)) => {}
            },
            Some(Err(_)) => {
                stream.send_reset(h2::Reason::INTERNAL_ERROR);
                return Ok(());
            }
            None => return stream.send_data(Bytes::new(), true),
        }
    }
}

/// What ends a stream that has been open for as long as it may.
fn open_another() -> HeaderMap {
    let status = Status::unavailable("the stream has been open for long: open another");
    let mut trailers = HeaderMap::new();
    // There is nothing in it that a header could not hold.
    let _ = status.add_header(&mut trailers);
    trailers
}

pub(super) async fn send_all(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let Some(room) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
            return Ok(());
        };
        stream.send_data(data.split_to(room?.min(data.len())), false)?;
    }
    Ok(())
}
