//! TLS for whatever the server listens with: HTTP, and RPC too.
//!
//! The certificate and its key are PEM files. They can be read again while the server runs; new
//! connections then get the new certificate, and if the files are wrong, the old one stays.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
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
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("cannot read a private key in PEM from {shown}"))?;
    let certified = CertifiedKey::from_der(chain, private, &ring::default_provider())
        .with_context(|| format!("{shown} is not the key of {}", certificate.display()))?;
    Ok(Arc::new(certified))
}

/// The certificates in a PEM file, of which there must be one.
pub(crate) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let wrong = || format!("cannot read certificates in PEM from {}", path.display());
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).with_context(wrong)?.collect();
    let all = all.with_context(wrong)?;
    anyhow::ensure!(!all.is_empty(), "there is no certificate in {}", path.display());
    Ok(all)
}
