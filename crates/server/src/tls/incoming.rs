//! A listener of which connections come once their handshake is done, for servers that take a stream of them.

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
pub struct Line {
    stream: TlsStream<TcpStream>,
    _place: OwnedSemaphorePermit,
}

/// Accepts until `stop` turns true. Handshakes count as open connections; past `most` of both a connection is
/// closed at once.
pub fn incoming(
    listener: TcpListener,
    handshakes: Handshakes,
    at: Address,
    most: usize,
    stop: watch::Receiver<bool>,
) -> ReceiverStream<io::Result<Line>> {
    let (sender, receiver) = mpsc::channel(HANDOVER);
    tokio::spawn(accept(listener, handshakes, at, most, stop, sender));
    ReceiverStream::new(receiver)
}

async fn accept(
    listener: TcpListener,
    handshakes: Handshakes,
    at: Address,
    most: usize,
    mut stop: watch::Receiver<bool>,
    sender: mpsc::Sender<io::Result<Line>>,
) {
    let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
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
        let (handshakes, sender) = (handshakes.clone(), sender.clone());
        tokio::spawn(async move {
            if let Some(line) = finish(&handshakes, at, stream, place).await {
                let _ = sender.send(Ok(line)).await;
            }
        });
    }
}

async fn finish(
    handshakes: &Handshakes,
    at: Address,
    stream: TcpStream,
    place: OwnedSemaphorePermit,
) -> Option<Line> {
    let (stream, session) = handshakes.make(at, stream.into_std().ok()?).await?;
    let stream = session.take_up(TcpStream::from_std(stream).ok()?).await.ok()?;
    Some(Line {
        stream,
        _place: place,
    })
}

impl Connected for Line {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.get_ref().0.connect_info()
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
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
