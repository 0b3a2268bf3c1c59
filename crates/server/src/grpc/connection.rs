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
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::client::Client;
use super::gathered::Gathered;
use super::{Front, HEADER_BYTES, KEEPALIVE, STREAMS, WINDOW_BYTES};
use crate::serve::stopped;
use crate::workers::Line;

/// Requests that are taken up together.
const TOGETHER: usize = 64;
/// How long a client that has just connected is listened to once the server stops: its request may be on its way.
const FIRST_WORDS: Duration = Duration::from_secs(1);
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
    let mut end = front.stop.clone();
    let too_late = async {
        stopped(&mut end).await;
        sleep(FIRST_WORDS).await;
    };
    let shaken = tokio::select! {
        shaken = shaken => shaken,
        // Who has said nothing by then is owed nothing.
        () = too_late => return,
    };
    let Ok(mut connection) = shaken else {
        return;
    };
    line.lasts();
    let client = Client::at(line);
    let line = &client.line;
    let (mut stopped, mut stopping) = (pin!(stopped(&mut stop)), false);
    let pings = connection.ping_pong();
    let heard = Cell::new(false);
    let mut left_alone = pin!(left_alone(pings, &heard));
    let mut underway = JoinSet::new();
    let mut arrived = Vec::new();
    loop {
        line.rests(underway.is_empty());
        tokio::select! {
            biased;
            goes_on = poll_fn(|context| take_up(&mut connection, (&out, line), &mut arrived, context)) => {
                if !goes_on {
                    let _ = timeout(LAST_WORDS, poll_fn(|context| out.poll_send(context))).await;
                    return;
                }
                heard.set(true);
                line.rests(false);
                for (request, respond) in arrived.drain(..) {
                    line.turns.spend(1);
                    if let Some(rest) = front.begin(request, respond, &client) {
                        underway.spawn_local(rest);
                    }
                }
                if line.turns.is_over() {
                    // What was answered so far goes out first.
                    let _ = poll_fn(|context| Poll::Ready(out.poll_send(context))).await;
                    line.turns.next().await;
                }
            }
            Some(_) = underway.join_next() => {}
            () = &mut stopped, if !stopping => {
                stopping = true;
                connection.graceful_shutdown();
            }
            () = poll_fn(|context| line.poll_leave(context)), if !stopping => {
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
    (out, line): (&Gathered<S>, &Line),
    arrived: &mut Vec<Arrived>,
    context: &mut Context<'_>,
) -> Poll<bool> {
    // A client that does not take what it is sent is not listened to, until it does or has no more time for that.
    match send(out, line, context) {
        Poll::Ready(true) => {}
        ended_or_stalled => return ended_or_stalled,
    }
    while arrived.len() < TOGETHER {
        match connection.poll_accept(context) {
            Poll::Ready(Some(Ok(request))) => arrived.push(request),
            Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
            Poll::Pending if arrived.is_empty() => {
                line.turns.renew();
                return match send(out, line, context) {
                    Poll::Ready(false) => Poll::Ready(false),
                    Poll::Ready(true) | Poll::Pending => Poll::Pending,
                };
            }
            Poll::Pending => return Poll::Ready(true),
        }
    }
    Poll::Ready(true)
}

/// Sends what is laid down, and has the client's time for taking it run until all is sent. Not so if that can't be.
fn send<S: AsyncWrite + Unpin>(out: &Gathered<S>, line: &Line, context: &mut Context<'_>) -> Poll<bool> {
    match out.poll_send(context) {
        Poll::Ready(sent) => {
            line.flows();
            Poll::Ready(sent.is_ok())
        }
        Poll::Pending => {
            line.stalls();
            Poll::Pending
        }
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
