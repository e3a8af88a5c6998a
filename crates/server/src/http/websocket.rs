//! WebSockets (RFC 6455), as far as a server needs them: the handshake, and texts both ways.
//!
//! A handler answers with [`accept`], and the connection is handed to what it named once that
//! answer has left. What a client sends is bounded; whoever breaks the rules is told so by a close.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use sha1::{Digest as _, Sha1};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use windrow_wire::problem::Code;

use super::reply::Failed;

/// Every key is hashed with this (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest text that a client may send.
const TEXT_MAX: usize = 64 * 1024;

/// What a frame is.
const CONTINUED: u8 = 0;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Close {
    Normal = 1_000,
    GoingAway = 1_001,
    Protocol = 1_002,
    NotText = 1_003,
    TooLong = 1_009,
}

/// Bytes both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

type Begin = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// What a connection becomes after its answer. Goes with the answer.
#[derive(Clone)]
pub(super) struct Upgrade(Arc<Mutex<Option<Begin>>>);

impl Upgrade {
    /// What is to be done with the connection; only the first who asks gets it.
    pub(super) fn take(&self) -> Option<Begin> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}

/// Agrees to a WebSocket, which `begin` then gets.
pub(super) fn accept<F>(
    headers: &HeaderMap,
    begin: impl FnOnce(Socket) -> F + Send + 'static,
) -> Result<Response, Failed>
where
    F: Future<Output = ()> + Send + 'static,
{
    let says = |name: HeaderName, word: &str| {
        let words = headers.get(name).and_then(|said| said.to_str().ok()).unwrap_or_default();
        words.split(',').any(|said| said.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16));
    let agrees = says(CONNECTION, "upgrade") && says(UPGRADE, "websocket");
    let (true, true, Some(key)) = (agrees, says(SEC_WEBSOCKET_VERSION, "13"), key) else {
        let detail = "this is a WebSocket; ask for it as one (RFC 6455, version 13)";
        return Err(Failed::new(Code::Malformed, detail));
    };
    let begin: Begin = Box::new(move |socket| Box::pin(begin(socket)));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let out = response.headers_mut();
    out.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    out.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accepted) = HeaderValue::try_from(accepted(key)) {
        out.insert(SEC_WEBSOCKET_ACCEPT, accepted);
    }
    response.extensions_mut().insert(Upgrade(Arc::new(Mutex::new(Some(begin)))));
    Ok(response)
}

fn accepted(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// A WebSocket.
pub(super) struct Socket {
    stream: Box<dyn Stream>,
    /// What came and was not read yet.
    buffer: Vec<u8>,
    /// A text whose end has not come.
    begun: Option<Vec<u8>>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

/// What a client says.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Heard {
    Text(String),
    /// It wants the same bytes back.
    Ping(Vec<u8>),
    /// It says goodbye, or is sent away for what it sent.
    Close(Close),
    /// It has gone.
    Gone,
}

/// A frame of a client.
#[derive(PartialEq, Eq, Debug)]
struct Frame {
    is_last: bool,
    kind: u8,
    payload: Vec<u8>,
}

impl Socket {
    /// On a stream, of which some bytes were read already.
    pub(super) fn on(stream: impl Stream + 'static, buffer: &[u8]) -> Socket {
        Socket { stream: Box::new(stream), buffer: buffer.to_vec(), begun: None }
    }

    /// What the client says next. Writes nothing, so that it may be given up at any moment, and
    /// loses nothing: whoever hears a ping or a close answers it.
    pub(super) async fn receive(&mut self) -> Heard {
        loop {
            match frame(&mut self.buffer) {
                Ok(Some(frame)) => match self.taken(frame) {
                    Ok(Some(heard)) => return heard,
                    Ok(None) => {}
                    Err(why) => return Heard::Close(why),
                },
                Ok(None) => match self.stream.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return Heard::Gone,
                    Ok(_) => {}
                },
                Err(why) => return Heard::Close(why),
            }
        }
    }

    /// What a frame says, if it is all of something.
    fn taken(&mut self, Frame { is_last, kind, payload }: Frame) -> Result<Option<Heard>, Close> {
        let mut text = match (kind, self.begun.take()) {
            (PING, begun) => {
                self.begun = begun;
                return Ok(Some(Heard::Ping(payload)));
            }
            (PONG, begun) => {
                self.begun = begun;
                return Ok(None);
            }
            (CLOSE, _) => return Err(Close::Normal),
            (TEXT, None) => Vec::new(),
            (CONTINUED, Some(begun)) => begun,
            (TEXT | CONTINUED, _) => return Err(Close::Protocol),
            _ => return Err(Close::NotText),
        };
        text.extend(payload);
        if text.len() > TEXT_MAX {
            return Err(Close::TooLong);
        }
        if !is_last {
            self.begun = Some(text);
            return Ok(None);
        }
        let text = String::from_utf8(text).map_err(|_| Close::NotText)?;
        Ok(Some(Heard::Text(text)))
    }

    pub(super) async fn send(&mut self, text: &str) -> io::Result<()> {
        self.write(TEXT, text.as_bytes()).await
    }

    /// Answers a ping.
    pub(super) async fn pong(&mut self, payload: &[u8]) -> io::Result<()> {
        self.write(PONG, payload).await
    }

    pub(super) async fn ping(&mut self) -> io::Result<()> {
        self.write(PING, b"").await
    }

    /// Says why, and ends.
    pub(super) async fn close(&mut self, why: Close) {
        // Whoever has gone does not want to know.
        let _told = self.write(CLOSE, &(why as u16).to_be_bytes()).await;
        let _ended = self.stream.shutdown().await;
    }

    async fn write(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let mut bytes = vec![0x80 | kind];
        match payload.len() {
            len @ 0..=125 => bytes.push(len as u8),
            len @ 126..=0xffff => {
                bytes.push(126);
                bytes.extend((len as u16).to_be_bytes());
            }
            len => {
                bytes.push(127);
                bytes.extend((len as u64).to_be_bytes());
            }
        }
        bytes.extend(payload);
        self.stream.write_all(&bytes).await?;
        self.stream.flush().await
    }
}

