//! TLS: a certificate that the test signed itself, read again while the server runs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::rig::{Data, Reply, Server, create, said, store_in, windrow};

/// Makes a certificate for localhost and its key.
fn certify(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    certify_as(dir, name, "CA:FALSE")
}

/// The same of one that may make others, or may not.
fn certify_as(dir: &Path, name: &str, what: &str) -> (PathBuf, PathBuf) {
    let (certificate, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", &format!("basicConstraints=critical,{what}")]);
    let made = openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    (certificate, key)
}

/// Asks whether the server is there, trusting one certificate. An error if that is not shown.
fn ask(address: &str, trusted: &Path) -> std::io::Result<Reply> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut all = Vec::new();
    // It may hang up without the goodbye of TLS.
    let _ended = stream.read_to_end(&mut all);
    Ok(Reply::read(&mut all.as_slice()))
}

#[test]
fn a_server_speaks_tls_and_shows_a_new_certificate_after_a_hangup() {
    let data = Data::new("tls");
    let store = store_in(&data);
    let (certificate, key) = certify(&data.0, "one");
    let (other, other_key) = certify(&data.0, "other");
    let first = data.0.join("first.pem");
    std::fs::copy(&certificate, &first).unwrap();
    let flags = [
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        certificate.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let admin = create(&store, &["--role", "admin"]);
    let server = Server::start_with(&store, &flags, &[]);
    assert_eq!(ask(&server.address, &first).unwrap().status, 200);
    assert!(ask(&server.address, &other).is_err(), "another certificate is not trusted");
    // Whoever does not speak TLS is told so, and nothing else.
    let mut plain = TcpStream::connect(&server.address).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ended = plain.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("speaks https"), "{answer}");
    let plain = format!("http://{}", server.address);
    let asked = windrow(&["token", "list", "--server", &plain]).output().unwrap();
    assert!(said(&asked).contains("say https:// where http:// stands"), "{}", said(&asked));

    let url = format!("https://localhost:{}", server.address.rsplit(':').next().unwrap());
    let list = |roots: &Path| {
        let mut command = windrow(&["token", "list", "--server", &url, "--ca"]);
        command.arg(roots).env("WINDROW_TOKEN", &admin).output().unwrap()
    };
    let listed = list(&first);
    assert!(said(&listed).contains("admin"), "{}", said(&listed));
    let unknown = list(&other);
    assert_eq!(unknown.status.code(), Some(5));
    let unknown = said(&unknown);
    assert!(unknown.contains("nobody who is trusted here made its certificate"), "{unknown}");
    assert!(unknown.contains("with --ca") && !unknown.contains("UnknownIssuer"), "{unknown}");
    let numbered = format!("https://{}", server.address);
    let mut misnamed = windrow(&["token", "list", "--server", &numbered, "--ca"]);
    let misnamed = said(&misnamed.arg(&first).env("WINDROW_TOKEN", &admin).output().unwrap());
    let meant = "its certificate is not for 127.0.0.1 but for localhost; nothing was written. Name \
                 the server with --server as its certificate does";
    assert!(misnamed.contains(meant), "{misnamed}");
    let gone = said(&list(&data.0.join("gone")));
    assert!(gone.contains("--ca: certificates cannot be read: there is no file"), "{gone}");
    let no_ca = said(&list(&key));
    assert!(no_ca.contains("--ca: there is no certificate in"), "{no_ca}");

    // Files that do not belong together change nothing; when they do, the next one sees it.
    std::fs::copy(&other, &certificate).unwrap();
    server.signal("-HUP");
    assert_eq!(ask(&server.address, &first).unwrap().status, 200);
    std::fs::copy(&other_key, &key).unwrap();
    server.signal("-HUP");
    let began = std::time::Instant::now();
    while ask(&server.address, &other).is_err() {
        assert!(began.elapsed().as_secs() < 30, "it still shows the old one");
    }
    server.stop();
}

/// `openssl req -x509` makes such a one unless it is told not to.
#[test]
fn a_certificate_that_makes_others_is_said_to_be_no_servers_own() {
    let data = Data::new("tls-ca");
    let store = store_in(&data);
    let (certificate, key) = certify_as(&data.0, "ca", "CA:TRUE");
    let admin = create(&store, &["--role", "admin"]);
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let flags = [&["--listen", "127.0.0.1:0"], &tls[..]].concat();
    let server = Server::start_with(&store, &flags, &[]);
    let url = format!("https://localhost:{}", server.address.rsplit(':').next().unwrap());
    let mut list = windrow(&["token", "list", "--server", &url, "--ca"]);
    let list = list.arg(&certificate).env("WINDROW_TOKEN", &admin).output().unwrap();
    assert_eq!(list.status.code(), Some(5), "{}", said(&list));
    assert!(
        said(&list).contains("is one that makes others, and no server's own"),
        "{}",
        said(&list)
    );
    server.stop();
}

