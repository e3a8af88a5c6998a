//! TLS to the database, by rustls.
//!
//! Decides whom to trust. Leaves out channel binding and client certificates on purpose: who needs
//! more than a password between servers has a network that does it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// Which servers are believed to be the right one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Trust {
    /// Any: the way is encrypted, and who is at its end is not asked.
    Anybody,
    /// One with a certificate that these roots signed.
    Issued { roots: PathBuf },
    /// One with such a certificate for the name that we asked for.
    Named { roots: PathBuf },
}

/// Where systems keep what they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Makes encrypted connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// What is wrong is said in words.
    pub(super) fn new(trust: &Trust) -> Result<Tls, String> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Anybody => Arc::new(Lenient { provider: Arc::clone(&provider), issued: None }),
            Trust::Issued { roots } => {
                let issued = Some(verifier(roots, &provider)?);
                Arc::new(Lenient { provider: Arc::clone(&provider), issued })
            }
            Trust::Named { roots } => verifier(roots, &provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Tls(Arc::new(config)))
    }
}

fn verifier(
    roots: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
    let file = if roots == Path::new("system") {
        system().ok_or("this system has no list of roots that we know of; name a file")?
    } else {
        roots
    };
    let wrong = |what: String| format!("sslrootcert={}: {what}", file.display());
    let mut store = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?;
    let certificates: Result<Vec<_>, _> = found.collect();
    let (added, _) =
        store.add_parsable_certificates(certificates.map_err(|error| wrong(error.to_string()))?);
    if added == 0 {
        return Err(wrong("there is no certificate in it".into()));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(store.into(), Arc::clone(provider));
    builder.build().map_err(|error| wrong(error.to_string()))
}

/// Does not ask for the name, or for nothing at all. Signatures are checked either way.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    issued: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(issued) = &self.issued else { return Ok(ServerCertVerified::assertion()) };
        match issued.verify_server_cert(server, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        by: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, by, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        by: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, by, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        // A unix socket has no name, and no encryption either.
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { connector: TlsConnector::from(Arc::clone(&self.0)), name })
    }
}

/// A connection that is about to be encrypted.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let unnamed = || io::Error::other("the host has no name that a certificate could have");
            let name = self.name.ok_or_else(unnamed)?;
            Ok(Encrypted(self.connector.connect(name, stream).await?))
        })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
