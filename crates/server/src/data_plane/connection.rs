//! One client's connection: requests are read, decided and answered in order.
//!
//! Everything that has arrived is answered with one write.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::authorize::is_denied_by_403;
use super::body::{self, BodyError, Chunks};
use super::head::{Head, Length, Malformed};
use super::reply::Reply;
use super::{Asked, DataPlane, Turn, Waits};
use crate::answer::Problem;
use crate::workers::Line;

/// Answers are sent once so much has piled up.
const MAX_UNSENT: usize = 256 * 1024;
const FIRST_BUFFER: usize = 4 * 1024;
/// A buffer that a large body made larger than this is made small again.
const LARGE_BUFFER: usize = 64 * 1024;

pub(super) struct Connection {
    pub(super) plane: Arc<DataPlane>,
    pub(super) line: Line,
}

/// What is on its way in and out.
struct Buffers {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    chunks: Chunks,
    reply: Reply,
    /// The client was told to go on with its body.
    told: bool,
}

/// What to do once all that has arrived is answered.
enum Next {
    /// Wait for another request.
    Idle,
    /// Wait until the buffer holds so much.
    Rest(usize),
    /// Send, then go on.
    Send,
    /// Send, then wait for the shared store.
    Hear(Box<Waits>),
    /// Send, then close.
    Close,
}

/// How far the request at the front of the buffer has come.
enum Progress {
    /// It was answered and took up so many bytes; whether another may follow.
    Answered(usize, bool),
    /// It can't be whole before the buffer holds so much.
    Partial(usize),
    /// It is whole, and has to wait for the shared store.
    Waits(Box<Waits>),
    /// It was refused, and what follows can't be understood.
    Broken,
}

