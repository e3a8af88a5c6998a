//! Targets: an address taken apart.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper::Uri;

/// Where a question goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub(super) is_encrypted: bool,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// As the Host header has it.
    pub(super) authority: String,
    /// With what stands after the question mark.
    pub(super) path: String,
}

/// Why nothing is asked at an address. It is not shown, because there may be a password in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotATarget {
    /// It is none.
    #[error("not an address of an endpoint: {why}; write http://host:port/path or https://…")]
    NoAddress { why: &'static str },
    /// Others on the way could read the key.
    #[error(
        "the key would go over the network in the clear; write https://…, or allow it with \
         documents.allow_plain_http"
    )]
    InTheClear,
}

impl Target {
    /// The path of what is under it, such as `/collections`; its own for nothing.
    pub(super) fn under(&self, path: &str) -> String {
        match path {
            "" => self.path.clone(),
            _ => format!("{}{path}", self.path.trim_end_matches('/')),
        }
    }

    /// Whether nobody on the way can read what is sent: it is encrypted, or stays on this machine.
    pub(super) fn keeps_secrets(&self) -> Result<(), NotATarget> {
        let address = self.host.parse::<IpAddr>();
        let is_here = self.host.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| address.is_loopback());
        if self.is_encrypted || is_here { Ok(()) } else { Err(NotATarget::InTheClear) }
    }
}

impl FromStr for Target {
    type Err = NotATarget;

    fn from_str(text: &str) -> Result<Target, NotATarget> {
        let bad = |why| NotATarget::NoAddress { why };
        let uri: Uri = text.parse().map_err(|_| bad("it cannot be read"))?;
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("it begins with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or(bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it holds a user or a password, which belong into the key"));
        }
        if text.contains('#') {
            return Err(bad("it has a part after #"));
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        let said = authority.as_str().rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        if port == 0 || said.is_some_and(|(_, said)| said.parse() != Ok(port)) {
            return Err(bad("its port is none"));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { is_encrypted, host, port, authority: authority.to_string(), path })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        // What stands after the question mark may be a key.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "{scheme}://{}{path}", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        for (text, is_encrypted, host, port, path) in [
            ("http://127.0.0.1:1234/v1", false, "127.0.0.1", 1234, "/v1"),
            ("https://models.example", true, "models.example", 443, "/"),
            ("http://[::1]/x?a=b", false, "::1", 80, "/x?a=b"),
            ("http://[::1]:9", false, "::1", 9, "/"),
        ] {
            let target: Target = text.parse().expect(text);
            let found = (target.is_encrypted, &*target.host, target.port, &*target.path);
            assert_eq!(found, (is_encrypted, host, port, path), "{text}");
        }
        for (text, expected) in [("http://h", "/a"), ("http://h/", "/a"), ("http://h/b/", "/b/a")] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.under("/a"), expected, "{text}");
            assert_eq!(target.under(""), target.path);
        }
        let target: Target = "https://models.example:8443/v1?key=secret".parse().unwrap();
        assert_eq!(target.to_string(), "https://models.example:8443/v1");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason_that_does_not_show_it() {
        for (text, why) in [
            ("", "cannot be read"),
            ("/v1", "neither http"),
            ("ftp://example.com", "neither http"),
            ("http://user:secret@example.com/", "a user or a password"),
            ("http://example.com/#secret", "after #"),
            ("http://example.com:0/", "port"),
            ("http://example.com:99999/", "port"),
            ("http://example.com:/", "port"),
            ("http://exa mple.com/", "cannot be read"),
        ] {
            let error = text.parse::<Target>().expect_err(text).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
