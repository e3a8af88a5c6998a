//! Endpoints: a model or a store behind HTTP, asked in JSON, plainly or over TLS.
//!
//! Keeps connections open between questions, gives up after a time, reads no more of an answer than
//! it was told to, and never shows its key, not even where the other side repeats it. Follows no
//! redirect: an address that leads elsewhere is for whoever wrote it to change. Leaves out when to
//! ask again, which is the queue's: it says whether an answer came, and what the other side asks
//! for.

mod chat;
mod key;
mod refused;
mod target;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(super) use self::chat::Chat;
pub use self::key::{Key, NotAKey};
pub use self::refused::Refused;
pub use self::target::NotATarget;
use self::target::Target;
use windrow_client::trust::Trust;

/// What can be chosen about an endpoint. The defaults suit a model on a machine near by.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sent with every question; over plain http only to this machine.
    pub key: Option<Key>,
    /// Whether a key may go over plain http to others too, where whoever listens can read it.
    pub allow_plain_http: bool,
    /// How long a question may take, from connecting to the last byte of its answer.
    pub within: Duration,
    /// More of an answer is not read.
    pub answer_max: usize,
    /// Connections that are kept open while nobody uses them.
    pub idle_max: usize,
    /// The certificates to trust over https instead of the system's, in PEM.
    pub roots: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            key: None,
            allow_plain_http: false,
            within: Duration::from_secs(60),
            answer_max: 64 << 20,
            idle_max: 8,
            roots: None,
        }
    }
}

/// One address that can be asked.
#[derive(Debug)]
pub struct Endpoint {
    target: Target,
    options: Options,
    /// The header and the value that show the key.
    shown: Option<(HeaderName, HeaderValue)>,
    trust: Trust,
    idle: Mutex<Vec<Connection>>,
}

type Connection = SendRequest<Full<Bytes>>;

/// An answer, whatever it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub status: u16,
    /// How long the other side asks to be left alone.
    pub retry_after_ms: Option<u64>,
    pub body: Bytes,
}

/// No answer, or not all of it, and why. Asking again may help.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

impl Endpoint {
    /// An endpoint at an address such as `http://127.0.0.1:1234/v1/embeddings`. Nothing is sent
    /// yet. An address to which a key would go in the clear is refused.
    pub fn new(url: &str, options: Options) -> Result<Endpoint, NotATarget> {
        let target: Target = url.parse()?;
        if options.key.is_some() && !options.allow_plain_http {
            target.keeps_secrets()?;
        }
        let trust = Trust::in_file(options.roots.clone());
        let shown = options.key.as_ref().map(|key| (AUTHORIZATION, key.bearer()));
        Ok(Endpoint { target, options, shown, trust, idle: Mutex::default() })
    }

    /// Shows the key in a header of its own, as it is.
    pub(super) fn key_in(mut self, header: HeaderName) -> Endpoint {
        self.shown = self.options.key.as_ref().map(|key| (header, key.plain()));
        self
    }

    /// Sends a body in JSON, and waits for all of the answer.
    pub async fn post(&self, body: Vec<u8>) -> Result<Reply, NoAnswer> {
        self.ask(Method::POST, "", body).await
    }

