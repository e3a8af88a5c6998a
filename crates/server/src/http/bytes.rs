//! Bytes given out, whole or in part.

use std::future::Future;
use std::ops::Range;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use windrow_store::blobs::PIECE;
use windrow_wire::problem::Code;

use super::reply::Failed;

/// What can be given out.
pub(super) struct Whole<'a> {
    pub(super) len: u64,
    /// Changes when the bytes do.
    pub(super) tag: &'a str,
    pub(super) kind: &'a str,
}

impl Whole<'_> {
    /// Gives all of it, or the range that was asked for. `read` gives bytes from a place on, at
    /// most so many.
    pub(super) async fn give<R, F, E>(
        self,
        headers: &HeaderMap,
        read: R,
    ) -> Result<Response, Failed>
    where
        R: Fn(u64, usize) -> F + Send + 'static,
        F: Future<Output = Result<Vec<u8>, E>> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
        Failed: From<E>,
    {
        let tag = format!("\"{}\"", self.tag);
        let said = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let is_named = |list: &str| {
            list.split(',')
                .any(|one| matches!(one.trim(), "*") || one.trim().trim_start_matches("W/") == tag)
        };
        let mut response = Response::new(Body::empty());
        let out = response.headers_mut();
        insert(out, ETAG, &tag);
        out.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if said(IF_NONE_MATCH).is_some_and(is_named) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        let is_same = said(IF_RANGE).is_none_or(|known| known == tag);
        let asked = said(RANGE).filter(|_| is_same).map(|text| range(text, self.len));
        let (from, to) = match asked {
            None | Some(Asks::All) => (0, self.len),
            Some(Asks::Part(from, to)) => {
                let part = format!("bytes {from}-{}/{}", to - 1, self.len);
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
                insert(response.headers_mut(), CONTENT_RANGE, &part);
                (from, to)
            }
            Some(Asks::Nothing) => {
                let detail = format!("there are {} bytes", self.len);
                let mut refused = Failed::new(Code::RangeNotSatisfiable, detail).into_response();
                let range = format!("bytes */{}", self.len);
                insert(refused.headers_mut(), CONTENT_RANGE, &range);
                return Ok(refused);
            }
        };
        let out = response.headers_mut();
        insert(out, CONTENT_TYPE, self.kind);
        never_a_page(out);
        out.insert(CONTENT_LENGTH, (to - from).into());
        *response.body_mut() = pieces(from..to, read).await?;
        Ok(response)
    }
}

/// What somebody uploaded never runs as a page of ours, whatever it is said to be.
pub(super) fn never_a_page(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// Bytes that are read when they are sent; the first of them before anything is said, because they
/// may have been removed since they were found.
async fn pieces<R, F, E>(Range { start, end }: Range<u64>, read: R) -> Result<Body, E>
where
    R: Fn(u64, usize) -> F + Send + 'static,
    F: Future<Output = Result<Vec<u8>, E>> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let read = move |at: u64| read(at, (end - at).min(PIECE as u64) as usize);
    let first = read(start).await?;
    let rest = stream::try_unfold(start + first.len() as u64, move |at| {
        let reading = (at < end).then(|| read(at));
        async move {
            let Some(reading) = reading else { return Ok(None) };
            let piece = reading.await?;
            let next = at + piece.len() as u64;
            Ok::<_, E>(Some((piece, next)))
        }
    });
    Ok(Body::from_stream(stream::once(std::future::ready(Ok(first))).chain(rest)))
}

/// What a range header asks for.
#[derive(PartialEq, Eq, Debug)]
enum Asks {
    /// It is none that we understand, or several.
    All,
    /// From a byte up to another, which is not part of it.
    Part(u64, u64),
    Nothing,
}

fn range(text: &str, len: u64) -> Asks {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|of| of.split_once('-')) else {
        return Asks::All;
    };
    match (first.trim().parse::<u64>(), last.trim().parse::<u64>()) {
        _ if len == 0 => Asks::Nothing,
        (Ok(first), Ok(last)) if first > last => Asks::All,
        (Ok(first), Ok(last)) if first < len => Asks::Part(first, last.saturating_add(1).min(len)),
        (Ok(first), Err(_)) if last.is_empty() && first < len => Asks::Part(first, len),
        (Ok(_), Err(_)) if last.is_empty() => Asks::Nothing,
        (Ok(_), Ok(_)) => Asks::Nothing,
        (Err(_), Ok(0)) if first.is_empty() => Asks::Nothing,
        (Err(_), Ok(last)) if first.is_empty() => Asks::Part(len.saturating_sub(last), len),
        _ => Asks::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_meant() {
        for (text, asks) in [
            ("bytes=0-9", Asks::Part(0, 10)),
            ("bytes=90-", Asks::Part(90, 100)),
            ("bytes=90-200", Asks::Part(90, 100)),
            ("bytes=-30", Asks::Part(70, 100)),
            ("bytes=-300", Asks::Part(0, 100)),
            ("bytes=99-99", Asks::Part(99, 100)),
            ("bytes=100-", Asks::Nothing),
            ("bytes=100-200", Asks::Nothing),
            ("bytes=-0", Asks::Nothing),
            ("bytes=9-3", Asks::All),
            ("bytes=0-1,5-6", Asks::All),
            ("bytes=-", Asks::All),
            ("bytes=a-b", Asks::All),
            ("items=0-1", Asks::All),
        ] {
            assert_eq!(range(text, 100), asks, "{text}");
        }
    }
}
