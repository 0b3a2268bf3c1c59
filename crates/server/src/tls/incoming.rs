//! Listeners of which no more than so many connections come at a time, over TLS once their handshake is done, for
//! servers that take a stream of them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::handshake::Handshakes;
use super::offer::Address;
use crate::serve::stopped;

/// Finished connections that have not been taken yet.
const HANDOVER: usize = 64;
/// How long accepting rests after it failed, for want of file descriptors for example.
const REST: Duration = Duration::from_millis(10);

/// A connection, and its place among those that may be open.
pub struct Line<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
}

/// Connections as they come.
pub type Lines<S> = ReceiverStream<io::Result<Line<S>>>;

/// Accepts until `stop` turns true. Past `most` that are open a connection is closed at once.
pub fn incoming(listener: TcpListener, most: usize, stop: watch::Receiver<bool>) -> Lines<TcpStream> {
    lines(listener, most, stop, async |stream: TcpStream| {
        stream.set_nodelay(true).ok()?;
        Some(stream)
    })
}

/// The same over TLS. Handshakes count as open connections.
pub fn incoming_secure(
    listener: TcpListener,
    handshakes: Handshakes,
    at: Address,
    most: usize,
    stop: watch::Receiver<bool>,
) -> Lines<TlsStream<TcpStream>> {
    lines(listener, most, stop, move |stream: TcpStream| {
        let handshakes = handshakes.clone();
        async move {
            let (stream, session) = handshakes.make(at, stream.into_std().ok()?).await?;
            session.take_up(TcpStream::from_std(stream).ok()?).await.ok()
        }
    })
}

/// Accepts connections and makes them `ready`, each on its own.
fn lines<S, F>(
    listener: TcpListener,
    most: usize,
    mut stop: watch::Receiver<bool>,
    ready: impl Fn(TcpStream) -> F + Send + 'static,
) -> Lines<S>
where
    S: Send + 'static,
    F: Future<Output = Option<S>> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(HANDOVER);
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopped(&mut stop) => return,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(REST).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else {
                continue;
            };
            let (ready, sender) = (ready(stream), sender.clone());
            tokio::spawn(async move {
                if let Some(stream) = ready.await {
                    let line = Line {
                        stream,
                        _place: place,
                    };
                    let _ = sender.send(Ok(line)).await;
                }
            });
        }
    });
    ReceiverStream::new(receiver)
}

impl Connected for Line<TcpStream> {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl Connected for Line<TlsStream<TcpStream>> {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.get_ref().0.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Line<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Line<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