impl Connection {
    /// Serves until the client closes, breaks the protocol, or is told that it is over.
    pub(super) async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut buffers = Buffers {
            incoming: Vec::with_capacity(FIRST_BUFFER),
            outgoing: Vec::with_capacity(FIRST_BUFFER),
            chunks: Chunks::default(),
            reply: Reply::default(),
            told: false,
        };
        loop {
            self.line.idles();
            if !matches!(stream.read_buf(&mut buffers.incoming).await, Ok(1..)) {
                return;
            }
            // From its first byte on, a request has so long to arrive whole, however it drips in.
            self.line.works();
            let mut turn = None;
            loop {
                let next = self.answer_all(&mut buffers, turn.take());
                if !buffers.outgoing.is_empty() {
                    // TLS may still hold some of what it took; on a plain socket there is nothing to flush.
                    if stream.write_all(&buffers.outgoing).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                    buffers.outgoing.clear();
                }
                match next {
                    Next::Idle => break,
                    Next::Send => {}
                    Next::Hear(waits) => turn = Some(waits.heard().await),
                    Next::Rest(wanted) => {
                        while buffers.incoming.len() < wanted {
                            if !matches!(stream.read_buf(&mut buffers.incoming).await, Ok(1..)) {
                                return;
                            }
                        }
                    }
                    Next::Close => {
                        self.line.lingers();
                        return close(stream).await;
                    }
                }
            }
            if buffers.incoming.capacity() > LARGE_BUFFER {
                buffers.incoming = Vec::with_capacity(FIRST_BUFFER);
            }
        }
    }

    /// Answers every request that has arrived whole, the first of which may have waited.
    fn answer_all(&self, buffers: &mut Buffers, mut turn: Option<Turn>) -> Next {
        let mut taken = 0;
        let next = loop {
            if taken == buffers.incoming.len() {
                break Next::Idle;
            }
            if buffers.outgoing.len() > MAX_UNSENT {
                break Next::Send;
            }
            match self.answer_first(taken, buffers, turn.take()) {
                Progress::Answered(size, goes_on) => {
                    taken += size;
                    buffers.chunks.clear();
                    buffers.told = false;
                    if !goes_on {
                        break Next::Close;
                    }
                    self.line.works();
                }
                Progress::Partial(wanted) => break Next::Rest(wanted),
                Progress::Waits(waits) => break Next::Hear(waits),
                Progress::Broken => break Next::Close,
            }
        };
        buffers.incoming.drain(..taken);
        next
    }

    /// Answers the request that begins at a place of the buffer, if it has arrived whole.
    fn answer_first(&self, from: usize, buffers: &mut Buffers, turn: Option<Turn>) -> Progress {
        let Buffers {
            incoming,
            outgoing,
            chunks,
            reply,
            told,
        } = buffers;
        reply.at(self.line.tick());
        let buffer = &incoming[from..];
        let head = match Head::read(buffer) {
            Ok(Some(head)) if head.size <= self.line.limits.header_bytes => head,
            Ok(None) if buffer.len() <= self.line.limits.header_bytes => {
                return Progress::Partial(buffer.len() + 1);
            }
            Ok(_) => return refuse(431, "The request's head is too large.", buffer, reply, outgoing),
            Err(problem) => {
                let status = match problem {
                    Malformed::TooManyHeaders => 431,
                    Malformed::Expectation => 417,
                    _ => 400,
                };
                return refuse(status, problem.to_string(), buffer, reply, outgoing);
            }
        };
        let rest = &buffer[head.size..];
        let size = match body::take(head.length, rest, chunks) {
            Ok(Some(size)) => size,
            Ok(None) if rest.len() > 4 * body::MAX_BYTES => {
                return refuse(
                    413,
                    "The body's chunks take up too much room.",
                    buffer,
                    reply,
                    outgoing,
                );
            }
            Ok(None) => {
                if head.waits && rest.is_empty() && !std::mem::replace(told, true) {
                    outgoing.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                return Progress::Partial(match head.length {
                    Length::Exactly(size) => head.size + size,
                    Length::Chunked => buffer.len() + 1,
                });
            }
            Err(BodyError::TooLarge) => {
                let detail = format!("The body is longer than {} bytes.", body::MAX_BYTES);
                return refuse(413, detail, buffer, reply, outgoing);
            }
            Err(BodyError::Chunks) => {
                return refuse(
                    400,
                    "The body's chunks are not well-formed.",
                    buffer,
                    reply,
                    outgoing,
                );
            }
        };
        let body = match head.length {
            Length::Exactly(_) => &rest[..size],
            Length::Chunked => chunks.joined.as_slice(),
        };
        if turn.is_none() {
            // What a batch has decided before it waited is in there.
            reply.clear();
        }
        let asked = Asked {
            peer: self.line.peer,
            head: &head,
            body,
        };
        if let Some(waits) = self.plane.answer(&asked, turn, reply) {
            return Progress::Waits(Box::new(waits));
        }
        let goes_on = head.keep_alive && !self.line.is_stopping();
        reply.send(head.method == "HEAD", goes_on, outgoing);
        Progress::Answered(head.size + size, goes_on)
    }
}

/// Refuses what can't be read as a request, or not whole.
fn refuse(
    status: u16,
    detail: impl Into<String>,
    request: &[u8],
    reply: &mut Reply,
    outgoing: &mut Vec<u8>,
) -> Progress {
    let (error, title) = match status {
        413 => ("body_too_large", "Body too large"),
        417 => ("expectation_failed", "Expectation failed"),
        431 => ("head_too_large", "Head too large"),
        _ => ("bad_request", "Bad request"),
    };
    let detail = detail.into();
    reply.problem(&Problem {
        status,
        error,
        title,
        detail,
    });
    if is_denied_by_403(request) {
        reply.behind_403();
    }
    reply.send(false, false, outgoing);
    Progress::Broken
}

/// Closes so that the client can read the last answer: bytes of its left unread would turn the close into a
/// reset. What it still sends is read and forgotten, up to a bound and the deadline.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = stream.shutdown().await;
    let mut scrap = [0; 4096];
    for _ in 0..512 {
        if !matches!(stream.read(&mut scrap).await, Ok(1..)) {
            return;
        }
    }
}
