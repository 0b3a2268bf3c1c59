//! The HTTP server of the data plane: a thread for each core, each with a runtime of its own, so that a
//! request is read, decided and answered without ever changing threads.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::DataPlane;
use crate::serve::stopped;

/// What one client may take up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections open at once; further ones wait to be accepted.
    pub connections: usize,
    /// How long a request's head may take to arrive.
    pub header_timeout: Duration,
    /// The largest head, and the read buffer.
    pub header_bytes: usize,
    /// How long open requests are waited for at the end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_timeout: Duration::from_secs(10),
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
    /// Serves on a bound listener until `stop` turns true. Must be called within a runtime, which accepts.
    pub fn start(
        listener: TcpListener,
        threads: usize,
        limits: Limits,
        plane: &Arc<DataPlane>,
        stop: &watch::Receiver<bool>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let open = Arc::new(AtomicUsize::new(0));
        let mut workers = Vec::new();
        let mut senders = Vec::new();
        for number in 0..threads.max(1) {
            let (sender, receiver) = mpsc::channel(HANDOVER);
            let (plane, stop, open) = (plane.clone(), stop.clone(), open.clone());
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let thread = std::thread::Builder::new().name(format!("data-plane-{number}"));
            workers.push(thread.spawn(move || {
                runtime.block_on(work(receiver, plane, stop, open, limits));
            })?);
            senders.push(sender);
        }
        tokio::spawn(accept(listener, senders, stop.clone(), open, limits.connections));
        Ok(Self { workers })
    }

    /// Waits until every worker has drained.
    pub fn join(self) {
        for worker in self.workers {
            let _ = worker.join();
        }
    }
}

/// Accepts connections and deals them out in turn, so that the threads carry the same load.
async fn accept(
    listener: tokio::net::TcpListener,
    workers: Vec<mpsc::Sender<std::net::TcpStream>>,
    mut stop: watch::Receiver<bool>,
    open: Arc<AtomicUsize>,
    max_open: usize,
) {
    let mut turn = 0;
    let mut retry = tokio::time::interval(Duration::from_millis(10));
    loop {
        if open.load(Ordering::Relaxed) >= max_open {
            // Full: the kernel's backlog holds the next ones until a connection closes.
            tokio::select! {
                _ = retry.tick() => continue,
                () = stopped(&mut stop) => return,
            }
        }
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
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
        let Ok(stream) = stream.into_std() else { continue };
        open.fetch_add(1, Ordering::Relaxed);
        turn = (turn + 1) % workers.len();
        if workers[turn].send(stream).await.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

async fn work(
    mut incoming: mpsc::Receiver<std::net::TcpStream>,
    plane: Arc<DataPlane>,
    mut stop: watch::Receiver<bool>,
    open: Arc<AtomicUsize>,
    limits: Limits,
) {
    let mut connections = JoinSet::new();
    let stopping = stop.clone();
    loop {
        tokio::select! {
            Some(stream) = incoming.recv() => {
                let (plane, stop, open) = (plane.clone(), stopping.clone(), open.clone());
                connections.spawn(async move {
                    if let Ok(stream) = TcpStream::from_std(stream) {
                        serve(stream, plane, stop, limits).await;
                    }
                    open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::warn!("some connections were still open after the drain time");
    }
}

async fn serve(stream: TcpStream, plane: Arc<DataPlane>, mut stop: watch::Receiver<bool>, limits: Limits) {
    let _ = stream.set_nodelay(true);
    let Ok(peer) = stream.peer_addr() else { return };
    let service = service_fn(|request| {
        let plane = &plane;
        async move { Ok::<_, Infallible>(plane.answer(peer.ip(), request).await) }
    });
    let connection = http1::Builder::new()
        // Without a timer the header timeout would be inert.
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes)
        .pipeline_flush(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(&mut stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
