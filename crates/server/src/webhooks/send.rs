//! Sending: one POST to an address that may be called, within a time.
//!
//! Follows no redirect: an address that leads elsewhere is for whoever wrote the webhook to change.
//! Reads of the answer only its status and how long to wait.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderName, HeaderValue, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use windrow_client::trust::Trust;

use super::address::Allowed;
use super::url::Target;

/// How webhooks are sent.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) allowed: Allowed,
    pub(crate) within: Duration,
    /// The file with certificates that are trusted; the system's if none.
    pub(crate) roots: Option<PathBuf>,
}

#[cfg(test)]
impl Sender {
    /// One that reaches nobody.
    pub(crate) fn silent() -> Sender {
        let allowed = "".parse().expect("nobody is a list too");
        Sender { allowed, within: Duration::from_secs(1), roots: None }
    }
}

/// What the receiver said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    /// How long it asks us to wait.
    pub(crate) retry_after: Option<Duration>,
}

impl Sender {
    /// Sends a body; what went wrong is said in words.
    pub(crate) async fn send(
        &self,
        to: &Target,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<Said, String> {
        let late = |_| format!("no answer within {} ms", self.within.as_millis());
        tokio::time::timeout(self.within, self.try_send(to, headers, body)).await.map_err(late)?
    }

    async fn try_send(
        &self,
        to: &Target,
        headers: Vec<(HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<Said, String> {
        let stream = self.connect(to).await?;
        let mut request = Request::post(&to.path)
            .header(HOST, &to.authority)
            .header(USER_AGENT, concat!("windrow/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        request.headers_mut().extend(headers);
        if to.is_https {
            // Read anew each time: whoever mends the file need not start the server again.
            let tls = Trust::in_file(self.roots.clone()).connect(&to.host, stream).await;
            exchange(tls.map_err(|why| format!("no secure connection: {why}"))?, request).await
        } else {
            exchange(stream, request).await
        }
    }

    /// Connects to the first address of a name that may be called.
    async fn connect(&self, to: &Target) -> Result<TcpStream, String> {
        let found = tokio::net::lookup_host((to.host.as_str(), to.port)).await;
        let found = found.map_err(|error| format!("{} was not found: {error}", to.host))?;
        let mut why = format!("{} has no address", to.host);
        for address in found {
            match self.may_call(to, address) {
                Ok(()) => match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => why = format!("{address}: {error}"),
                },
                Err(refused) => why = refused,
            }
        }
        Err(why)
    }

    fn may_call(&self, to: &Target, address: SocketAddr) -> Result<(), String> {
        let ip = address.ip();
        if !self.allowed.admits(ip) {
            return Err(format!(
                "{ip} is not a public address; name it in webhooks.allow if it may be called"
            ));
        }
        if !to.is_https && !self.allowed.names(ip) {
            return Err(format!(
                "{ip} is called by https only; name it in webhooks.allow for plain http"
            ));
        }
        Ok(())
    }

    /// Refuses at once what names an address that may not be called.
    pub(crate) fn check(&self, to: &Target) -> Result<(), String> {
        match to.host.parse() {
            Ok(ip) => self.may_call(to, SocketAddr::new(ip, to.port)),
            Err(_) => Ok(()),
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> Result<Said, String> {
    let (mut sending, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // What the connection dies of, the request is told as well.
    let driving = tokio::spawn(async move { drop(connection.await) });
    let answered = sending.send_request(request).await.map_err(|error| error.to_string());
    driving.abort();
    let answered = answered?;
    let seconds = answered.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    Ok(Said { status: answered.status().as_u16(), retry_after })
}
