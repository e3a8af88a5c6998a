//! The same over https, with certificates that the test signed itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use windrow_pipelines::adapters::embed::Embedder as _;

use crate::server::{Server, vectors};
use crate::{model, transient, vector};

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let name = format!("windrow-openai-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes a certificate for a name, and a server's side of TLS with it.
fn certify(dir: &Path, name: &str) -> (PathBuf, TlsAcceptor) {
    let (certificate, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", &format!("/CN={name}"), "-addext"]);
    openssl.arg(format!("subjectAltName=DNS:{name}"));
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&certificate).unwrap()],
            PrivateKeyDer::from_pem_file(&key).unwrap(),
        );
    (certificate, TlsAcceptor::from(Arc::new(config.unwrap())))
}

#[tokio::test]
async fn an_endpoint_over_https_is_asked_if_it_proves_who_it_is() {
    let dir = Dir::new("https");
    let (certificate, tls) = certify(&dir.0, "localhost");
    let (other, other_tls) = certify(&dir.0, "elsewhere.example");
    let server = Server::start_encrypted(tls, vectors).await;
    let base = format!("https://localhost:{}/v1", server.port);
    let trusting = |base: &str, roots: &Path| {
        model(base, |options| options.endpoint.roots = Some(roots.to_owned()))
    };
    assert_eq!(trusting(&base, &certificate).embed(&["a"]).await, [Ok(vector("a"))]);

    let imposter = Server::start_encrypted(other_tls, vectors).await;
    let imposing = format!("https://localhost:{}/v1", imposter.port);
    let missing = dir.0.join("missing.pem");
    let empty = dir.0.join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (base, roots, word) in [
        (&base, &other, "no secure connection"),
        (&imposing, &other, "no secure connection"),
        (&base, &missing, "missing.pem"),
        (&base, &empty, "holds no certificate"),
    ] {
        let all = trusting(base, roots).embed(&["a"]).await;
        let (why, _) = transient(&all[0]);
        assert!(why.contains(word), "{word}: {why}");
    }
    assert_eq!((server.asked().len(), imposter.asked().len()), (1, 0));

    // What could not be read at first is read once it is there.
    let model = trusting(&base, &missing);
    assert!(model.embed(&["a"]).await[0].is_err());
    std::fs::copy(&certificate, &missing).unwrap();
    assert_eq!(model.embed(&["a"]).await, [Ok(vector("a"))]);
}
