//! Where a webhook leads, taken apart.

use std::str::FromStr;

use axum::http::Uri;

/// An address to send to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub(crate) is_https: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As the Host header has it.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let uri: Uri = text.parse().map_err(|error| format!("is not an address: {error}"))?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("must begin with https:// (or http://, where that is allowed)".into()),
        };
        let authority = uri.authority().ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user or a password".into());
        }
        if text.contains('#') {
            return Err("must not have a part after #".into());
        }
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("names no host".into());
        }
        let port = authority.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        if port == 0 {
            return Err("has no port".into());
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { is_https, host, port, authority: authority.to_string(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let target: Target = "https://example.com/hooks?a=b".parse().expect("an address");
        assert_eq!((&*target.host, target.port, &*target.path), ("example.com", 443, "/hooks?a=b"));
        let target: Target = "http://[::1]:8080".parse().expect("an address");
        assert_eq!((&*target.host, target.port, &*target.path), ("::1", 8080, "/"));
        assert_eq!(target.authority, "[::1]:8080");
        for wrong in [
            "",
            "/hooks",
            "example.com",
            "file:///etc/passwd",
            "https://user:secret@example.com/",
            "https://example.com:0/",
            "https://example.com/#part",
            "https://",
            "https://exa mple.com/",
        ] {
            assert!(wrong.parse::<Target>().is_err(), "{wrong}");
        }
    }
}
