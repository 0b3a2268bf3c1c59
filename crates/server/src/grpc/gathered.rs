//! What goes out on a connection, gathered to be written in one go.
//!
//! h2 wants each larger answer written by itself, however many there are. Here they are laid down one after the other, and
//! sent when the connection has nothing more to say for the moment, or when they have become many.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much is laid down before it is sent without being asked to. A little more may be: whatever is handed over at once.
const MOST: usize = 64 * 1024;

thread_local! {
    /// The memory of what was sent last. Connections have something laid down in turns, so one is mostly enough for all.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A connection whose bytes are sent when that is [said](Self::poll_send). Clones are the same connection.
pub(super) struct Gathered<S>(Rc<RefCell<Gathering<S>>>);

struct Gathering<S> {
    stream: S,
    laid_down: Vec<u8>,
    /// How much of that is written to the stream.
    sent: usize,
    /// The stream may hold back some of what was written to it.
    held_back: bool,
}

impl<S> Gathered<S> {
    pub(super) fn new(stream: S) -> Self {
        Self(Rc::new(RefCell::new(Gathering {
            stream,
            laid_down: Vec::new(),
            sent: 0,
            held_back: false,
        })))
    }
}

impl<S> Clone for Gathered<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    /// Sends what is laid down.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_send(context)
    }
}

impl<S: AsyncWrite + Unpin> Gathering<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.laid_down.get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.held_back = true;
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        if self.sent > 0 {
            let mut memory = std::mem::take(&mut self.laid_down);
            self.sent = 0;
            memory.clear();
            SPARE.set(memory);
        }
        if self.held_back {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.held_back = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Makes room for more.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.laid_down.len() >= MOST {
            ready!(self.poll_send(context))?;
        }
        if self.laid_down.capacity() == 0 {
            self.laid_down = SPARE.take();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.borrow_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut gathering = self.0.borrow_mut();
        ready!(gathering.poll_room(context))?;
        gathering.laid_down.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut gathering = self.0.borrow_mut();
        ready!(gathering.poll_room(context))?;
        for part in parts {
            gathering.laid_down.extend_from_slice(part);
        }
        Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// h2 says so after each larger answer, so it means nothing.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut gathering = self.0.borrow_mut();
        ready!(gathering.poll_send(context))?;
        Pin::new(&mut gathering.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_is_laid_down_is_sent_whole_and_in_order_when_it_is_said() {
        let (near, mut far) = duplex(1000);
        let mut near = Gathered::new(near);
        let handle = near.clone();
        near.write_all(b"one").await.unwrap();
        near.flush().await.unwrap();
        let parts = [IoSlice::new(b" and"), IoSlice::new(b" two")];
        assert_eq!(near.write_vectored(&parts).await.unwrap(), 8);
        let mut heard = [0; 11];
        let early = tokio::time::timeout(std::time::Duration::ZERO, far.read(&mut heard)).await;
        assert!(early.is_err(), "nothing is sent before it is said");
        poll_fn(|context| handle.poll_send(context)).await.unwrap();
        far.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"one and two");
    }

    /// A stream that, as one over TLS does, takes what is written to it before it can send that.
    #[derive(Default)]
    struct HoldsBack {
        written: usize,
        sent: usize,
        asked: bool,
    }

    impl AsyncWrite for HoldsBack {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.written += bytes.len();
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            if !std::mem::replace(&mut self.asked, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.sent = self.written;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_a_stream_holds_back_is_asked_for_again() {
        let mut near = Gathered::new(HoldsBack::default());
        near.write_all(b"one").await.unwrap();
        poll_fn(|context| near.poll_send(context)).await.unwrap();
        assert_eq!(near.0.borrow().stream.sent, 3);
    }

    #[tokio::test]
    async fn no_more_is_laid_down_than_has_room_until_the_other_end_reads() {
        let (near, mut far) = duplex(1000);
        let mut near = Gathered::new(near);
        let piece = [7; 1024];
        let mut written = 0;
        let full = loop {
            let wrote = poll_fn(|context| Poll::Ready(Pin::new(&mut near).poll_write(context, &piece))).await;
            match wrote {
                Poll::Ready(wrote) => written += wrote.unwrap(),
                Poll::Pending => break near.0.borrow().laid_down.len(),
            }
        };
        assert!((MOST..MOST + piece.len()).contains(&full), "{full}");
        let reading = tokio::spawn(async move {
            let mut all = Vec::new();
            far.read_to_end(&mut all).await.unwrap();
            all.len()
        });
        near.shutdown().await.unwrap();
        drop(near);
        assert_eq!(reading.await.unwrap(), written);
    }
}
