//! A server of the data plane: a thread for each core, each with a runtime of its own, so that a request is
//! read, decided and answered without ever changing threads. [`door`] deals connections out to them.
//!
//! What is spoken on a connection is a [`Protocol`]'s business.

mod door;
mod line;

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, LocalSet};

use crate::serve::stopped;
use crate::tls::{Address, Handshakes};
use door::{Arrived, Door};
use line::{Shared, State};

pub use line::Line;

/// What is spoken with clients.
pub trait Protocol: Clone + Send + 'static {
    /// Where.
    const ADDRESS: Address;

    /// Serves one connection until it ends.
    fn serve(
        self,
        line: Line,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    ) -> impl Future<Output = ()> + 'static;
}

/// What one client may take up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections open at once.
    pub connections: usize,
    /// Whether further ones are closed at once, or wait to be accepted.
    pub turns_away: bool,
    /// How long a request may take to arrive, from its first byte to its last.
    pub request_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// The largest head.
    pub header_bytes: usize,
    /// How long open requests are waited for at the end.
    pub drain: Duration,
}

/// The worker's clock: deadlines are kept to within one of these.
const TICK: Duration = Duration::from_millis(250);

fn ticks(length: Duration) -> u64 {
    u64::try_from(length.as_millis() / TICK.as_millis())
        .unwrap_or(u64::MAX / 2)
        .max(1)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            turns_away: false,
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(2),
            header_bytes: 32 * 1024,
            drain: Duration::from_secs(10),
        }
    }
}

/// A running server.
pub struct Server {
    workers: Vec<std::thread::JoinHandle<()>>,
}

/// Connections handed to a worker and not yet taken by it.
const HANDOVER: usize = 256;

impl Server {
    /// Serves on a bound listener until `stop` turns true, over TLS if there is something that makes handshakes.
    pub fn start<P: Protocol>(
        listener: TcpListener,
        threads: usize,
        limits: Limits,
        protocol: &P,
        handshakes: Option<Handshakes>,
        stop: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let doorkeeper = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _within = doorkeeper.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let mut workers = Vec::new();
        let mut senders = Vec::new();
        for number in 0..threads.max(1) {
            let (sender, receiver) = mpsc::channel(HANDOVER);
            let (protocol, stop) = (protocol.clone(), stop.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let thread = std::thread::Builder::new().name(format!("{}-{number}", P::ADDRESS.name()));
            workers.push(thread.spawn(move || {
                let worker = Worker {
                    protocol,
                    shared: Rc::default(),
                    connections: RefCell::default(),
                    limits,
                };
                runtime.block_on(LocalSet::new().run_until(worker.run(receiver, stop)));
            })?);
            senders.push(sender);
        }
        let door = Door {
            listener,
            workers: senders,
            most: limits.connections,
            turns_away: limits.turns_away,
            handshakes: handshakes.map(|handshakes| (P::ADDRESS, handshakes)),
        };
        // On a thread of its own: whatever keeps the control plane's busy, connections are accepted.
        let stop = stop.clone();
        let thread = std::thread::Builder::new().name(format!("{}-door", P::ADDRESS.name()));
        thread.spawn(move || doorkeeper.block_on(door.keep(stop)))?;
        Ok(Self { workers })
    }

    /// Waits until every worker has drained.
    pub fn join(self) {
        for worker in self.workers {
            let _ = worker.join();
        }
    }
}

/// One thread's connections.
struct Worker<P> {
    protocol: P,
    shared: Rc<Shared>,
    connections: RefCell<Vec<(Rc<State>, AbortHandle)>>,
    limits: Limits,
}

impl<P: Protocol> Worker<P> {
    async fn run(self, mut incoming: mpsc::Receiver<Arrived>, mut stop: watch::Receiver<bool>) {
        let mut clock = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                Some(arrived) = incoming.recv() => self.begin(arrived),
                _ = clock.tick() => self.tick(),
                () = stopped(&mut stop) => break,
            }
        }
        self.shared.stopping.set(true);
        let deadline = tokio::time::Instant::now() + self.limits.drain;
        loop {
            // A moment first, in which requests that have already arrived are taken up.
            tokio::time::sleep(Duration::from_millis(5)).await;
            for (state, task) in self.connections.borrow().iter() {
                if state.idle.get() {
                    task.abort();
                }
            }
            self.forget_ended();
            if self.connections.borrow().is_empty() {
                return;
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!("some connections were still open after the drain time");
                return;
            }
        }
    }

    fn begin(&self, arrived: Arrived) {
        let Arrived {
            stream,
            session,
            slot,
        } = arrived;
        let Ok(stream) = TcpStream::from_std(stream) else {
            return;
        };
        let _ = stream.set_nodelay(true);
        let Ok(peer) = stream.peer_addr() else { return };
        let state = Rc::<State>::default();
        // Its own deadlines begin with its first turn, which a tick may come before.
        state
            .deadline
            .set(self.shared.tick.get() + ticks(self.limits.idle_timeout));
        let protocol = self.protocol.clone();
        let line = Line {
            shared: self.shared.clone(),
            state: state.clone(),
            limits: self.limits,
            peer: peer.ip(),
        };
        // Two tasks of two types, so that a plain connection costs neither the memory nor the steps of TLS.
        let task = match session {
            None => tokio::task::spawn_local(async move {
                let _slot = slot;
                protocol.serve(line, stream).await;
            }),
            Some(session) => tokio::task::spawn_local(async move {
                let _slot = slot;
                if let Ok(stream) = session.take_up(stream).await {
                    protocol.serve(line, stream).await;
                }
            }),
        };
        self.connections.borrow_mut().push((state, task.abort_handle()));
    }

    /// Moves the clock on, ends what has run out of time and forgets what has ended.
    fn tick(&self) {
        let now = self.shared.tick.get() + 1;
        self.shared.tick.set(now);
        for (state, task) in self.connections.borrow().iter() {
            if state.deadline.get() < now {
                task.abort();
            }
        }
        self.forget_ended();
    }

    fn forget_ended(&self) {
        self.connections
            .borrow_mut()
            .retain(|(_, task)| !task.is_finished());
    }
}
