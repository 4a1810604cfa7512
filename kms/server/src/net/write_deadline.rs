//! A stream whose writes time out.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::release_gate::ReleaseGate;

/// The number of bytes that the peer has to read before the deadline. Otherwise a peer that reads
/// single bytes could keep its connection for days.
const PIECE: usize = 16 << 10;

/// A stream whose writes fail if the peer reads less than [`PIECE`] bytes in the given time.
/// Without it, a connection whose answer is never read would not end.
pub struct WriteDeadline<S> {
    stream: S,
    most: Duration,
    /// The gate that answers pass before they are written.
    gate: ReleaseGate,
    /// Runs from the first blocked write until everything is written, or a piece.
    ends: Option<Pin<Box<Sleep>>>,
    /// The number of bytes written since then.
    got_on: usize,
}

impl<S> WriteDeadline<S> {
    pub fn new(stream: S, most: Duration, gate: ReleaseGate) -> Self {
        WriteDeadline { stream, most, gate, ends: None, got_on: 0 }
    }

    /// Handles the result of a write, which may be blocked.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(Ok(bytes)) = done else { return self.within(context, done) };
        self.got_on = self.got_on.saturating_add(bytes);
        if self.got_on >= PIECE {
            self.rests();
        }
        done
    }

    /// Stops the deadline when no write is blocked.
    fn rests(&mut self) {
        (self.ends, self.got_on) = (None, 0);
    }

    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        done: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.rests();
            return done;
        }
        let most = self.most;
        if self.ends.is_none() {
            self.got_on = 0;
        }
        let ends = self.ends.get_or_insert_with(|| Box::pin(sleep(most)));
        ends.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let WriteDeadline { stream, gate, .. } = &mut *self;
        let done = gate.pass(|| Pin::new(stream).poll_write(context, bytes));
        self.wrote(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let WriteDeadline { stream, gate, .. } = &mut *self;
        let done = gate.pass(|| Pin::new(stream).poll_write_vectored(context, bytes));
        self.wrote(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let WriteDeadline { stream, gate, .. } = &mut *self;
        let done = gate.pass(|| Pin::new(stream).poll_flush(context));
        if let Poll::Ready(Ok(())) = done {
            gate.flushed();
        }
        self.within(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS writes its buffered data.
        let WriteDeadline { stream, gate, .. } = &mut *self;
        let done = gate.pass(|| Pin::new(stream).poll_shutdown(context));
        self.within(context, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const MOST: Duration = Duration::from_secs(30);

    /// Returns how long a writer of `bytes` bytes lasts if its reader reads `taken` bytes every ten
    /// seconds.
    async fn lasts(bytes: usize, taken: usize) -> (Duration, bool) {
        let (mut client, server) = duplex(1024);
        let mut server = WriteDeadline::new(server, MOST, ReleaseGate::default());
        let start = Instant::now();
        let writes = async move {
            let wrote = server.write_all(&vec![7; bytes]).await;
            (start.elapsed(), wrote.is_ok() && server.flush().await.is_ok())
        };
        let reads = async {
            let mut piece = vec![0; taken];
            loop {
                sleep(Duration::from_secs(10)).await;
                let mut left = taken;
                while left > 0 {
                    left -= client.read(&mut piece[..left]).await.unwrap();
                }
            }
        };
        tokio::select! {
            done = writes => done,
            () = reads => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_exceeds_write_deadline() {
        let (lasted, is_done) = lasts(1 << 20, 1).await;
        assert!(!is_done && lasted < MOST + Duration::from_secs(1), "{lasted:?}");
        let (lasted, is_done) = lasts(1 << 20, 1000).await;
        assert!(!is_done && lasted < MOST + Duration::from_secs(1), "{lasted:?}");
        // About 1.6 KB per second is slow, but fast enough.
        let (lasted, is_done) = lasts(1 << 20, 16 << 10).await;
        assert!(is_done && lasted > 10 * MOST, "{lasted:?}");
        // A short answer is less than a piece, and completes.
        assert!(lasts(4000, 2000).await.1);
    }
}
