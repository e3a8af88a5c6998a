//! What HTTP leaves open, or to the reader, and we refuse: two readings of where a body ends, two
//! hosts, expectations that nobody knows, percent signs that encode nothing.

use axum::extract::Request;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use windrow_wire::problem::Code;

use super::reply::Failed;

/// Bytes and number of headers that are read.
pub(super) const HEADERS_MAX: usize = 32 * 1024;
pub(super) const HEADERS_MAX_COUNT: usize = 100;

pub(super) async fn check(request: Request, next: Next) -> Response {
    if let Err(failed) = framed(request.headers()) {
        let mut response = failed.into_response();
        // Where the next request would begin is not certain.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    if head_bytes(&request) > HEADERS_MAX {
        return too_large().into_response();
    }
    match sound(request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(failed) => failed.into_response(),
    }
}

/// What a request has before its body. hyper reads a little more than it is told to.
fn head_bytes(request: &Request) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    // A colon, a space and the end of the line.
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    target + request.headers().iter().map(line).sum::<usize>()
}

/// What is said of a head that is too large.
pub(super) fn too_large() -> Failed {
    let detail = format!(
        "a request may have {HEADERS_MAX_COUNT} headers, and {HEADERS_MAX} bytes before its body"
    );
    Failed::new(Code::HeadersTooLarge, detail)
}

/// One way to say where the body ends.
fn framed(headers: &HeaderMap) -> Result<(), Failed> {
    let many = |name| headers.get_all(name).iter().count();
    if many(CONTENT_LENGTH) > 1 {
        return Err(Failed::new(Code::Malformed, "content-length is there twice"));
    }
    let is_chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        _ => Err(Failed::new(
            Code::Malformed,
            "the only transfer-encoding here is chunked, and once",
        )),
    }
}

fn sound(headers: &HeaderMap, uri: &Uri) -> Result<(), Failed> {
    let malformed = |detail: &str| Err(Failed::new(Code::Malformed, detail));
    if headers.get_all(HOST).iter().count() != 1 {
        return malformed("a request has one Host header");
    }
    let is_known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get_all(EXPECT).iter().any(|value| !is_known(value)) {
        return Err(Failed::new(
            Code::ExpectationFailed,
            "Expect may be 100-continue, if anything",
        ));
    }
    if !is_encoded(uri.path()) || !uri.query().is_none_or(is_encoded) {
        return malformed("a percent sign stands before two hexadecimal digits; write %25 for one");
    }
    Ok(())
}

/// Whether every percent sign encodes a byte.
fn is_encoded(text: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.into_iter().all(|(at, _)| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_encodes_a_byte() {
        for text in ["", "/a", "/a%20b", "%C3%a9"] {
            assert!(is_encoded(text), "{text}");
        }
        for text in ["%", "%4", "%zz", "a%2", "%%20"] {
            assert!(!is_encoded(text), "{text}");
        }
    }
}