    /// Asks by any method, for what is under the address at this path.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Reply, NoAnswer> {
        let within = self.options.within;
        let asked = timeout(within, self.exchange(method, path, body.into())).await;
        let late = |_| format!("no answer within {} ms", within.as_millis());
        asked.map_err(late).flatten().map_err(|why| NoAnswer(format!("{self}: {why}")))
    }

    /// What another side said, without our key should it be in there.
    pub fn hide(&self, said: &str) -> String {
        match &self.options.key {
            Some(key) => key.hide(said),
            None => said.to_owned(),
        }
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Reply, String> {
        let request = self.request(method, path, body)?;
        let (mut connection, response) = self.send(request).await?;
        let (head, body) = response.into_parts();
        let answer_max = self.options.answer_max;
        let body = Limited::new(body, answer_max).collect().await;
        let body = body.map_err(|error| match error.downcast::<LengthLimitError>() {
            Ok(_) => format!("the answer is longer than {answer_max} bytes"),
            Err(error) => format!("the answer broke off: {error}"),
        })?;
        if connection.ready().await.is_ok() {
            let mut idle = self.idle.lock();
            if idle.len() < self.options.idle_max {
                idle.push(connection);
            }
        }
        let (status, retry_after_ms) = (head.status.as_u16(), retry_after_ms(&head.headers));
        Ok(Reply { status, retry_after_ms, body: body.to_bytes() })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.target.under(path))
            .header(HOST, &*self.target.authority)
            .header(USER_AGENT, concat!("windrow/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        if let Some((header, value)) = &self.shown {
            request.headers_mut().insert(header, value.clone());
        }
        Ok(request)
    }

    /// Sends on a connection that is open, or on a new one. One that the other side closed
    /// meanwhile gives the request back unsent.
    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), String> {
        loop {
            let idle = self.idle.lock().pop();
            let is_new = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(said(failed.error())),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        let Target { is_encrypted, host, port, .. } = &self.target;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| format!("no connection: {error}"))?;
        // Small requests leave at once; if the socket refuses that, they leave later.
        let _sooner = stream.set_nodelay(true);
        if *is_encrypted {
            let stream = self.trust.connect(host, stream).await;
            begin(stream.map_err(|why| format!("no secure connection: {why}"))?).await
        } else {
            begin(stream).await
        }
    }
}

/// The address, which holds no secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

async fn begin<S>(stream: S) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(|error| said(&error))?;
    // What it dies of, whoever waits for an answer on it is told.
    tokio::spawn(async move {
        let _ended = connection.await;
    });
    Ok(sender)
}

/// What an error says, with what it is about: hyper's own words leave that out.
fn said(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Longer is nobody asked to wait; whoever says so means something else.
const RETRY_AFTER_MAX_MS: f64 = 86_400_000.0;
/// Shorter nobody waits: to be asked again at once is no way to be left alone.
const RETRY_AFTER_MIN_MS: f64 = 1_000.0;

/// How long to wait, in the header that says milliseconds or the one that says seconds. A date is
/// not read: to make a time of it would take a clock.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str| -> Option<f64> {
        let value: &HeaderValue = headers.get(name)?;
        value.to_str().ok()?.trim().parse().ok()
    };
    let ms = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1_000.0))?;
    (ms >= 0.0).then(|| ms.clamp(RETRY_AFTER_MIN_MS, RETRY_AFTER_MAX_MS) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was sent to any host, for everybody on the way to read.
    #[test]
    fn a_key_goes_in_the_clear_to_nobody_else_unless_that_is_allowed() {
        for (url, is_fine) in [
            ("https://models.example/v1", true),
            ("http://localhost:1234/v1", true),
            ("http://LOCALHOST/v1", true),
            ("http://127.8.8.8/v1", true),
            ("http://[::1]:1234/v1", true),
            ("http://models.example/v1", false),
            ("http://192.168.1.7:1234/v1", false),
            ("http://[fd00::7]/v1", false),
            ("http://localhost.example/v1", false),
            ("http://127.0.0.1.example/v1", false),
        ] {
            let made = |key: Option<&str>, allow_plain_http| {
                let key = key.map(|key| Key::new(key).unwrap());
                Endpoint::new(url, Options { key, allow_plain_http, ..Options::default() })
            };
            assert!(made(None, false).is_ok() && made(Some("sk"), true).is_ok(), "{url}");
            let said = made(Some("sk"), false).map_err(|error| error.to_string());
            assert_eq!(said.is_ok(), is_fine, "{url}");
            assert!(said.err().is_none_or(|said| said.contains("in the clear")), "{url}");
        }
    }

    #[test]
    fn how_long_to_wait_is_read_in_seconds_or_milliseconds() {
        for (headers, expected) in [
            (&[("retry-after", "3")][..], Some(3_000)),
            (&[("retry-after", "1.5")], Some(1_500)),
            (&[("retry-after", "7"), ("retry-after-ms", "1250")], Some(1_250)),
            (&[("retry-after", "1e300")], Some(86_400_000)),
            // It was asked again without a pause.
            (&[("retry-after", "0")], Some(1_000)),
            (&[("retry-after-ms", "0")], Some(1_000)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
            (&[], None),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(retry_after_ms(&map), expected, "{headers:?}");
        }
    }
}
