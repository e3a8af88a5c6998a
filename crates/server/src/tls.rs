//! TLS for whatever the server listens with: HTTP, and RPC too.
//!
//! The certificate and its key are PEM files. They can be read again while the server runs; new
//! connections then get the new certificate, and if the files are wrong, the old one stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Where a certificate and its key are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Encrypts connections.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    shown: Arc<Shown>,
    files: Files,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate and its key.
    pub(crate) fn open(files: Files) -> anyhow::Result<Tls> {
        let shown = Arc::new(Shown(RwLock::new(read(&files)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&shown) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { acceptor: Arc::new(config).into(), shown, files })
    }

    /// Reads the files again. If they are wrong, everything stays as it is.
    pub(crate) fn reload(&self) -> anyhow::Result<()> {
        let read = read(&self.files)?;
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// An encrypted connection of a plain one, unless that takes too long.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let handshake = tokio::time::timeout(HANDSHAKE_WITHIN, self.acceptor.accept(stream));
        handshake.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The certificate that is shown to clients.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn read(Files { certificate, key }: &Files) -> anyhow::Result<Arc<CertifiedKey>> {
    let chain = certificates(certificate)?;
    let shown = key.display();
    let private = PrivateKeyDer::from_pem_slice(&bytes_of(key, "the key")?);
    let private = private.map_err(|error| not_pem(key, "private key", "PRIVATE KEY", &error))?;
    let certified = CertifiedKey::from_der(chain, private, &ring::default_provider());
    let certified = certified.map_err(|error| match error {
        Error::InconsistentKeys(_) => anyhow::anyhow!(
            "{shown} is not the key of {}; the certificate is the one that was made from this key, \
             the server's own first and its chain behind it",
            certificate.display()
        ),
        Error::InvalidCertificate(_) => {
            anyhow::anyhow!("{} holds something that is no certificate", certificate.display())
        }
        _ => anyhow::anyhow!(
            "{shown} holds a key of a kind that is not used here; make one of RSA, ECDSA (P-256 or \
             P-384) or Ed25519"
        ),
    })?;
    Ok(Arc::new(certified))
}

/// The certificates in a PEM file, of which there must be one.
pub(crate) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let bytes = bytes_of(path, "certificates")?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let no = |error: &pem::Error| not_pem(path, "certificate", "CERTIFICATE", error);
    let all = all.map_err(|error| no(&error))?;
    if all.is_empty() {
        return Err(no(&pem::Error::NoItemsFound));
    }
    Ok(all)
}

/// What stands in a file that somebody named.
fn bytes_of(path: &Path, what: &str) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        let (shown, why) = (path.display(), error.kind());
        match why {
            io::ErrorKind::NotFound => {
                anyhow::anyhow!("{what} cannot be read: there is no file {shown}")
            }
            io::ErrorKind::PermissionDenied => anyhow::anyhow!(
                "{what} cannot be read: this user may not read {shown}; give it to whoever runs \
                 this, with mode 600"
            ),
            _ => anyhow::anyhow!("{what} cannot be read from {shown}: {error}"),
        }
    })
}

/// What is wrong with a file that should be PEM, and what it looks like.
fn not_pem(path: &Path, what: &str, section: &str, error: &pem::Error) -> anyhow::Error {
    let (shown, begins) = (path.display(), format!("-----BEGIN {section}-----"));
    match error {
        pem::Error::NoItemsFound => anyhow::anyhow!(
            "there is no {what} in {shown}; in PEM one begins with {begins} (`openssl` makes PEM \
             of DER)"
        ),
        _ => anyhow::anyhow!(
            "{shown} is damaged: what begins with -----BEGIN there is not PEM to its end; copy it \
             again, whole"
        ),
    }
}

/// Whether somebody begins to speak HTTP without TLS: a method, where a handshake is expected.
/// Nothing if nobody says anything for as long as a handshake may take.
pub(crate) async fn is_plain(stream: &TcpStream) -> Option<bool> {
    let mut first = [0];
    let peeked = tokio::time::timeout(HANDSHAKE_WITHIN, stream.peek(&mut first)).await.ok()?;
    Some(matches!(peeked, Ok(1)) && first[0].is_ascii_uppercase())
}
