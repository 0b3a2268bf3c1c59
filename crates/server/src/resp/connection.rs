//! One client's connection: commands are read, answered in order, and all that have arrived with one write.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Front;
use super::command::{Caller, Told};
use super::parse;
use super::reply::Reply;
use super::throttle;
use crate::clock;
use crate::workers::{Holding, Line};

/// Answers are sent once so much has piled up.
const MAX_UNSENT: usize = 256 * 1024;
const FIRST_BUFFER: usize = 16 * 1024;
/// Commands that are one step of the connection's turn.
const COMMANDS_OF_A_STEP: usize = 8;
/// What a client that has shown no token where one is needed may send before its command is whole.
const STRANGERS_BYTES: usize = 4 * 1024;
/// A command takes up so much before it counts towards the bounds for all that are not whole.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// What a client that is told to go may still say, in reads.
const LAST_READS: usize = 64;

pub(super) struct Connection {
    front: Arc<Front>,
    line: Line,
    caller: Caller,
}

/// What to do once what has arrived is answered.
enum Next {
    /// Read on.
    Read,
    /// Send, then go on.
    Send,
    /// Send, then let others come first.
    Turn,
    /// Send, then close.
    Close,
}

impl Connection {
    pub(super) fn new(front: Arc<Front>, line: Line) -> Self {
        let caller = Caller::default();
        Self { front, line, caller }
    }

    /// Serves until the client closes, breaks the protocol, or says that it is over.
    pub(super) async fn serve(mut self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut incoming = Vec::with_capacity(FIRST_BUFFER);
        let mut reply = Reply::with_capacity(FIRST_BUFFER);
        let mut holding = self.line.part();
        self.line.idles();
        loop {
            // A command has so long from its first byte on, however often some more of it comes.
            let more = if incoming.is_empty() {
                let begins = self.line.read_idle(&mut stream, &mut incoming).await;
                self.line.works();
                begins
            } else {
                matches!(stream.read_buf(&mut incoming).await, Ok(1..))
            };
            if !more {
                let _ = stream.shutdown().await;
                return;
            }
            loop {
                let mut next = self.answer_all(&mut incoming, &mut reply).await;
                if matches!(next, Next::Read) && !self.may_hold(incoming.len(), &mut holding) {
                    reply.error("ERR Protocol error: too big command");
                    next = Next::Close;
                }
                if !reply.bytes.is_empty() {
                    // Whoever does not read their answers has so long to take each of these writes.
                    self.line.works();
                    if stream.write_all(&reply.bytes).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                    reply.bytes.clear();
                }
                match next {
                    Next::Send => {}
                    Next::Turn => {
                        self.line.turns.next().await;
                        self.line.works();
                    }
                    Next::Read => break,
                    Next::Close => return close(stream).await,
                }
            }
            // A command that has begun has to come to its end in time; else nothing is owed.
            if incoming.is_empty() {
                self.line.turns.renew();
                self.line.idles();
                incoming.shrink_to(FIRST_BUFFER);
                reply.bytes.shrink_to(MAX_UNSENT);
            }
        }
    }

    /// True if so much of a command that is not whole may be held.
    fn may_hold(&self, bytes: usize, holding: &mut Holding) -> bool {
        if bytes <= UNCOUNTED_BYTES {
            holding.clear();
        }
        let stranger = self.front.tokens.is_some() && !self.caller.known;
        !(stranger && bytes > STRANGERS_BYTES) && (bytes <= UNCOUNTED_BYTES || holding.grow_to(bytes))
    }

    /// Answers every command that has arrived whole.
    async fn answer_all(&mut self, incoming: &mut Vec<u8>, reply: &mut Reply) -> Next {
        let (started, now) = (Instant::now(), clock::now());
        let (mut taken, mut answered, mut allowed, mut limited) = (0, 0, 0, 0);
        let next = loop {
            if reply.bytes.len() > MAX_UNSENT {
                break Next::Send;
            }
            if self.line.turns.is_over() {
                break Next::Turn;
            }
            let (words, size) = match parse::command(&incoming[taken..]) {
                Ok(Some(command)) => command,
                Ok(None) if self.line.is_stopping() => break Next::Close,
                Ok(None) => break Next::Read,
                Err(broken) => {
                    reply.error(&format!("ERR Protocol error: {broken}"));
                    break Next::Close;
                }
            };
            taken += size;
            answered += 1;
            if answered % COMMANDS_OF_A_STEP == 0 {
                self.line.turns.spend(1);
            }
            // What it waits for from now on is not for more of itself to arrive.
            self.line.works();
            match self.front.answer(&words, &mut self.caller, reply) {
                Told::Answered => {}
                Told::Quit => break Next::Close,
                Told::Throttle(asked) => {
                    let engine = &self.front.engine;
                    let says = if engine.shares_throttles() {
                        let says = engine.throttle_shared(&asked, now).await;
                        self.line.works();
                        says
                    } else {
                        engine.throttle(&asked, now)
                    };
                    match &says {
                        Ok(says) if says.limited => limited += 1,
                        Ok(_) => allowed += 1,
                        Err(_) => {}
                    }
                    throttle::write(&asked, says, reply);
                }
            }
        };
        incoming.drain(..taken);
        if taken > 0 && (self.caller.known || self.front.tokens.is_none()) {
            self.line.mark_known();
        }
        let metrics = &self.front.metrics;
        metrics.observe_throttles(allowed, limited, started.elapsed());
        next
    }
}

/// Closes so that the client can read the last answer: bytes of its left unread would turn the close into a
/// reset. What it still sends is read and forgotten, up to a bound and the deadline.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let _ = stream.shutdown().await;
    let mut scrap = [0; 4096];
    for _ in 0..LAST_READS {
        if !matches!(stream.read(&mut scrap).await, Ok(1..)) {
            return;
        }
    }
}
