//! Whom whoever calls over https trusts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

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
        connected.map_err(|error| error.to_string())
    }

    /// What could not be read may be there the next time.
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.read.get() {
            return Ok(config.clone());
        }
        let config = read(self.roots.as_deref())?;
        Ok(self.read.get_or_init(|| config).clone())
    }
}

fn read(roots: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|path| path.exists());
    let file = roots.or_else(system);
    let file = file.ok_or("this system keeps no certificates where we look; name a file")?;
    let shown = file.display();
    let all = CertificateDer::pem_file_iter(file).map_err(|error| format!("{shown}: {error}"))?;
    let all: Result<Vec<_>, _> = all.collect();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(all.map_err(|error| format!("{shown}: {error}"))?);
    if store.is_empty() {
        return Err(format!("{shown} holds no certificate"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(config.with_root_certificates(store).with_no_client_auth()))
}
