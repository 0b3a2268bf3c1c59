//! One client's connection: requests are read, decided and answered in order.
//!
//! Everything that has arrived is answered with one write.

use std::ops::Range;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::authorize::is_denied_by_403;
use super::body::{self, BodyError};
use super::buffers::Buffers;
use super::head::{Head, Length, Malformed};
use super::reply::Reply;
use super::route::Route;
use super::{Asked, DataPlane, Turn, Waits, batch};
use crate::answer::Problem;
use crate::workers::Line;

/// Answers are sent once so much has piled up.
const MAX_UNSENT: usize = 256 * 1024;

pub(super) struct Connection {
    pub(super) plane: Arc<DataPlane>,
    pub(super) line: Line,
}

/// What to do once all that has arrived is answered.
enum Next {
    /// Wait for another request.
    Idle,
    /// Wait until more of the request has come.
    Rest(Wanted),
    /// Send, then go on.
    Send,
    /// Send, then let others come first.
    Turn,
    /// Send, then answer a batch.
    Batch(Batch),
    /// Send, then wait for the shared store.
    Hear(Box<Waits>),
    /// Send, then close.
    Close,
}

/// How far the request at the front of the buffer has come.
enum Progress {
    /// It was answered and took up so many bytes; whether another may follow.
    Answered(usize, bool),
    /// It can't be whole before there is more.
    Partial(Wanted),
    /// It is a whole batch.
    Batch(Batch),
    /// It is whole, and has to wait for the shared store.
    Waits(Box<Waits>),
    /// It was refused, and what follows can't be understood.
    Broken,
}

/// What is missing of a request.
enum Wanted {
    /// Another line of its head, of which so much is there.
    Line(usize),
    /// So many bytes in all.
    Bytes(usize),
    /// More of its chunks, which begin here.
    Chunks(usize),
}

/// A batch at the front of the buffer.
struct Batch {
    /// Bytes that it takes up there.
    size: usize,
    /// Where its body is, unless it came in chunks.
    body: Option<Range<usize>>,
    goes_on: bool,
}

