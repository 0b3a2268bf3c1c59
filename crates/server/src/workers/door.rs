//! The door: connections are accepted, and dealt out to the threads that serve them.
//!
//! Over TLS a connection is dealt out once its handshake is done. Until then it waits elsewhere, with a place among
//! the open ones, and the next is accepted meanwhile. When all places are taken, one that is silent makes room.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::complaints::Complaints;
use super::places::{Place, Places};
use crate::serve::stopped;
use crate::tls::{Address, Handshakes, Session};

/// How long nothing is accepted after that has failed.
const PAUSE: Duration = Duration::from_millis(50);
/// A handshake that takes so long gives way to others.
const SLOW_HANDSHAKE: Duration = Duration::from_secs(1);
/// Connections that are accepted at the end, which had arrived by then.
const LAST_ACCEPTED: usize = 4096;
/// How long handshakes may take at the end.
const LAST_HANDSHAKES: Duration = Duration::from_secs(1);

/// A connection on its way to a thread.
pub(super) struct Arrived {
    pub(super) stream: TcpStream,
    /// What the handshake came to, over TLS.
    pub(super) session: Option<Box<Session>>,
    pub(super) place: Place,
}

/// What a worker is given.
pub(super) enum Dealt {
    /// A connection to serve.
    Connection(Arrived),
    /// A wish that one of its connections makes room, and who wants to know whether one does.
    MakeRoom(oneshot::Sender<bool>),
}

/// Handshakes that were begun, the oldest first, and when.
type Shaking = VecDeque<(Instant, AbortHandle)>;

/// Where connections come in.
pub(super) struct Door {
    pub(super) socket: TcpListener,
    /// Connections that are not accepted by the end are for another process.
    pub(super) outlasts: bool,
    pub(super) places: Places,
    /// Those for which there is no place are closed at once, and don't wait.
    pub(super) turns_away: bool,
    /// What makes handshakes, if TLS is spoken.
    pub(super) handshakes: Option<(Address, Handshakes)>,
}

impl Door {
    /// Accepts connections and deals them out in turn.
    pub(super) async fn keep(mut self, mut stop: watch::Receiver<bool>) {
        let mut complaints = Complaints::default();
        let mut shaking = Shaking::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = stopped(&mut stop) => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                // The client has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    if let Some(unsaid) = complaints.are_due(Instant::now()) {
                        tracing::warn!(%error, unsaid, "could not accept a connection; trying again");
                    }
                    tokio::select! {
                        () = sleep(PAUSE) => continue,
                        () = stopped(&mut stop) => break,
                    }
                }
            };
            let place = tokio::select! {
                place = self.place(&mut shaking) => place,
                // At the end nobody else comes: this one is served in addition.
                () = stopped(&mut stop) => Some(None),
            };
            if let (Some(place), Ok(stream)) = (place, stream.into_std()) {
                let handshakes = self.handshakes.as_ref();
                deal(stream, place, &mut self.places, handshakes, &mut shaking, &stop).await;
            }
        }
        self.accept_last(shaking, &stop).await;
    }

    /// A place for a connection that is there, or nothing if it is to be closed.
    async fn place(&mut self, shaking: &mut Shaking) -> Option<Place> {
        loop {
            if let Some(place) = self.places.free() {
                return Some(place);
            }
            if ends_slow_handshake(shaking)
                && let Some(place) = self.places.freed().await
            {
                return Some(place);
            }
            if let Some(place) = self.places.made_free().await {
                return Some(place);
            }
            if self.turns_away {
                return None;
            }
            // The kernel's backlog holds the next ones meanwhile.
            if let Some(place) = self.places.freed().await {
                return Some(place);
            }
        }
    }

    /// Accepts what had arrived by the end: its clients don't know of it, and nobody else would answer them.
    async fn accept_last(self, mut shaking: Shaking, stop: &watch::Receiver<bool>) {
        let Self {
            socket,
            mut places,
            handshakes,
            outlasts,
            ..
        } = self;
        // Asked itself, the socket says for certain whether anybody waits.
        let (Ok(socket), false) = (socket.into_std(), outlasts) else {
            return;
        };
        for _ in 0..LAST_ACCEPTED {
            let Ok((stream, _)) = socket.accept() else { return };
            if stream.set_nonblocking(true).is_ok() {
                deal(stream, None, &mut places, handshakes.as_ref(), &mut shaking, stop).await;
            }
        }
    }
}

/// Deals a connection out, over TLS once its handshake is done.
async fn deal(
    stream: TcpStream,
    place: Place,
    places: &mut Places,
    handshakes: Option<&(Address, Handshakes)>,
    shaking: &mut Shaking,
    stop: &watch::Receiver<bool>,
) {
    let worker = places.next_worker();
    let Some((address, handshakes)) = handshakes else {
        let arrived = Arrived {
            stream,
            session: None,
            place,
        };
        let _ = worker.send(Dealt::Connection(arrived)).await;
        return;
    };
    let made = (*address, handshakes.clone());
    let task = tokio::spawn(secure(made, stream, place, worker, stop.clone()));
    while shaking.front().is_some_and(|(_, task)| task.is_finished()) {
        shaking.pop_front();
    }
    shaking.push_back((Instant::now(), task.abort_handle()));
}

/// Ends the oldest handshake that is under way, if it has had its time.
fn ends_slow_handshake(shaking: &mut Shaking) -> bool {
    while let Some((began, task)) = shaking.front() {
        if task.is_finished() {
            shaking.pop_front();
            continue;
        }
        let slow = began.elapsed() >= SLOW_HANDSHAKE;
        if slow {
            task.abort();
            shaking.pop_front();
        }
        return slow;
    }
    false
}

/// Deals a connection out once its handshake is done.
async fn secure(
    (address, handshakes): (Address, Handshakes),
    stream: TcpStream,
    place: Place,
    worker: mpsc::Sender<Dealt>,
    mut stop: watch::Receiver<bool>,
) {
    let too_late = async {
        stopped(&mut stop).await;
        sleep(LAST_HANDSHAKES).await;
    };
    let made = tokio::select! {
        made = handshakes.make(address, stream) => made,
        () = too_late => None,
    };
    if let Some((stream, session)) = made {
        let session = Some(Box::new(session));
        let arrived = Arrived {
            stream,
            session,
            place,
        };
        let _ = worker.send(Dealt::Connection(arrived)).await;
    }
}
