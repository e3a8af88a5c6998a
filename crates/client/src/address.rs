//! Where a server is.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A host and a port, read from a URL such as `http://127.0.0.1:7117`, `https://queue.example.com`
/// or `rpc://127.0.0.1:7118`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    scheme: &'static str,
    /// As a request's Host names it: with brackets around an IPv6 address, and the port.
    authority: String,
}

/// Where a server that may move is now; none if nobody knows. Asked before each connection, so it
/// must be quick.
#[derive(Clone)]
pub struct Finder(Arc<dyn Fn() -> Option<Address> + Send + Sync>);

impl Finder {
    pub fn new(find: impl Fn() -> Option<Address> + Send + Sync + 'static) -> Finder {
        Finder(Arc::new(find))
    }

    pub(crate) fn find(&self) -> Option<Address> {
        (self.0)()
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finder")
    }
}

/// A text that names no server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{said:?} is not the address of a server: {why}; write {scheme}://host:port")]
pub struct NotAnAddress {
    said: String,
    why: &'static str,
    scheme: &'static str,
}

const HTTP: (&str, u16) = ("http", 7117);
const HTTPS: (&str, u16) = ("https", 443);
const RPC: (&str, u16) = ("rpc", 7118);

impl Address {
    /// The host and the port, with a colon between them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host alone, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        host.trim_matches(['[', ']'])
    }

    /// Whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == HTTPS.0
    }
}

impl Address {
    /// Where a server listens for RPC: by default on the port after that of HTTP.
    pub fn rpc(text: &str) -> Result<Address, NotAnAddress> {
        Address::read(text, RPC)
    }

    fn read(text: &str, (scheme, port): (&'static str, u16)) -> Result<Address, NotAnAddress> {
        // What stands before the host may be a password.
        let said = text.rsplit_once('@').map(|(_, host)| format!("…@{host}"));
        let said = said.unwrap_or_else(|| text.to_owned());
        let bad = |why| NotAnAddress { said: said.clone(), why, scheme };
        let rest = match text.split_once("://") {
            Some((said, rest)) if said == scheme => rest,
            Some(_) => return Err(bad("its scheme is another")),
            None => text,
        };
        let place = rest.strip_suffix('/').unwrap_or(rest);
        if place.contains(['/', '?', '#', '@']) || place.contains(char::is_whitespace) {
            return Err(bad("there is more in it than a host and a port"));
        }
        let has_port = place.rsplit_once(':').is_some_and(|(host, port)| {
            !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && !host.is_empty()
        });
        let host_ends = place.rfind(']').map_or(0, |at| at + 1);
        if place.is_empty() || (!has_port && place[host_ends..].contains(':')) {
            return Err(bad("its host or its port is missing"));
        }
        if !has_port {
            return Ok(Address { scheme, authority: format!("{place}:{port}") });
        }
        let said = place.rsplit(':').next().unwrap_or_default();
        said.parse::<u16>().map_err(|_| bad("its port is too large"))?;
        Ok(Address { scheme, authority: place.to_owned() })
    }
}

impl FromStr for Address {
    type Err = NotAnAddress;

    /// Where a server listens for HTTP.
    fn from_str(text: &str) -> Result<Address, NotAnAddress> {
        let is_encrypted = text.starts_with("https://");
        Address::read(text, if is_encrypted { HTTPS } else { HTTP })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, authority) in [
            ("http://127.0.0.1:7117", "127.0.0.1:7117"),
            ("http://localhost/", "localhost:7117"),
            ("queue.example:80", "queue.example:80"),
            ("http://[::1]:9", "[::1]:9"),
            ("http://[::1]", "[::1]:7117"),
            ("https://queue.example", "queue.example:443"),
            ("https://[::1]:9", "[::1]:9"),
        ] {
            let address = text.parse::<Address>();
            assert_eq!(address.as_ref().map(Address::authority), Ok(authority), "{text}");
        }
    }

    #[test]
    fn rpc_has_a_scheme_and_a_port_of_its_own() {
        for (text, shown) in [
            ("127.0.0.1:9", "rpc://127.0.0.1:9"),
            ("rpc://queue.example", "rpc://queue.example:7118"),
            ("[::1]", "rpc://[::1]:7118"),
        ] {
            assert_eq!(Address::rpc(text).map(|address| address.to_string()), Ok(shown.to_owned()));
        }
        let encrypted = "https://[::1]:9".parse::<Address>().expect("an address");
        assert_eq!((encrypted.host(), encrypted.is_encrypted()), ("::1", true));
        let error = Address::rpc("http://127.0.0.1:7117").expect_err("another wire");
        assert!(error.to_string().contains("rpc://host:port"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "missing"),
            ("ftp://x", "scheme"),
            ("http://x/api", "more in it"),
            ("http://u:p@x", "more in it"),
            ("http://x:", "missing"),
            ("http://x:99999", "too large"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
