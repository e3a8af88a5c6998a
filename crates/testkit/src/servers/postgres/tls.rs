//! A server that speaks TLS, with a certificate that it signed itself.

use std::path::PathBuf;
use std::process::Command;

use super::Postgres;
use crate::servers::process::output;

impl Postgres {
    /// Lets the server offer TLS under this name, and says where the certificate is. Other names
    /// are not in it.
    pub fn encrypt(&self, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.dir().join(format!("tls-{name}"));
        std::fs::create_dir(&dir)?;
        let (certificate, key) = (dir.join("certificate"), dir.join("key"));
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]);
        openssl.args(["-subj", &format!("/CN={name}"), "-addext"]);
        openssl.arg(format!("subjectAltName=DNS:{name}"));
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        output(openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key))?;
        output(Command::new("chmod").arg("600").arg(&key))?;
        output(Command::new("chmod").arg("755").arg(&dir))?;
        self.account.own(&dir)?;
        for (setting, value) in [("ssl_cert_file", &certificate), ("ssl_key_file", &key)] {
            let sql = format!("alter system set {setting} = '{}'", value.display());
            self.psql("postgres", &sql)?;
        }
        self.psql("postgres", "alter system set ssl = on")?;
        self.psql("postgres", "select pg_reload_conf()")?;
        Ok(certificate)
    }
}
