//! One client's connection: requests are read, decided and answered in order.
//!
//! Everything that has arrived is answered with one write. How long a connection may take over what it is at is
//! a deadline that the worker looks at now and then, so that a request costs no timer.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::body::{self, BodyError, Chunks};
use super::head::{Head, Length, Malformed};
use super::reply::Reply;
use super::{Asked, DataPlane, Limits, Turn, Waits};
use crate::answer::Problem;

/// What the worker may know of a connection.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The tick of the worker at which the connection is ended.
    pub(super) deadline: Cell<u64>,
    /// It waits for a request and owes no answer.
    pub(super) idle: Cell<bool>,
}

/// What all connections of a worker share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The worker's clock, in ticks.
    pub(super) tick: Cell<u64>,
    /// No further request is taken.
    pub(super) stopping: Cell<bool>,
}

/// Answers are sent once so much has piled up.
const MAX_UNSENT: usize = 256 * 1024;
const FIRST_BUFFER: usize = 4 * 1024;
/// A buffer that a large body made larger than this is made small again.
const LARGE_BUFFER: usize = 64 * 1024;

pub(super) struct Connection {
    pub(super) plane: Arc<DataPlane>,
    pub(super) shared: Rc<Shared>,
    pub(super) state: Rc<State>,
    pub(super) limits: Limits,
    pub(super) peer: IpAddr,
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
            self.expect(true, self.limits.idle_ticks());
            if !matches!(stream.read_buf(&mut buffers.incoming).await, Ok(1..)) {
                return;
            }
            // From its first byte on, a request has so long to arrive whole, however it drips in.
            self.expect(false, self.limits.request_ticks());
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
                    Next::Close => return close(stream).await,
                }
            }
            if buffers.incoming.capacity() > LARGE_BUFFER {
                buffers.incoming = Vec::with_capacity(FIRST_BUFFER);
            }
        }
    }

    fn expect(&self, idle: bool, ticks: u64) {
        self.state.idle.set(idle);
        self.state.deadline.set(self.shared.tick.get() + ticks);
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
                    self.expect(false, self.limits.request_ticks());
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
        reply.at(self.shared.tick.get());
        let buffer = &incoming[from..];
        let head = match Head::read(buffer) {
            Ok(Some(head)) if head.size <= self.limits.header_bytes => head,
            Ok(None) if buffer.len() <= self.limits.header_bytes => {
                return Progress::Partial(buffer.len() + 1);
            }
            Ok(_) => return refuse(431, "The request's head is too large.", reply, outgoing),
            Err(problem) => {
                let status = match problem {
                    Malformed::TooManyHeaders => 431,
                    Malformed::Expectation => 417,
                    _ => 400,
                };
                return refuse(status, problem.to_string(), reply, outgoing);
            }
        };
        let rest = &buffer[head.size..];
        let size = match body::take(head.length, rest, chunks) {
            Ok(Some(size)) => size,
            Ok(None) if rest.len() > 4 * body::MAX_BYTES => {
                return refuse(413, "The body's chunks take up too much room.", reply, outgoing);
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
                return refuse(413, detail, reply, outgoing);
            }
            Err(BodyError::Chunks) => {
                return refuse(400, "The body's chunks are not well-formed.", reply, outgoing);
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
            peer: self.peer,
            head: &head,
            body,
        };
        if let Some(waits) = self.plane.answer(&asked, turn, reply) {
            return Progress::Waits(Box::new(waits));
        }
        let goes_on = head.keep_alive && !self.shared.stopping.get();
        reply.send(head.method == "HEAD", goes_on, outgoing);
        Progress::Answered(head.size + size, goes_on)
    }
}

fn refuse(status: u16, detail: impl Into<String>, reply: &mut Reply, outgoing: &mut Vec<u8>) -> Progress {
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
