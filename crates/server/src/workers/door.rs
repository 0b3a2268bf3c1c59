//! The door: connections are accepted, and dealt out to the threads that serve them.
//!
//! Over TLS a connection is dealt out once its handshake is done. Until then it waits elsewhere, with a place among
//! the open ones, and the next is accepted meanwhile.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::serve::stopped;
use crate::tls::{Address, Handshakes, Session};

/// A connection on its way to a thread.
pub(super) struct Arrived {
    pub(super) stream: TcpStream,
    /// What the handshake came to, over TLS.
    pub(super) session: Option<Box<Session>>,
    pub(super) slot: Slot,
}

/// A connection's place among those that may be open; given up when it is dropped, however its connection ends.
pub(super) struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open.clone())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where connections come in.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) workers: Vec<mpsc::Sender<Arrived>>,
    /// Connections open at most.
    pub(super) most: usize,
    /// Whether further ones are closed at once.
    pub(super) turns_away: bool,
    /// What makes handshakes, if TLS is spoken.
    pub(super) handshakes: Option<(Address, Handshakes)>,
}

impl Door {
    /// Accepts connections and deals them out in turn, so that the threads carry the same load.
    pub(super) async fn keep(self, mut stop: watch::Receiver<bool>) {
        let open = Arc::new(AtomicUsize::new(0));
        let mut turn = 0;
        let mut retry = tokio::time::interval(Duration::from_millis(10));
        loop {
            let is_full = || open.load(Ordering::Relaxed) >= self.most;
            if is_full() && !self.turns_away {
                // Full: the kernel's backlog holds the next ones until a connection closes.
                tokio::select! {
                    _ = retry.tick() => continue,
                    () = stopped(&mut stop) => return,
                }
            }
            let stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Out of file descriptors, or the client has gone again: neither ends the server.
                        tracing::warn!(%error, "could not accept a connection");
                        retry.tick().await;
                        continue;
                    }
                },
                () = stopped(&mut stop) => return,
            };
            if is_full() {
                continue;
            }
            let Ok(stream) = stream.into_std() else { continue };
            let slot = Slot::take(&open);
            turn = (turn + 1) % self.workers.len();
            let worker = &self.workers[turn];
            match &self.handshakes {
                None => {
                    let session = None;
                    let _ = worker
                        .send(Arrived {
                            stream,
                            session,
                            slot,
                        })
                        .await;
                }
                Some((address, handshakes)) => {
                    let made = (*address, handshakes.clone());
                    tokio::spawn(secure(made, stream, slot, worker.clone()));
                }
            }
        }
    }
}

/// Deals a connection out once its handshake is done.
async fn secure(
    (address, handshakes): (Address, Handshakes),
    stream: TcpStream,
    slot: Slot,
    worker: mpsc::Sender<Arrived>,
) {
    if let Some((stream, session)) = handshakes.make(address, stream).await {
        let session = Some(Box::new(session));
        let _ = worker
            .send(Arrived {
                stream,
                session,
                slot,
            })
            .await;
    }
}
