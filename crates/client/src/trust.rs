//! Whom whoever calls over https trusts.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject as _};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

/// Where systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What answered speaks no TLS: HTTP, most likely.
pub const NO_TLS: &str = "it does not speak TLS";
/// Its certificate was made by somebody whom nobody here trusts.
pub const UNKNOWN_ISSUER: &str = "nobody who is trusted here made its certificate";
/// What a certificate that is somebody else's is told by.
pub const OTHER_NAME: &str = "its certificate is not for";

/// Certificates that are trusted, read when the first connection needs them.
#[derive(Debug)]
pub struct Trust {
    roots: Option<PathBuf>,
    read: OnceLock<Arc<ClientConfig>>,
}

impl Trust {
    /// Those in a file, or the system's.
    pub fn in_file(roots: Option<PathBuf>) -> Trust {
        Trust { roots, read: OnceLock::new() }
    }

    /// An encrypted connection, if the other side proves to be this host.
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let connected = TlsConnector::from(self.config()?).connect(name, stream).await;
        connected.map_err(|error| distrusted(host, &error))
    }

    /// What could not be read may be there the next time.
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.read.get() {
            return Ok(config.clone());
        }
        let config = trusting(self.roots.as_deref())?;
        Ok(self.read.get_or_init(|| config).clone())
    }
}

/// Why there is no encrypted connection to a host, in other words than the library's.
fn distrusted(host: &str, error: &io::Error) -> String {
    let why = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidMessage(_)) => return NO_TLS.to_owned(),
        Some(Error::InvalidCertificate(why)) => why,
        _ => return error.to_string(),
    };
    match why {
        // One that was made anew has the name of the old one, and another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            UNKNOWN_ISSUER.to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!("{OTHER_NAME} {host} but for {}", named(presented))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("{OTHER_NAME} {host}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired, or the clock here is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet, or the clock here is wrong".to_owned()
        }
        // The library has no name for it; `openssl req -x509` makes such a one.
        _ if why.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is one that makes others, and no server's own (CA:TRUE)".to_owned()
        }
        _ => format!("its certificate is not accepted: {why}"),
    }
}

/// The names in a certificate, which the library gives as `DnsName("a.example")`.
fn named(presented: &[String]) -> String {
    let bare = |name: &String| {
        let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inside.unwrap_or(name).trim_matches('"').to_owned()
    };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

/// Whoever calls trusts the certificates in a file, or else the system's.
fn trusting(roots: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
    let file = roots.or_else(system);
    let file = file.ok_or("this system keeps no certificates where we look; name a file")?;
    let shown = file.display();
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| match error {
        pem::Error::Io(error) => format!("{shown} cannot be read: {error}"),
        _ => format!("{shown} is not what certificates are kept in, which is PEM"),
    })?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(all);
    if store.is_empty() {
        return Err(format!("{shown} holds no certificate"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}
