//! The two directions of a connection, with an eye on the frames that pass.
//!
//! A frame that is too large is refused when its header has been read, before anybody makes room
//! for it. Who does not take its answers is not read from: otherwise they would pile up here.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use windrow_wire::rpc::MESSAGE_MAX;

use super::connection::Meter;

/// Bytes that are read or written at once.
const BUFFER: usize = 64 * 1024;

/// Where in a frame a stream is. A frame begins with the number of its segments less one and the
/// length of each, 32 bits wide and padded to whole words of 8 bytes; then come their words.
#[derive(Debug)]
enum Frames {
    Head {
        bytes: [u8; 8],
        have: usize,
    },
    /// The lengths of further segments: which is next, how many, the words before, one's bytes.
    Table {
        next: u64,
        count: u64,
        words: u64,
        bytes: [u8; 4],
        have: usize,
    },
    Body {
        left: u64,
    },
}

impl Frames {
    const BETWEEN: Frames = Frames::Head { bytes: [0; 8], have: 0 };

    fn is_between(&self) -> bool {
        matches!(self, Frames::Head { have: 0, .. })
    }

    /// Takes note of bytes that pass.
    fn pass(&mut self, mut passing: &[u8]) -> io::Result<()> {
        while !passing.is_empty() {
            match self {
                Frames::Head { bytes, have } => {
                    fill(bytes, have, &mut passing);
                    if *have == bytes.len() {
                        let [a, b, c, d, e, f, g, h] = *bytes;
                        let count = u64::from(u32::from_le_bytes([a, b, c, d])) + 1;
                        let words = u64::from(u32::from_le_bytes([e, f, g, h]));
                        *self = Frames::after(1, count, words)?;
                    }
                }
                Frames::Table { next, count, words, bytes, have } => {
                    fill(bytes, have, &mut passing);
                    if *have == bytes.len() {
                        // With an even number of segments the last entry is padding.
                        let is_real = *next < *count;
                        let more = if is_real { u32::from_le_bytes(*bytes) } else { 0 };
                        *self = Frames::after(*next + 1, *count, *words + u64::from(more))?;
                    }
                }
                Frames::Body { left } => {
                    let taken = (*left).min(passing.len() as u64);
                    *left -= taken;
                    passing = &passing[taken as usize..];
                    if *left == 0 {
                        *self = Frames::BETWEEN;
                    }
                }
            }
        }
        Ok(())
    }

    /// What comes after `next` entries of the table.
    fn after(next: u64, count: u64, words: u64) -> io::Result<Frames> {
        let bytes = words.saturating_mul(8).saturating_add(count.saturating_mul(4));
        if bytes > MESSAGE_MAX {
            let text = format!("a message has {bytes} bytes; at most {MESSAGE_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let entries = count | 1;
        Ok(if next < entries {
            Frames::Table { next, count, words, bytes: [0; 4], have: 0 }
        } else if words == 0 {
            Frames::BETWEEN
        } else {
            Frames::Body { left: words * 8 }
        })
    }
}

fn fill<const N: usize>(bytes: &mut [u8; N], have: &mut usize, passing: &mut &[u8]) {
    let taken = (N - *have).min(passing.len());
    bytes[*have..*have + taken].copy_from_slice(&passing[..taken]);
    *have += taken;
    *passing = &passing[taken..];
}

/// What comes in.
#[derive(Debug)]
pub(super) struct Reader {
    stream: OwnedReadHalf,
    meter: Rc<Meter>,
    frames: Frames,
    buffer: Box<[u8]>,
    /// The part of the buffer that was not taken yet.
    rest: std::ops::Range<usize>,
}

impl Reader {
    pub(super) fn new(stream: OwnedReadHalf, meter: Rc<Meter>) -> Reader {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Reader { stream, meter, frames: Frames::BETWEEN, buffer, rest: 0..0 }
    }
}

impl futures_io::AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            if this.meter.is_stuck(cx.waker()) {
                return Poll::Pending;
            }
            let mut buffer = ReadBuf::new(&mut this.buffer);
            std::task::ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer))?;
            this.rest = 0..buffer.filled().len();
        }
        let taken = this.rest.len().min(into.len());
        let bytes = &this.buffer[this.rest.start..this.rest.start + taken];
        this.frames.pass(bytes)?;
        into[..taken].copy_from_slice(bytes);
        this.rest.start += taken;
        this.meter.read(this.frames.is_between());
        Poll::Ready(Ok(taken))
    }
}

/// What goes out.
#[derive(Debug)]
pub(super) struct Writer {
    stream: OwnedWriteHalf,
    meter: Rc<Meter>,
    buffer: Vec<u8>,
    /// How much of the buffer has gone out.
    gone: usize,
}

impl Writer {
    pub(super) fn new(stream: OwnedWriteHalf, meter: Rc<Meter>) -> Writer {
        Writer { stream, meter, buffer: Vec::new(), gone: 0 }
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.gone < self.buffer.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.buffer[self.gone..]) {
                Poll::Ready(written) => {
                    let written = written?;
                    if written == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.gone += written;
                    self.meter.written();
                }
                Poll::Pending => {
                    self.meter.stuck();
                    return Poll::Pending;
                }
            }
        }
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER);
        self.gone = 0;
        Poll::Ready(Ok(()))
    }
}

impl futures_io::AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.buffer.len() >= BUFFER {
            std::task::ready!(this.drain(cx))?;
        }
        this.buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().drain(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.drain(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(lengths: &[u32]) -> Vec<u8> {
        let mut bytes = (lengths.len() as u32 - 1).to_le_bytes().to_vec();
        lengths.iter().for_each(|length| bytes.extend(length.to_le_bytes()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn a_frame_ends_where_its_header_says_however_it_arrives() {
        for lengths in [&[3][..], &[1, 2], &[1, 0, 2], &[0, 1, 2, 3], &[0]] {
            let mut frame = header(lengths);
            let words: u32 = lengths.iter().sum();
            frame.resize(frame.len() + words as usize * 8, 7);
            for step in [1, 3, 8, 1_000] {
                let mut frames = Frames::BETWEEN;
                let mut passed = 0;
                for piece in frame.repeat(2).chunks(step) {
                    frames.pass(piece).unwrap();
                    passed += piece.len();
                    let at_an_end = passed.is_multiple_of(frame.len());
                    assert_eq!(frames.is_between(), at_an_end, "{lengths:?}, after {passed}");
                }
            }
        }
    }

    #[test]
    fn a_frame_that_is_too_large_is_refused_by_its_header() {
        let largest = (MESSAGE_MAX / 8) as u32 - 1;
        let pass = |bytes: &[u8]| {
            let mut frames = Frames::BETWEEN;
            frames.pass(bytes)
        };
        assert!(pass(&header(&[largest])).is_ok());
        for lengths in [&[largest + 2][..], &[largest, 3], &[u32::MAX], &[1, 1, u32::MAX, 1]] {
            assert!(pass(&header(lengths)).is_err(), "{lengths:?}");
        }
        assert!(pass(&[0xff; 8]).is_err());
    }
}