/// Makes a certificate for localhost that was good for a day in 2020. Only `openssl ca` lets one
/// say when.
fn certify_long_ago(dir: &Path) -> (PathBuf, PathBuf) {
    const AUTHORITY: &str = "[ca]\ndefault_ca = own\n[own]\ndatabase = index.txt\nserial = serial\n\
        new_certs_dir = .\ndefault_md = sha256\npolicy = any\nx509_extensions = leaf\n\
        [any]\ncommonName = supplied\n\
        [leaf]\nsubjectAltName = DNS:localhost\nbasicConstraints = critical,CA:FALSE\n";
    for (name, text) in [("authority", AUTHORITY), ("index.txt", ""), ("serial", "01\n")] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let ask = "req -newkey rsa:2048 -nodes -subj /CN=localhost -out ask.pem -keyout old.key";
    let sign = "ca -batch -notext -config authority -selfsign -keyfile old.key -in ask.pem \
                -startdate 20200101000000Z -enddate 20200102000000Z -out old.pem";
    for step in [ask, sign] {
        let made = Command::new("openssl").current_dir(dir).args(step.split_whitespace()).output();
        let made = made.unwrap();
        assert!(made.status.success(), "{}", said(&made));
    }
    (dir.join("old.pem"), dir.join("old.key"))
}

#[test]
fn a_certificate_that_has_expired_is_said_to_be_so() {
    let data = Data::new("tls-old");
    let store = store_in(&data);
    let (certificate, key) = certify_long_ago(&data.0);
    let tls = ["--tls-cert", certificate.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let flags = [&["--listen", "127.0.0.1:0"], &tls[..]].concat();
    let server = Server::start_with(&store, &flags, &[]);
    let url = format!("https://localhost:{}", server.address.rsplit(':').next().unwrap());
    let list = windrow(&["list", "--server", &url, "--ca"]).arg(&certificate).output().unwrap();
    assert_eq!(list.status.code(), Some(5), "{}", said(&list));
    let meant = "its certificate has expired, or the clock here is wrong; nothing was written. Its \
                 operator gives it another";
    assert!(said(&list).contains(meant), "{}", said(&list));
    server.stop();
}

#[test]
fn what_is_no_certificate_is_said_before_anything_listens() {
    let data = Data::new("no-tls");
    let (certificate, key) = certify(&data.0, "one");
    let (_, other_key) = certify(&data.0, "other");
    let empty = data.0.join("empty");
    std::fs::write(&empty, "").unwrap();
    let serve = |flags: &[(&str, &Path)]| {
        let mut command = windrow(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(store_in(&data));
        for (flag, path) in flags {
            command.arg(flag).arg(path);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success());
        said(&output)
    };
    let told = serve(&[("--tls-cert", &certificate)]);
    assert!(told.contains("go together"), "{told}");
    let told = serve(&[("--tls-cert", &certificate), ("--tls-key", &other_key)]);
    assert!(told.contains("is not the key of"), "{told}");
    assert!(!told.contains("InconsistentKeys") && !told.contains("KeyMismatch"), "{told}");
    let told = serve(&[("--tls-cert", &empty), ("--tls-key", &key)]);
    assert!(told.contains("there is no certificate in"), "{told}");
    assert!(told.contains("-----BEGIN CERTIFICATE-----"), "{told}");
    let told = serve(&[("--tls-cert", &certificate), ("--tls-key", &certificate)]);
    assert!(told.contains("there is no private key in"), "{told}");
    let whole = std::fs::read_to_string(&certificate).unwrap();
    let (half, odd) = (data.0.join("half"), data.0.join("odd"));
    std::fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let told = serve(&[("--tls-cert", &half), ("--tls-key", &key)]);
    assert!(told.contains("is damaged"), "{told}");
    let nothing = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(&odd, nothing).unwrap();
    let told = serve(&[("--tls-cert", &odd), ("--tls-key", &key)]);
    assert!(told.contains("no certificate"), "{told}");
    let told = serve(&[("--tls-cert", &certificate), ("--tls-key", &data.0.join("none"))]);
    assert!(told.contains("the key cannot be read: there is no file"), "{told}");
}

#[test]
fn a_client_that_speaks_tls_to_a_server_without_is_told_so() {
    let data = Data::new("no-https");
    let server = Server::start(&store_in(&data));
    let url = format!("https://{}", server.address);
    let asked = windrow(&["list", "--server", &url]).output().unwrap();
    let told = said(&asked);
    assert_eq!(asked.status.code(), Some(5), "{told}");
    let plain = format!("Ask http://{} if", server.address);
    assert!(told.contains("does not speak https") && told.contains(&plain), "{told}");
}
