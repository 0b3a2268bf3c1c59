//! gRPC's framing of a request that has one message.

use std::future::poll_fn;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use http::HeaderMap;
use tollgate_proto::Message;
use tonic::Status;

use super::client::{Client, Unfinished};

/// Before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Reads the message of a request, of at most so many bytes.
pub(super) async fn read(
    headers: &HeaderMap,
    body: &mut RecvStream,
    most: usize,
    client: &Client,
) -> Result<Bytes, Status> {
    refuse_compression(headers)?;
    let mut arriving = Arriving {
        body,
        client,
        unfinished: None,
    };
    let Some(first) = arriving.next(0).await? else {
        return Err(Status::internal("Missing request message."));
    };
    // What comes in one piece stays where it lies. A stream that ends gives back its part of the window by itself.
    if arriving.body.is_end_stream() {
        return whole(first, most);
    }
    arriving.release(&first);
    let mut gathered = BytesMut::from(first);
    loop {
        if let Some(length) = length(&gathered, most)? {
            one(gathered.len(), length)?;
        }
        let Some(piece) = arriving.next(gathered.len()).await? else {
            return whole(gathered.freeze(), most);
        };
        arriving.release(&piece);
        gathered.extend_from_slice(&piece);
    }
}

/// A message on its way.
struct Arriving<'c, 'b> {
    body: &'b mut RecvStream,
    client: &'c Client,
    /// Counted from the moment in which it has to be waited for.
    unfinished: Option<Unfinished<'c>>,
}

impl Arriving<'_, '_> {
    /// The next piece, after so many bytes.
    async fn next(&mut self, before: usize) -> Result<Option<Bytes>, Status> {
        let piece = poll_fn(|context| match self.body.poll_data(context) {
            Poll::Ready(piece) => Poll::Ready(Ok(piece)),
            Poll::Pending => match self.counts(before) {
                Ok(()) => Poll::Pending,
                Err(status) => Poll::Ready(Err(status)),
            },
        });
        let piece = piece.await?.transpose();
        piece.map_err(|error| Status::cancelled(error.to_string()))
    }

    fn counts(&mut self, bytes: usize) -> Result<(), Status> {
        let unfinished = match &mut self.unfinished {
            Some(unfinished) => unfinished,
            none => none.insert(self.client.waits_for_message()?),
        };
        unfinished.holds(bytes)
    }

    /// Lets the client send as much again.
    fn release(&mut self, piece: &Bytes) {
        // An error is a stream that has ended.
        let _ = self.body.flow_control().release_capacity(piece.len());
    }
}

/// A message with nothing around it.
fn whole(mut framed: Bytes, most: usize) -> Result<Bytes, Status> {
    match length(&framed, most)? {
        Some(length) if framed.len() >= PREFIX + length => {
            one(framed.len(), length)?;
            framed.advance(PREFIX);
            Ok(framed)
        }
        _ => Err(Status::internal("Unexpected EOF decoding stream.")),
    }
}

/// How long a message is said to be, if that has arrived.
fn length(framed: &[u8], most: usize) -> Result<Option<usize>, Status> {
    let Some((flag, length)) = framed
        .first_chunk()
        .map(|[flag, length @ ..]: &[u8; PREFIX]| (flag, length))
    else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    match flag {
        0 if length <= most => Ok(Some(length)),
        0 => Err(Status::out_of_range(format!(
            "Error, decoded message length too large: found {length} bytes, the limit is: {most} bytes"
        ))),
        1 => Err(Status::internal(
            "protocol error: received message with compressed-flag but no grpc-encoding was specified",
        )),
        flag => Err(Status::internal(format!(
            "protocol error: received message with invalid compression flag: {flag} (valid flags are 0 and 1)"
        ))),
    }
}

fn one(arrived: usize, length: usize) -> Result<(), Status> {
    if arrived > PREFIX + length {
        return Err(Status::internal("protocol error: more than one message was sent"));
    }
    Ok(())
}

fn refuse_compression(headers: &HeaderMap) -> Result<(), Status> {
    match headers.get("grpc-encoding").map(http::HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(()),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let message = format!("Content is compressed with `{other}` which isn't supported");
            let mut status = Status::unimplemented(message);
            let accepted = tonic::metadata::MetadataValue::from_static("identity");
            status.metadata_mut().insert("grpc-accept-encoding", accepted);
            Err(status)
        }
    }
}

/// A buffer to append an answer's message to.
pub(super) fn begin(capacity: usize) -> Vec<u8> {
    let mut framed = Vec::with_capacity(PREFIX + capacity);
    framed.extend_from_slice(&[0; PREFIX]);
    framed
}

/// What was appended, as it is sent.
pub(super) fn end(mut framed: Vec<u8>) -> Bytes {
    let length = u32::try_from(framed.len() - PREFIX).unwrap_or(u32::MAX);
    framed[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    framed.into()
}

/// A message as it is sent.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let mut out = begin(message.encoded_len());
    // There is always room in a `Vec`.
    message.encode(&mut out).unwrap_or_default();
    end(out)
}
