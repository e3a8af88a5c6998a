//! Connections to one server: kept open, used again, and given up when they die.

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::address::{Address, Finder};
use crate::repeat::Missed;
use crate::trust::Trust;

/// An open connection, and what a request on it calls the server.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: HeaderValue,
}

/// A server, and the connections that nobody uses at the moment.
#[derive(Debug)]
pub(super) struct Pool {
    /// Where the server was last.
    address: Mutex<Address>,
    /// Says where it is now, if it may move.
    finder: Option<Finder>,
    trust: Trust,
    idle: Mutex<Vec<Connection>>,
    idle_max: usize,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub retry_after_ms: Option<u64>,
    pub body: Bytes,
}

impl Pool {
    pub(super) fn new(
        address: Address,
        finder: Option<Finder>,
        trust: Trust,
        idle_max: usize,
    ) -> Pool {
        let address = Mutex::new(address);
        Pool { address, finder, trust, idle: Mutex::default(), idle_max }
    }

    pub(super) fn address(&self) -> Address {
        self.address.lock().clone()
    }

    /// Where the server is now. If it may move and nobody knows where it is, its last place may be
    /// somebody else's.
    fn found(&self) -> Result<Address, Missed> {
        let Some(finder) = &self.finder else { return Ok(self.address()) };
        let found = finder.find().ok_or_else(|| {
            let last = self.address.lock();
            Missed::NotSent(format!("{last} is gone, and nobody says where its server is now"))
        })?;
        self.address.lock().clone_from(&found);
        Ok(found)
    }

    /// Sends a request and waits for all of its answer.
    pub(super) async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Reply, Missed> {
        let (mut connection, response) = self.send(request).await?;
        let lost = |error: hyper::Error| Missed::Lost(said(&error));
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(lost)?.to_bytes();
        let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after_ms = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
        if connection.sender.ready().await.is_ok() {
            let mut idle = self.idle.lock();
            if idle.len() < self.idle_max {
                idle.push(connection);
            }
        }
        let retry_after_ms = retry_after_ms.map(|seconds| seconds.saturating_mul(1_000));
        Ok(Reply { status: head.status, retry_after_ms, body })
    }

    /// Sends a request on a connection that is open, or on a new one. One that the server closed
    /// meanwhile gives the request back unsent.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Connection, hyper::Response<hyper::body::Incoming>), Missed> {
        loop {
            let idle = self.idle.lock().pop();
            let is_new = idle.is_none();
            let mut connection = match idle {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            request.headers_mut().insert(HOST, connection.host.clone());
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    Some(_) => return Err(Missed::NotSent(said(failed.error()))),
                    None => return Err(Missed::Lost(said(failed.error()))),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Missed> {
        let address = self.found()?;
        let refused = |error: &dyn std::error::Error| {
            Missed::NotSent(format!("{address} cannot be reached: {error}"))
        };
        let stream = TcpStream::connect(address.authority()).await;
        let stream = stream.map_err(|error| refused(&error))?;
        // Small requests leave at once; if the socket refuses that, they leave later.
        let _sooner = stream.set_nodelay(true);
        let begun = if address.is_encrypted() {
            let stream = self.trust.connect(address.host(), stream).await;
            let distrusted = |why| Missed::NotSent(format!("{address} is not trusted: {why}"));
            begin(stream.map_err(distrusted)?).await
        } else {
            begin(stream).await
        };
        let host = HeaderValue::from_str(address.authority());
        let host = host.unwrap_or(HeaderValue::from_static("localhost"));
        let sender = begun.map_err(|error| refused(&error))?;
        Ok(Connection { sender, host })
    }
}

async fn begin<S>(stream: S) -> hyper::Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
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
