//! A server of the data plane: a thread for each core, each with a runtime of its own, so that a request is
//! read, decided and answered without ever changing threads. [`door`] deals connections out to them.
//!
//! What is spoken on a connection is a [`Protocol`]'s business.

mod budget;
mod complaints;
mod door;
mod line;
mod places;
mod turns;

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, LocalSet};

use crate::serve::stopped;
use crate::tls::{Address, Handshakes};
use door::{Arrived, Dealt, Door};
use line::{Shared, State, Verdict};
use places::Places;

pub use budget::{Budget, Holding};
pub use line::Line;
pub use turns::{STEPS, Turns};

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
    /// Bytes of requests that have not arrived whole, of all clients together.
    pub unfinished_bytes: usize,
    /// The same of the clients at one address.
    pub unfinished_bytes_of_peer: usize,
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
            unfinished_bytes: 128 * 1024 * 1024,
            unfinished_bytes_of_peer: 32 * 1024 * 1024,
        }
    }
}

/// An address on which a server listens.
#[derive(Debug)]
pub struct Listener {
    /// The socket, which is bound.
    pub socket: TcpListener,
    /// It stays open elsewhere when this process ends: what waits there is for the next one to accept.
    pub outlasts: bool,
}

/// A running server.
pub struct Server {
    workers: Vec<std::thread::JoinHandle<()>>,
}

/// Connections handed to a worker and not yet taken by it.
const HANDOVER: usize = 256;

impl Server {
    /// Serves on a bound listener until `stop` turns true, over TLS if there is something that makes handshakes.
    /// Must be called within a runtime, which accepts.
    pub fn start<P: Protocol>(
        listener: Listener,
        threads: usize,
        limits: Limits,
        protocol: &P,
        handshakes: Option<Handshakes>,
        stop: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        listener.socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(listener.socket)?;
        let budget = Budget::new(limits.unfinished_bytes, limits.unfinished_bytes_of_peer);
        let mut workers = Vec::new();
        let mut senders = Vec::new();
        for number in 0..threads.max(1) {
            let (sender, receiver) = mpsc::channel(HANDOVER);
            let (protocol, stop, budget) = (protocol.clone(), stop.clone(), budget.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let thread = std::thread::Builder::new().name(format!("{}-{number}", P::ADDRESS.name()));
            workers.push(thread.spawn(move || {
                let worker = Worker {
                    protocol,
                    shared: Rc::default(),
                    budget,
                    connections: RefCell::default(),
                    limits,
                };
                runtime.block_on(LocalSet::new().run_until(worker.run(receiver, stop)));
            })?);
            senders.push(sender);
        }
        let door = Door {
            socket,
            outlasts: listener.outlasts,
            places: Places::new(limits.connections, senders),
            turns_away: limits.turns_away,
            handshakes: handshakes.map(|handshakes| (P::ADDRESS, handshakes)),
        };
        tokio::spawn(door.keep(stop.clone()));
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
    budget: Arc<Budget>,
    /// The oldest first.
    connections: RefCell<Vec<(Rc<State>, AbortHandle)>>,
    limits: Limits,
}

impl<P: Protocol> Worker<P> {
    async fn run(self, mut incoming: mpsc::Receiver<Dealt>, mut stop: watch::Receiver<bool>) {
        let lane = self.shared.lane.clone();
        tokio::task::spawn_local(async move { lane.keep().await });
        let mut clock = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                Some(dealt) = incoming.recv() => self.take(dealt),
                _ = clock.tick() => self.tick(),
                () = stopped(&mut stop) => break,
            }
        }
        self.drain(incoming, clock).await;
    }

    /// Answers what clients have sent until they hear that it is over, and ends when nobody is there any more.
    async fn drain(&self, mut incoming: mpsc::Receiver<Dealt>, mut clock: tokio::time::Interval) {
        self.shared.stopping.set(true);
        for (state, _) in self.connections.borrow().iter() {
            state.hurry(self.shared.tick.get());
        }
        let deadline = tokio::time::Instant::now() + self.limits.drain;
        let mut look = tokio::time::interval(Duration::from_millis(5));
        let mut more = true;
        loop {
            tokio::select! {
                // Those that were accepted before the end are served like any others.
                dealt = incoming.recv(), if more => match dealt {
                    Some(dealt) => self.take(dealt),
                    None => more = false,
                },
                _ = clock.tick() => self.tick(),
                _ = look.tick() => self.forget_ended(),
            }
            if !more && self.connections.borrow().is_empty() {
                return;
            }
            if tokio::time::Instant::now() >= deadline {
                tracing::warn!("some connections were still open after the drain time");
                return;
            }
        }
    }

    fn take(&self, dealt: Dealt) {
        match dealt {
            Dealt::Connection(arrived) => self.begin(arrived),
            Dealt::MakeRoom(reply) => {
                let _ = reply.send(self.make_room());
            }
        }
    }

    fn begin(&self, arrived: Arrived) {
        let Arrived {
            stream,
            session,
            place,
        } = arrived;
        let Ok(stream) = TcpStream::from_std(stream) else {
            return;
        };
        let _ = stream.set_nodelay(true);
        let Ok(peer) = stream.peer_addr() else { return };
        let state = Rc::new(State::begun(self.shared.tick.get(), &self.limits));
        let protocol = self.protocol.clone();
        let line = Line::new(&self.shared, &state, &self.budget, self.limits, peer.ip());
        // Two tasks of two types, so that a plain connection costs neither the memory nor the steps of TLS.
        let task = match session {
            None => tokio::task::spawn_local(async move {
                let _place = place;
                protocol.serve(line, stream).await;
            }),
            Some(session) => tokio::task::spawn_local(async move {
                let _place = place;
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
            if state.at(now) == Verdict::Ends {
                task.abort();
            }
        }
        self.forget_ended();
    }

    /// Ends the connection that is the least loss, if any is: the oldest that nobody was heard on who may ask, else the
    /// one that has had no request for the longest time. Whoever is known and at a request is never ended for another.
    fn make_room(&self) -> bool {
        let now = self.shared.tick.get();
        let connections = self.connections.borrow();
        let mut open = connections.iter().filter(|(_, task)| !task.is_finished());
        if let Some((state, task)) = open.clone().find(|(state, _)| state.is_silent(now)) {
            state.leave(now);
            task.abort();
            return true;
        }
        let rests = |(state, _): &(Rc<State>, AbortHandle)| state.rests_since(now);
        let longest = open.clone().filter_map(rests).min();
        let longest = longest.and_then(|since| open.find(|(state, _)| state.rests_since(now) == Some(since)));
        if let Some((state, _)) = longest {
            state.leave(now);
        }
        longest.is_some()
    }

    fn forget_ended(&self) {
        self.connections
            .borrow_mut()
            .retain(|(_, task)| !task.is_finished());
    }
}
