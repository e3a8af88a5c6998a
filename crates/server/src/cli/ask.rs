//! A command that asks a running server, over HTTP or HTTPS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::tls::certificates;

/// Bytes of an answer that are read.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// Where systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A running server.
pub(super) struct Server {
    uri: Uri,
    token: Option<String>,
    roots: Option<PathBuf>,
}

impl Server {
    /// The server at an address. `roots` are the certificates to trust instead of the system's.
    pub(super) fn new(
        address: &str,
        token: Option<String>,
        roots: Option<PathBuf>,
    ) -> anyhow::Result<Server> {
        let wrong = || format!("{address:?} is not an address like http://127.0.0.1:7117");
        let uri: Uri = address.trim_end_matches('/').parse().with_context(wrong)?;
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        anyhow::ensure!(is_known && uri.host().is_some() && uri.path() == "/", wrong());
        Ok(Server { uri, token, roots })
    }

    /// Asks, and reads the answer. What the server calls a problem is an error.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> anyhow::Result<T> {
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::builder().method(method).uri(path).header(HOST, authority);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(body.map_or_else(Body::empty, Body::from))?;
        let is_encrypted = self.uri.scheme_str() == Some("https");
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = self.uri.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await;
        let stream = stream.with_context(|| format!("cannot reach {}", self.uri))?;
        if !is_encrypted {
            return answer(stream, request).await;
        }
        let connector = TlsConnector::from(Arc::new(trust(self.roots.as_deref())?));
        let stream = connector.connect(ServerName::try_from(host)?, stream).await;
        answer(stream.with_context(|| format!("{} is not trusted", self.uri))?, request).await
    }
}

async fn answer<S, T>(stream: S, request: Request<Body>) -> anyhow::Result<T>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: DeserializeOwned,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = axum::body::to_bytes(Body::new(response.into_body()), ANSWER_MAX).await?;
    if status.is_success() {
        return serde_json::from_slice(&body).context("the server's answer cannot be read");
    }
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("it gave no reason");
    let hint = if status.as_u16() == 401 { "; give a token in WINDROW_TOKEN" } else { "" };
    anyhow::bail!("the server refused ({status}): {detail}{hint}")
}

fn trust(roots: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
    let file = roots.or_else(system);
    let file = file.context("this system keeps no certificates where we look; name a file")?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates(file)?);
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth())
}