/// Takes a frame off the beginning of what came; None if not all of it is here.
fn frame(buffer: &mut Vec<u8>) -> Result<Option<Frame>, Close> {
    let [first, second, rest @ ..] = &buffer[..] else { return Ok(None) };
    let (is_last, kind, is_masked) = (first & 0x80 != 0, first & 0x0f, second & 0x80 != 0);
    let is_control = kind >= CLOSE;
    let (len, rest) = match second & 0x7f {
        126 => match rest.split_first_chunk::<2>() {
            Some((len, rest)) => (u64::from(u16::from_be_bytes(*len)), rest),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk::<8>() {
            Some((len, rest)) => (u64::from_be_bytes(*len), rest),
            None => return Ok(None),
        },
        len => (u64::from(len), rest),
    };
    if first & 0x70 != 0 || !is_masked || is_control && (len > 125 || !is_last) {
        return Err(Close::Protocol);
    }
    if len > TEXT_MAX as u64 {
        return Err(Close::TooLong);
    }
    let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let Some(masked) = rest.get(..len as usize) else { return Ok(None) };
    let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let used = buffer.len() - (rest.len() - len as usize);
    buffer.drain(..used);
    Ok(Some(Frame { is_last, kind, payload }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;

    /// A frame as a client sends it.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![first];
        match payload.len() {
            len @ 0..=125 => bytes.push(0x80 | len as u8),
            len => {
                bytes.push(0x80 | 126);
                bytes.extend((len as u16).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// What a server reads of frames, and what it wrote meanwhile.
    async fn heard(frames: &[Vec<u8>]) -> (Vec<String>, Vec<u8>) {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&frames.concat()).await.unwrap();
        theirs.shutdown().await.unwrap();
        let mut socket = Socket::on(ours, b"");
        let mut texts = Vec::new();
        loop {
            match socket.receive().await {
                Heard::Text(text) => texts.push(text),
                Heard::Ping(payload) => socket.pong(&payload).await.unwrap(),
                Heard::Close(why) => break socket.close(why).await,
                Heard::Gone => break,
            }
        }
        drop(socket);
        let mut wrote = Vec::new();
        theirs.read_to_end(&mut wrote).await.unwrap();
        (texts, wrote)
    }

    #[test]
    fn the_key_of_the_standard_is_accepted_as_the_standard_says() {
        assert_eq!(accepted("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn texts_come_whole_in_pieces_and_between_pings() {
        let long = "ö".repeat(5_000);
        let frames = [
            sent(0x81, b"one"),
            sent(0x01, b"tw"),
            sent(0x89, b"still there?"),
            sent(0x80, b"o"),
            sent(0x81, long.as_bytes()),
            sent(0x88, &1_000_u16.to_be_bytes()),
        ];
        let (texts, wrote) = heard(&frames).await;
        assert_eq!(texts, ["one".to_owned(), "two".to_owned(), long]);
        let pong = [&[0x8a, 12][..], b"still there?"].concat();
        let goodbye = [0x88, 2, 0x03, 0xe8];
        assert_eq!(wrote, [&pong[..], &goodbye].concat());
    }

    /// Half of an answer could be written when another branch of a `select!` was faster, and the
    /// next frame began in the middle of it.
    #[tokio::test]
    async fn listening_writes_nothing() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 10);
        let frames = [sent(0x89, b"there?"), sent(0x88, &1_000_u16.to_be_bytes())];
        theirs.write_all(&frames.concat()).await.unwrap();
        let mut socket = Socket::on(ours, b"");
        assert_eq!(socket.receive().await, Heard::Ping(b"there?".to_vec()));
        assert_eq!(socket.receive().await, Heard::Close(Close::Normal));
        drop(socket);
        let mut wrote = Vec::new();
        theirs.read_to_end(&mut wrote).await.unwrap();
        assert_eq!(wrote, b"");
    }

    #[tokio::test]
    async fn whoever_breaks_the_rules_is_told_which() {
        let unmasked = vec![0x81, 1, b'x'];
        let too_long = [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
        for (frame, why) in [
            (unmasked, Close::Protocol),
            (sent(0x91, b"reserved"), Close::Protocol),
            (sent(0x80, b"continues nothing"), Close::Protocol),
            (sent(0x09, b"a ping in pieces"), Close::Protocol),
            (sent(0x82, b"bytes"), Close::NotText),
            (sent(0x81, &[0xff]), Close::NotText),
            (too_long, Close::TooLong),
        ] {
            let (texts, wrote) = heard(&[frame]).await;
            let [high, low] = (why as u16).to_be_bytes();
            assert_eq!((texts.len(), &wrote[..]), (0, &[0x88, 2, high, low][..]), "{why:?}");
        }
    }
}
