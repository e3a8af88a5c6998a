//! Where a graph database is: an address taken apart.

use std::fmt;
use std::str::FromStr;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
}

/// A text that is no address. It is not shown, because there may be a password in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an address of a graph database: {why}; write bolt://host:port")]
pub struct NotAnAddress {
    why: &'static str,
}

const PORT: u16 = 7687;

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Address, NotAnAddress> {
        let bad = |why| NotAnAddress { why };
        let (scheme, rest) = text.split_once("://").ok_or(bad("it has no scheme"))?;
        match scheme {
            "bolt" => {}
            "bolt+s" | "bolt+ssc" | "neo4j+s" | "neo4j+ssc" => {
                return Err(bad("it asks for encryption, which is not spoken here yet"));
            }
            "neo4j" => return Err(bad("it asks for routing; name one server instead")),
            _ => return Err(bad("it does not begin with bolt://")),
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('@') {
            return Err(bad("it holds a user or a password, which are given apart from it"));
        }
        if rest.contains(['/', '?', '#']) || rest.contains(char::is_whitespace) {
            return Err(bad("there is more in it than a host and a port"));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(bad("a bracket is missing"))?;
                (host, after.strip_prefix(':').or(after.is_empty().then_some("")))
            }
            None => {
                let (host, port) = rest.split_once(':').unwrap_or((rest, ""));
                (host, Some(port))
            }
        };
        let port = match port {
            Some("") if !rest.ends_with(':') => Some(PORT),
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => None,
        };
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        Ok(Address { host: host.to_owned(), port: port.ok_or(bad("its port is none"))? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { host, port } = self;
        if host.contains(':') {
            write!(f, "bolt://[{host}]:{port}")
        } else {
            write!(f, "bolt://{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (text, shown) in [
            ("bolt://localhost", "bolt://localhost:7687"),
            ("bolt://127.0.0.1:17687/", "bolt://127.0.0.1:17687"),
            ("bolt://[::1]", "bolt://[::1]:7687"),
            ("bolt://[::1]:9", "bolt://[::1]:9"),
        ] {
            assert_eq!(text.parse::<Address>().expect(text).to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason_that_does_not_show_it() {
        for (text, why) in [
            ("", "no scheme"),
            ("localhost:7687", "no scheme"),
            ("http://localhost", "does not begin with bolt://"),
            ("neo4j://localhost", "routing"),
            ("bolt+s://localhost", "encryption"),
            ("bolt://neo4j:secret@localhost", "a user or a password"),
            ("bolt://localhost/secret", "more in it"),
            ("bolt://", "no host"),
            ("bolt://:7687", "no host"),
            ("bolt://h:0", "port"),
            ("bolt://h:", "port"),
            ("bolt://h:99999", "port"),
            ("bolt://[::1", "bracket"),
            ("bolt://[::1]9", "port"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
