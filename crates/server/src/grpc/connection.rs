//! One client's connection.
//!
//! All requests that have arrived are taken up together, and what can be answered at once is, so that their answers go
//! out with one write. Only a request that has to wait for something becomes a task of its own.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::gathered::Gathered;
use super::{Front, HEADER_BYTES, KEEPALIVE, STREAMS, WINDOW_BYTES};
use crate::serve::stopped;
use crate::workers::Line;

/// Requests that are answered before others of the thread have their turn.
const TURN: usize = 64;
/// How long a client that is done has to take what was still to be said.
const LAST_WORDS: Duration = Duration::from_secs(1);

type Arrived = (Request<RecvStream>, SendResponse<Bytes>);

/// Serves until the client closes or breaks the protocol, or until the server stops and what is under way is answered.
pub(super) async fn serve(front: Arc<Front>, line: Line, stream: impl AsyncRead + AsyncWrite + Unpin) {
    line.works();
    let out = Gathered::new(stream);
    let mut handshake = pin!(settings().handshake::<_, Bytes>(out.clone()));
    let shaken = poll_fn(|context| {
        let shaken = handshake.as_mut().poll(context);
        // An end that can't be written to shows when it is read from.
        let _ = out.poll_send(context);
        shaken
    });
    let mut stop = front.stop.clone();
    let (mut stopped, mut stopping) = (pin!(stopped(&mut stop)), false);
    let shaken = tokio::select! {
        shaken = shaken => shaken,
        // Who has said nothing yet is owed nothing.
        () = &mut stopped => return,
    };
    let Ok(mut connection) = shaken else {
        return;
    };
    line.lasts();
    let pings = connection.ping_pong();
    let heard = Cell::new(false);
    let mut left_alone = pin!(left_alone(pings, &heard));
    let mut underway = JoinSet::new();
    let mut arrived = Vec::new();
    loop {
        tokio::select! {
            biased;
            goes_on = poll_fn(|context| take_up(&mut connection, &out, &mut arrived, context)) => {
                if !goes_on {
                    let _ = timeout(LAST_WORDS, poll_fn(|context| out.poll_send(context))).await;
                    return;
                }
                heard.set(true);
                let is_full = arrived.len() == TURN;
                for (request, respond) in arrived.drain(..) {
                    if let Some(rest) = front.begin(request, respond, line.peer) {
                        underway.spawn_local(rest);
                    }
                }
                if is_full {
                    tokio::task::yield_now().await;
                }
            }
            Some(_) = underway.join_next() => {}
            () = &mut stopped, if !stopping => {
                stopping = true;
                connection.graceful_shutdown();
            }
            () = &mut left_alone => return,
        }
    }
}

fn settings() -> Builder {
    let mut settings = Builder::new();
    settings
        .max_concurrent_streams(STREAMS)
        // All that may be open may be given up by their clients in one moment in which this thread does not read. Who
        // resets more than these before they were looked at is not waiting for answers.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_header_list_size(HEADER_BYTES)
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    settings
}

/// Takes up the requests that have arrived, and sends what there is to say. Not so if the connection has ended.
fn take_up<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut Connection<Gathered<S>, Bytes>,
    out: &Gathered<S>,
    arrived: &mut Vec<Arrived>,
    context: &mut Context<'_>,
) -> Poll<bool> {
    while arrived.len() < TURN {
        match connection.poll_accept(context) {
            Poll::Ready(Some(Ok(request))) => arrived.push(request),
            Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
            Poll::Pending if arrived.is_empty() => {
                return match out.poll_send(context) {
                    Poll::Ready(Err(_)) => Poll::Ready(false),
                    Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                };
            }
            Poll::Pending => return Poll::Ready(true),
        }
    }
    // More may go on arriving for as long as it likes: what was answered before is sent meanwhile.
    match out.poll_send(context) {
        Poll::Ready(Err(_)) => Poll::Ready(false),
        Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(true),
    }
}

/// Comes back once nobody is at the other end any more: nothing was heard for a while, not even the answer to a ping.
async fn left_alone(pings: Option<PingPong>, heard: &Cell<bool>) {
    let Some(mut pings) = pings else {
        return;
    };
    let mut clock = interval_at(Instant::now() + KEEPALIVE, KEEPALIVE);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = false;
    loop {
        tokio::select! {
            pong = poll_fn(|context| pings.poll_pong(context)), if asked => {
                asked = false;
                heard.set(true);
                if pong.is_err() {
                    return;
                }
            }
            _ = clock.tick() => {
                if !heard.replace(false) {
                    if asked || pings.send_ping(Ping::opaque()).is_err() {
                        return;
                    }
                    asked = true;
                }
            }
        }
    }
}
