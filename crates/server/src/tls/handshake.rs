//! Handshakes, on a thread of their own.
//!
//! A handshake signs and verifies for as long as hundreds of decisions take. Made here, not even a flood of them
//! takes time from the threads that decide or from the one that accepts. The session that comes of it goes on
//! wherever its connection is served.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConnection;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificates::Certificates;
use super::offer::Address;
use crate::metrics::Metrics;
use crate::serve::stopped;

/// How long a client may take over its handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long handshakes are still made once the server stops: whoever is in the middle of one may have sent a request.
const LAST: Duration = Duration::from_secs(1);

/// Where handshakes are made. Clones share the thread.
#[derive(Clone)]
pub struct Handshakes {
    certificates: Arc<Certificates>,
    metrics: Arc<Metrics>,
    thread: Handle,
}

/// A session whose handshake is done, between two threads.
pub struct Session {
    acceptor: TlsAcceptor,
    session: ServerConnection,
}

impl Handshakes {
    /// Starts the thread, which ends a moment after `stop` has turned true.
    pub fn start(
        certificates: Arc<Certificates>,
        metrics: Arc<Metrics>,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = runtime.handle().clone();
        let name = std::thread::Builder::new().name("handshakes".to_owned());
        name.spawn(move || {
            runtime.block_on(async {
                stopped(&mut stop).await;
                tokio::time::sleep(LAST).await;
            });
        })?;
        Ok(Self {
            certificates,
            metrics,
            thread,
        })
    }

    /// Makes the handshake of a connection. There is none if the client does not keep to the protocol, takes too
    /// long or has no certificate where it needs one, and once the server stops.
    pub async fn make(&self, at: Address, stream: TcpStream) -> Option<(TcpStream, Session)> {
        let acceptor = TlsAcceptor::from(self.certificates.offer(at));
        let made = self
            .thread
            .spawn(tokio::time::timeout(PATIENCE, make(acceptor, stream)));
        let _given_up = GivenUp(made.abort_handle());
        let error = match made.await {
            Ok(Ok(Ok(made))) => return Some(made),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => io::Error::from(io::ErrorKind::TimedOut),
            Err(_) => return None,
        };
        self.metrics.handshake_failed();
        tracing::debug!(address = ?at, %error, "a TLS handshake failed");
        None
    }
}

/// Ends a handshake that nobody waits for any more.
struct GivenUp(AbortHandle);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn make(acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<(TcpStream, Session)> {
    stream.set_nodelay(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let (stream, session) = acceptor.accept(stream).await?.into_inner();
    Ok((stream.into_std()?, Session { acceptor, session }))
}

impl Session {
    /// Takes the session up on the thread that serves its connection.
    pub async fn take_up(
        self,
        stream: tokio::net::TcpStream,
    ) -> io::Result<TlsStream<tokio::net::TcpStream>> {
        let Self { acceptor, session } = self;
        // With a session that is past its handshake there is nothing left to accept.
        acceptor.accept_with(stream, |fresh| *fresh = session).await
    }
}
