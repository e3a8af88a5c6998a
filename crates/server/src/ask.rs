//! What a command, or a page of the console, asks of the API.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RANGE,
};
use axum::http::{Method, Request};
use serde::Serialize;
use windrow_client::http;
use windrow_core::RequestId;

const BASE: &str = "/api/v1";
const REQUEST_ID: HeaderName = HeaderName::from_static("idempotency-key");
const OFFSET: HeaderName = HeaderName::from_static("upload-offset");

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: Method,
    path: String,
    /// Whether something stands after the question mark.
    has_query: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    wait: Duration,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &[&str]) -> Ask {
        let mut full = BASE.to_owned();
        for part in path {
            full.push('/');
            encode(part, &mut full);
        }
        let (headers, body, wait) = (Vec::new(), Bytes::new(), Duration::ZERO);
        Ask { method, path: full, has_query: false, headers, body, wait }
    }

    /// Looks at what these words lead to: `["queue", id, "explain"]`.
    pub(crate) fn get(path: &[&str]) -> Ask {
        Ask::new(Method::GET, path)
    }

    pub(crate) fn post(path: &[&str]) -> Ask {
        Ask::new(Method::POST, path)
    }

    pub(crate) fn put(path: &[&str]) -> Ask {
        Ask::new(Method::PUT, path)
    }

    pub(crate) fn patch(path: &[&str]) -> Ask {
        Ask::new(Method::PATCH, path)
    }

    pub(crate) fn delete(path: &[&str]) -> Ask {
        Ask::new(Method::DELETE, path)
    }

    /// Whether it changes nothing, and brings no more than what is shown.
    pub(crate) fn only_looks(&self) -> bool {
        self.method == Method::GET && !self.headers.iter().any(|(name, _)| name == RANGE)
    }

    /// How long the answer may wait on purpose.
    pub(crate) fn longest_wait(&self) -> Duration {
        self.wait
    }

    /// With a parameter after the question mark, if there is one.
    pub(crate) fn with(mut self, name: &str, value: Option<impl AsRef<str>>) -> Ask {
        if let Some(value) = value {
            self.path.push(if self.has_query { '&' } else { '?' });
            self.has_query = true;
            encode(name, &mut self.path);
            self.path.push('=');
            encode(value.as_ref(), &mut self.path);
        }
        self
    }

    /// Only the bytes from one place up to another.
    pub(crate) fn range(mut self, from: u64, to: u64) -> Ask {
        if let Ok(range) = HeaderValue::from_str(&format!("bytes={from}-{}", to - 1)) {
            self.headers.push((RANGE, range));
        }
        self
    }

    /// What is sent begins at this byte of an upload.
    pub(crate) fn at(mut self, offset: u64) -> Ask {
        self.headers.push((OFFSET, offset.into()));
        self
    }

    /// With a body.
    pub(crate) fn json(self, body: &impl Serialize) -> serde_json::Result<Ask> {
        let body = serde_json::to_vec(body)?.into();
        Ok(self.of_type("application/json", body))
    }

    pub(crate) fn of_type(mut self, kind: &'static str, body: Bytes) -> Ask {
        self.headers.push((CONTENT_TYPE, HeaderValue::from_static(kind)));
        Ask { body, ..self }
    }

    /// With an id under which it is done once, however often it is sent.
    pub(crate) fn once(mut self) -> Ask {
        let id = RequestId(rand::random());
        if let Ok(id) = HeaderValue::from_str(&id.to_string()) {
            self.headers.push((REQUEST_ID, id));
        }
        self
    }

    /// The answer is a stream of events.
    pub(crate) fn events(mut self) -> Ask {
        self.headers.push((ACCEPT, HeaderValue::from_static("text/event-stream")));
        self
    }

    /// It may take so long on purpose.
    pub(crate) fn waits(self, wait: Duration) -> Ask {
        Ask { wait, ..self }
    }

    /// Whether sending it twice does no harm.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.method.is_safe() || self.headers.iter().any(|(name, _)| *name == REQUEST_ID)
    }

    /// The request for a router in this process.
    pub(crate) fn request(self) -> axum::http::Result<Request<Body>> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        request = request.header(HOST, "localhost").header(CONTENT_LENGTH, self.body.len());
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body))
    }
}

impl From<Ask> for http::Ask {
    fn from(ask: Ask) -> http::Ask {
        let Ask { method, path, headers, body, wait, .. } = ask;
        http::Ask { method, path, headers, body, wait }
    }
}

/// What may stand in a path or behind a question mark.
pub(crate) fn encode(text: &str, into: &mut String) {
    // A dot, or two, would lead elsewhere.
    let is_way = matches!(text, "." | "..");
    for byte in text.bytes() {
        match byte {
            b'.' if !is_way => into.push('.'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                into.push(char::from(byte));
            }
            _ => {
                // Writing to a text cannot fail.
                let _infallible = write!(into, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_stay_whole_in_a_path() {
        let ask = Ask::get(&["queues", "a/b ?", "items"]).with("filter", Some("status:failed x&y"));
        let ask = ask.with("queue", None::<&str>).with("limit", Some("2"));
        let path = "/api/v1/queues/a%2Fb%20%3F/items?filter=status%3Afailed%20x%26y&limit=2";
        assert_eq!(ask.path, path);
        assert_eq!(Ask::get(&["..", "a.b"]).path, "/api/v1/%2E%2E/a.b");
        assert!(ask.is_repeatable() && !Ask::post(&["sweep"]).is_repeatable());
        assert!(Ask::post(&["items"]).once().is_repeatable());
    }
}
