//! Who may talk to a server on this machine: programs, and not the pages of other sites.
//!
//! A page in a browser can send requests to addresses of the machine that the browser runs on, also
//! under a name of its own that leads there. So a request must call the server by an address of the
//! machine itself, and if it comes from a page, from one of this server.

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use windrow_wire::problem::Code;

use super::reply::Failed;

pub(super) async fn check(request: Request, next: Next) -> Response {
    match allowed(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(failed) => failed.into_response(),
    }
}

fn allowed(headers: &HeaderMap, uri: &Uri) -> Result<(), Failed> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = uri.authority().map(|authority| authority.as_str()).or_else(|| text(HOST));
    let Some(host) = host.filter(|host| is_here(host)) else {
        let detail = "the Host must be localhost or an address of this machine";
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

/// Whether a host, with or without a port, is this machine by a name that nobody else can give.
fn is_here(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let loopback = |address: std::net::IpAddr| address.is_loopback();
    name.eq_ignore_ascii_case("localhost") || address.parse().is_ok_and(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_here() {
        for host in
            ["localhost", "LOCALHOST:7117", "127.0.0.1:7117", "127.1.2.3", "[::1]:80", "[::1]"]
        {
            assert!(is_here(host), "{host}");
        }
        for host in
            ["", "example.com", "localhost.example.com:7117", "10.0.0.1:7117", "0.0.0.0", "[::2]:1"]
        {
            assert!(!is_here(host), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused() {
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().expect("a header"));
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().expect("a header"));
            }
            allowed(&headers, &Uri::from_static("/x")).is_ok()
        };
        assert!(check("localhost:7117", None));
        assert!(check("localhost:7117", Some("http://localhost:7117")));
        assert!(!check("localhost:7117", Some("http://localhost:8000")));
        assert!(!check("localhost:7117", Some("https://example.com")));
        assert!(!check("localhost:7117", Some("null")));
        assert!(!check("rebound.example.com:7117", None));
        assert!(allowed(&HeaderMap::new(), &Uri::from_static("/x")).is_err());
    }
}