impl Connection {
    /// Serves until the client closes, breaks the protocol, or is told that it is over.
    pub(super) async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut buffers = Buffers::new(&self.line);
        loop {
            self.line.turns.renew();
            self.line.idles();
            if !self.line.read_idle(&mut stream, &mut buffers.incoming).await {
                let _ = stream.shutdown().await;
                return;
            }
            // From its first byte on, a request has so long to arrive whole, however it drips in.
            self.line.works();
            if !self.answer_arrived(&mut stream, &mut buffers).await {
                return;
            }
            buffers.shrink();
        }
    }

    /// Answers what has arrived, and what comes of it meanwhile. False once the connection is over.
    async fn answer_arrived(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        buffers: &mut Buffers,
    ) -> bool {
        let mut turn = None;
        loop {
            let next = self.answer_all(buffers, turn.take());
            if !buffers.outgoing.is_empty() {
                // TLS may still hold some of what it took; on a plain socket there is nothing to flush.
                if stream.write_all(&buffers.outgoing).await.is_err() || stream.flush().await.is_err() {
                    return false;
                }
                buffers.outgoing.clear();
            }
            match next {
                Next::Idle => return true,
                Next::Send => {}
                Next::Turn => {
                    self.line.turns.next().await;
                    self.line.works();
                }
                Next::Batch(batch) => {
                    if !Box::pin(self.answer_batch(stream, buffers, batch)).await {
                        return false;
                    }
                }
                Next::Hear(waits) => turn = Some(waits.heard().await),
                Next::Rest(wanted) => {
                    if !self.read_rest(stream, buffers, &wanted).await {
                        return false;
                    }
                }
                Next::Close => {
                    self.line.lingers();
                    close(stream).await;
                    return false;
                }
            }
        }
    }

    /// Reads more of the request at the front. False if there is none, or no room for it.
    async fn read_rest(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        buffers: &mut Buffers,
        wanted: &Wanted,
    ) -> bool {
        loop {
            let before = buffers.incoming.len();
            if !matches!(stream.read_buf(&mut buffers.incoming).await, Ok(1..)) {
                return false;
            }
            if !buffers.count_unfinished() {
                return self.refuse_rest(stream, buffers).await;
            }
            let size = buffers.incoming.len();
            let is_there = match *wanted {
                // Without the end of a line a head is no further than it was.
                Wanted::Line(most) => buffers.incoming[before..].contains(&b'\n') || size > most,
                Wanted::Bytes(wanted) => size >= wanted,
                Wanted::Chunks(_) => true,
            };
            if is_there {
                return true;
            }
        }
    }

    /// Refuses a request for whose rest there is no room.
    async fn refuse_rest(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        buffers: &mut Buffers,
    ) -> bool {
        buffers.incoming = Vec::new();
        buffers.forget_request();
        let problem = Problem::unavailable("Too many requests that have not arrived whole are under way.");
        buffers.reply.problem(&problem);
        buffers.reply.send(false, false, &mut buffers.outgoing);
        if stream.write_all(&buffers.outgoing).await.is_ok() && stream.flush().await.is_ok() {
            self.line.lingers();
            close(stream).await;
        }
        false
    }

    /// Answers the batch at the front. False once the connection is over.
    async fn answer_batch(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        buffers: &mut Buffers,
        batch: Batch,
    ) -> bool {
        self.line.works();
        let body = match batch.body {
            Some(place) => &buffers.incoming[place],
            None => buffers.chunks.joined.as_slice(),
        };
        buffers.reply.clear();
        batch::answer(&self.plane, body, &self.line.turns, &mut buffers.reply).await;
        let goes_on = batch.goes_on && !self.line.is_stopping();
        buffers.reply.send(false, goes_on, &mut buffers.outgoing);
        buffers.incoming.drain(..batch.size);
        buffers.forget_request();
        // To take the answer the client has as long as for a request.
        self.line.works();
        if goes_on {
            return true;
        }
        if stream.write_all(&buffers.outgoing).await.is_ok() && stream.flush().await.is_ok() {
            self.line.lingers();
            close(stream).await;
        }
        false
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
            if turn.is_none() && self.line.turns.is_over() {
                break Next::Turn;
            }
            match self.answer_first(taken, buffers, turn.take()) {
                Progress::Answered(size, goes_on) => {
                    taken += size;
                    buffers.forget_request();
                    if !goes_on {
                        break Next::Close;
                    }
                    self.line.turns.spend(1);
                    self.line.works();
                }
                Progress::Partial(wanted) => break Next::Rest(wanted),
                Progress::Batch(batch) => break Next::Batch(batch),
                Progress::Waits(waits) => break Next::Hear(waits),
                Progress::Broken => break Next::Close,
            }
        };
        buffers.incoming.drain(..taken);
        if let Next::Rest(Wanted::Chunks(from)) = next {
            buffers.chunks.take_out_joined(&mut buffers.incoming, from);
        }
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
            route: known,
            ..
        } = buffers;
        reply.at(self.line.tick());
        let buffer = &incoming[from..];
        let head = match Head::read(buffer) {
            Ok(Some(head)) if head.size <= self.line.limits.header_bytes => head,
            Ok(None) if buffer.len() <= self.line.limits.header_bytes => {
                return Progress::Partial(Wanted::Line(self.line.limits.header_bytes));
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
        // Who may not ask is told so before any of the body is waited for.
        let route = known.or_else(|| self.plane.route(&head, reply));
        *known = route;
        let rest = &buffer[head.size..];
        let taken = body::take(head.length, rest, chunks);
        let Some(route) = route else {
            let whole = taken.ok().flatten();
            let goes_on = whole.is_some() && head.keep_alive && !self.line.is_stopping();
            reply.send(head.method == "HEAD", goes_on, outgoing);
            return match whole {
                Some(size) => Progress::Answered(head.size + size, goes_on),
                None => Progress::Broken,
            };
        };
        let size = match taken {
            Ok(Some(size)) => size,
            Ok(None) => {
                if head.waits && rest.is_empty() && !std::mem::replace(told, true) {
                    outgoing.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                return Progress::Partial(match head.length {
                    Length::Exactly(size) => Wanted::Bytes(head.size + size),
                    Length::Chunked => Wanted::Chunks(head.size),
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
        self.line.mark_known();
        let Route::Single(route) = route else {
            let body = head.size..head.size + size;
            return Progress::Batch(Batch {
                size: body.end,
                body: matches!(head.length, Length::Exactly(_)).then_some(body),
                goes_on: head.keep_alive,
            });
        };
        let body = match head.length {
            Length::Exactly(_) => &rest[..size],
            Length::Chunked => chunks.joined.as_slice(),
        };
        if turn.is_none() {
            reply.clear();
        }
        let asked = Asked {
            peer: self.line.peer,
            head: &head,
            body,
        };
        if let Some(waits) = self.plane.answer(route, &asked, turn, reply) {
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
async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let _ = stream.shutdown().await;
    let mut scrap = [0; 4096];
    for _ in 0..512 {
        if !matches!(stream.read(&mut scrap).await, Ok(1..)) {
            return;
        }
    }
}
