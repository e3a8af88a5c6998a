//! Who may talk to a server on this machine: programs, and not the pages of other sites.
//!
//! A page in a browser can send requests to addresses of the machine that the browser runs on, also
//! under a name of its own that leads there. So a request must call the server by an address of the
//! machine itself, and if it comes from a page, from one of this server. A server that other
//! machines reach is called by an address too, or by a name that it was told of.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use windrow_wire::problem::Code;

use super::reply::Failed;

/// How a server may be called.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// Other machines reach it, by any of its addresses. Nobody else can make a page whose host is
    /// an address of ours, so that any address will do.
    is_exposed: bool,
    names: Vec<String>,
}

pub(super) async fn check(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
    next: Next,
) -> Response {
    match hosts.allow(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(failed) => failed.into_response(),
    }
}

impl Hosts {
    pub(crate) fn new(is_exposed: bool, names: Vec<String>) -> Hosts {
        Hosts { is_exposed, names }
    }

    fn allow(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Failed> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let host = uri.authority().map(|authority| authority.as_str()).or_else(|| text(HOST));
        let Some(host) = host.filter(|host| self.is_ours(host)) else {
            let detail = "the Host must be localhost, an address of the server, or in server.hosts";
            return Err(Failed::new(Code::MisdirectedHost, detail));
        };
        let is_same = |origin: &str| {
            origin.split_once("://").is_some_and(|(_, from)| from.eq_ignore_ascii_case(host))
        };
        match text(ORIGIN) {
            Some(origin) if !is_same(origin) => {
                let detail = "the Origin is another site; its pages may not use this server";
                Err(Failed::new(Code::MisdirectedHost, detail))
            }
            _ => Ok(()),
        }
    }

    /// Whether a host, with or without a port, is this server by a name that nobody else can give.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address = address.unwrap_or(name).parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost")
            || address.is_ok_and(|address| self.is_exposed || address.is_loopback())
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for host in
            ["localhost", "LOCALHOST:7117", "127.0.0.1:7117", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(Hosts::default().is_ours(host), "{host}");
        }
        for host in
            ["", "example.com", "localhost.example.com:7117", "10.0.0.1:7117", "0.0.0.0", "[::2]:1"]
        {
            assert!(!Hosts::default().is_ours(host), "{host}");
        }
    }

    #[test]
    fn a_server_that_others_reach_is_called_by_address_or_by_a_name_it_knows() {
        let hosts = Hosts::new(true, vec!["queue.example.com".into()]);
        for host in ["10.0.0.1:7117", "[2001:db8::1]:7117", "Queue.Example.com:7117", "localhost"] {
            assert!(hosts.is_ours(host), "{host}");
        }
        for host in ["example.com", "queue.example.com.evil.example", "", "10.0.0.1.example"] {
            assert!(!hosts.is_ours(host), "{host}");
        }
        assert!(Hosts::new(false, vec!["a".into()]).is_ours("a:1"));
        assert!(!Hosts::new(false, vec!["a".into()]).is_ours("10.0.0.1"));
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().expect("a header"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().expect("a header"));
            }
            Hosts::default().allow(&headers, &Uri::from_static("/x")).is_ok()
        };
        assert!(check("localhost:7117", None));
        assert!(check("localhost:7117", Some("http://localhost:7117")));
        assert!(!check("localhost:7117", Some("http://localhost:8000")));
        assert!(!check("localhost:7117", Some("https://example.com")));
        assert!(!check("localhost:7117", Some("null")));
        assert!(!check("rebound.example.com:7117", None));
        assert!(Hosts::default().allow(&HeaderMap::new(), &Uri::from_static("/x")).is_err());
    }
}
