//! The bytes of a connection: with deadlines, and with the last word on what cannot be read.
//!
//! hyper refuses what is no HTTP with a head and nothing else. That head is held back, and
//! [`Link::refuse`] sends a problem instead. hyper reads on after an answer and never after a
//! refusal of its own, so that whatever was held back by mistake leaves with the next read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::pulse::{Phase, Pulse};

/// How long the head of a request may take, and how long a new connection may say nothing.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may be quiet between requests.
const QUIET_WITHIN: Duration = Duration::from_secs(75);
/// How long a client may take to read anything at all of an answer.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// What a client may still send after its refusal, so that it gets to read that.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A stream to a client.
pub(super) struct Link<T> {
    stream: T,
    pulse: Arc<Pulse>,
    timer: Pin<Box<Sleep>>,
    /// Runs while an answer waits to be read, for so long.
    unread: Option<Pin<Box<Sleep>>>,
    read_within: Duration,
    held: Vec<u8>,
    late: bool,
    ended: bool,
}

/// Why a connection ended before its request was understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    Late,
    TooLarge,
    NotHttp,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Link<T> {
    pub(super) fn new(stream: T, pulse: Arc<Pulse>) -> Link<T> {
        let timer = Box::pin(tokio::time::sleep(HEAD_WITHIN));
        let (unread, read_within, held) = (None, READ_WITHIN, Vec::new());
        Link { stream, pulse, timer, unread, read_within, held, late: false, ended: false }
    }

    /// When the client must have said something.
    fn deadline(&self) -> Option<Instant> {
        let within = match self.pulse.phase() {
            Phase::Quiet if self.pulse.was_answered() => QUIET_WITHIN,
            Phase::Quiet | Phase::Head => HEAD_WITHIN,
            Phase::Body | Phase::Work => return None,
        };
        Some(self.pulse.since() + within)
    }

    /// The client has said nothing: is it too late?
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(deadline) = self.deadline() else { return Poll::Pending };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        ready!(self.timer.as_mut().poll(cx));
        match self.pulse.phase() {
            // Nothing was asked, so that there is nothing to answer: as if the client had closed.
            Phase::Quiet => Poll::Ready(Ok(())),
            _ => {
                self.late = true;
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    /// Sends what was held back.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            self.held.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Keeps the time of a client that does not read.
    fn poll_unread<V>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<V>>,
    ) -> Poll<io::Result<V>> {
        if wrote.is_ready() {
            if self.unread.take().is_some() {
                self.pulse.set_stuck(false);
            }
            return wrote;
        }
        let read_within = self.read_within;
        let waits = || Box::pin(tokio::time::sleep(read_within));
        if self.unread.is_none() {
            self.pulse.set_stuck(true);
        }
        ready!(self.unread.get_or_insert_with(waits).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether this is hyper's own refusal, which comes in one piece and only between requests.
    fn is_refusal(&self, bytes: &[u8]) -> bool {
        let line = |line: &str| bytes.starts_with(line.as_bytes());
        !matches!(self.pulse.phase(), Phase::Body | Phase::Work)
            && bytes.len() < 256
            && (line("HTTP/1.1 400 ") || line("HTTP/1.1 414 ") || line("HTTP/1.1 431 "))
            && bytes.windows(19).any(|window| window == b"content-length: 0\r\n")
            && bytes.ends_with(b"\r\n\r\n")
    }

    /// Why the connection ended, if nobody has told the client.
    pub(super) fn why(&self, error: Option<&hyper::Error>) -> Option<Why> {
        let error = error?;
        if self.late {
            return Some(Why::Late);
        }
        if self.held.starts_with(b"HTTP/1.1 4") && !self.held.starts_with(b"HTTP/1.1 400") {
            return Some(Why::TooLarge);
        }
        let between = !matches!(self.pulse.phase(), Phase::Body | Phase::Work);
        (error.is_parse() && between).then_some(Why::NotHttp)
    }

    /// Sends a last answer.
    pub(super) async fn refuse(&mut self, answer: &[u8]) {
        self.held.clear();
        // Who does not read it does not need it.
        let _read = tokio::time::timeout(LINGER, self.stream.write_all(answer)).await;
    }

    /// Ends the connection. A client that is still sending may go on for a while: closed before,
    /// its answer could be lost to it.
    pub(super) async fn close(mut self, is_sending: bool) {
        let closed = async {
            // Held back by mistake, if the connection ends well.
            self.stream.write_all(&self.held).await?;
            self.stream.shutdown().await?;
            let (mut left, mut rest) = (LINGER_BYTES, vec![0; 16 * 1024]);
            while is_sending && !self.ended && left > 0 {
                let read = self.stream.read(&mut rest).await?;
                self.ended = read == 0;
                left = left.saturating_sub(read);
            }
            Ok::<(), io::Error>(())
        };
        // Nobody is left who could be told.
        let _in_time = tokio::time::timeout(LINGER, closed).await;
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Link<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // If it cannot leave now, it leaves before whatever is written next.
        let _sent = this.poll_held(cx)?;
        let before = into.filled().len();
        match Pin::new(&mut this.stream).poll_read(cx, into) {
            Poll::Pending => this.poll_late(cx),
            Poll::Ready(read) => {
                this.ended |= into.filled().len() == before;
                if this.pulse.phase() == Phase::Quiet && into.filled().len() > before {
                    this.pulse.enter(Phase::Head);
                }
                Poll::Ready(read)
            }
        }
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Link<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.poll_held(cx))?;
        if this.is_refusal(bytes) {
            this.held.extend(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let wrote = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.poll_unread(cx, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [part] = parts {
            return self.poll_write(cx, part);
        }
        let this = &mut *self;
        ready!(this.poll_held(cx))?;
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(cx, parts);
        this.poll_unread(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Over TLS this is where bytes wait for a client to read.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.poll_unread(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.poll_unread(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;

    /// Takes every byte, and never gets rid of one: TLS to a client that does not read.
    struct Full;

    impl AsyncRead for Full {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Full {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    /// Only writing had a deadline, which over TLS takes bytes without sending them.
    #[tokio::test]
    async fn a_client_that_does_not_read_is_let_go_also_if_its_bytes_wait_to_be_flushed() {
        let link = || {
            let mut link = Link::new(Full, Pulse::new());
            link.read_within = Duration::from_millis(1);
            link
        };
        let mut flushed = link();
        flushed.write_all(b"words").await.unwrap();
        let late = tokio::time::timeout(READ_WITHIN, flushed.flush()).await.unwrap();
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let late = tokio::time::timeout(READ_WITHIN, link().shutdown()).await.unwrap();
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
