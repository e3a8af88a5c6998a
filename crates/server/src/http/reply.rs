//! Bodies in, answers and problems out.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use windrow_core::limits::RETRY_AFTER_MS;
use windrow_core::ports::StoreError;
use windrow_core::queue;
use windrow_core::{ItemId, LeaseId, Refusal, RequestId};
use windrow_engine::Failure;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::read::nearest;

use super::pulse::Late;
use crate::auth::Denied;

/// Largest body that is read. A command must fit one group of the log.
pub(super) const BODY_MAX: usize = 16 * 1024 * 1024;

const PROBLEM: &str = "application/problem+json";

/// Milliseconds in whole seconds, at least one.
fn seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000).max(1)
}

/// A number that may be asked for.
pub(super) fn within(field: &'static str, value: u64, most: u64) -> Result<u64, Refusal> {
    match value {
        1.. if value <= most => Ok(value),
        _ => Err(Refusal::invalid(field, format!("must lie between 1 and {most}"))),
    }
}

/// Something that was never given out as a cursor.
pub(super) fn no_cursor() -> Refusal {
    Refusal::invalid("cursor", "is none; take `next` of the page before")
}

/// A problem, as an answer.
#[derive(Debug)]
pub(crate) struct Failed(pub(super) Problem);

impl Failed {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Failed {
        Failed(Problem::new(code, detail))
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// What went wrong, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Failed {
        Failed::new(Code::Malformed, detail)
    }

    /// Nobody can be sent away to make room for another connection.
    pub(super) fn crowded() -> Failed {
        Failed::busy("there are as many connections as there may be, and all are being worked on")
    }

    /// There is no room for it at this moment.
    pub(super) fn busy(detail: &str) -> Failed {
        Failed(Problem::new(Code::Overloaded, detail).retry_after(1_000))
    }

    /// The server stops; another one, or the next one, will do it.
    pub(super) fn stopping(detail: &str) -> Failed {
        Failed(Problem::new(Code::Stopping, detail).retry_after(RETRY_AFTER_MS))
    }

    /// All bytes of an answer after which the connection is closed.
    pub(super) fn whole(&self) -> Vec<u8> {
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::BAD_REQUEST);
        let reason = status.canonical_reason().unwrap_or_default();
        let after = self.0.retry_after_ms.map(|ms| format!("retry-after: {}\r\n", seconds(ms)));
        let mut bytes = format!(
            "HTTP/1.1 {} {reason}\r\ncontent-type: {PROBLEM}\r\ncontent-length: {}\r\n{}\
             connection: close\r\n\r\n",
            status.as_u16(),
            body.len(),
            after.unwrap_or_default()
        )
        .into_bytes();
        bytes.extend(body);
        bytes
    }

    pub(super) fn not_found(what: &str) -> Failed {
        Failed::new(Code::NotFound, format!("there is no {what}, or it is not yours"))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let mut response =
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), axum::Json(&self.0))
                .into_response();
        response.extensions_mut().insert(self.0.code);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
        if let Some(ms) = self.0.retry_after_ms {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(ms)));
        }
        if self.0.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self.0.code);
        response
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed(Problem::from(&refusal))
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed(Problem::from(&error))
    }
}

impl From<queue::Error> for Failed {
    fn from(error: queue::Error) -> Failed {
        let said = error.to_string();
        match error {
            queue::Error::Refused(refused) => {
                let code = Code::ALL.iter().find(|code| *code.name() == *refused.code);
                let code = code.copied().unwrap_or(Code::Internal);
                let retry_after_ms = refused.retry_after_ms;
                Failed(Problem { retry_after_ms, ..Problem::new(code, refused.message) })
            }
            queue::Error::NotApplied(_) => {
                Failed(Problem::new(Code::StoreFailed, said).retry_after(RETRY_AFTER_MS))
            }
            queue::Error::OutcomeUnknown(_) => {
                Failed(Problem::new(Code::OutcomeUnknown, said).retry_after(RETRY_AFTER_MS))
            }
            queue::Error::Overloaded { retry_after_ms } => {
                Failed(Problem::new(Code::Overloaded, said).retry_after(retry_after_ms))
            }
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        match failure {
            Failure::Refused(refusal) => refusal.into(),
            Failure::Store(error) => error.into(),
            Failure::Overloaded { retry_after_ms } => {
                let problem = Problem::new(Code::Overloaded, failure.to_string());
                Failed(problem.retry_after(retry_after_ms))
            }
        }
    }
}

impl From<Denied> for Failed {
    fn from(denied: Denied) -> Failed {
        match denied {
            Denied::NoToken => Failed::new(Code::Unauthorized, Denied::NO_TOKEN),
            Denied::WrongToken => Failed::new(Code::Unauthorized, Denied::WRONG_TOKEN),
            Denied::Forbidden(why) => Failed::new(Code::Forbidden, why),
            Denied::Stopping => Failed::stopping(Denied::STOPPING),
            Denied::Failed(failure) => failure.into(),
        }
    }
}

/// The body of a request, whole.
pub(super) async fn whole<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Failed> {
    let too_large = || {
        let said = format!(
            "a body may have {BODY_MAX} bytes; send items in slices, and a large payload as a blob \
             (PUT /blobs/{{sha256}}; put_blob of the Python client)"
        );
        Failed::new(Code::TooLarge, said)
    };
    // What says so itself need not come first.
    let said = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said.and_then(|said| said.parse::<u64>().ok()).is_some_and(|len| len > BODY_MAX as u64) {
        return Err(too_large());
    }
    Bytes::from_request(request, state).await.map_err(|refused| match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ if is_late(&refused) => Failed::new(Code::Timeout, Late.to_string()),
        _ => Failed::malformed(refused.body_text()),
    })
}

fn is_late(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<Late>() || error.source().is_some_and(is_late)
}

/// JSON of a known shape. A body that is empty is read as `{}`.
pub(super) struct Read<T>(pub(super) T);

impl<T: DeserializeOwned + JsonSchema, S: Send + Sync> FromRequest<S> for Read<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Read<T>, Failed> {
        must_be_json(request.headers())?;
        let bytes = whole(request, state).await?;
        read(if bytes.is_empty() { b"{}" } else { &bytes }).map(Read)
    }
}

/// What a body is said to be, without parameters: in UTF-8, and as it is.
fn content_type(headers: &HeaderMap) -> Result<Option<String>, Failed> {
    let refused = |detail: String| Err(Failed::new(Code::UnsupportedType, detail));
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return refused("content-encoding: bodies are not unpacked; send it as it is".into());
    }
    let mut said = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (said.next(), said.next()) else {
        return match headers.contains_key(CONTENT_TYPE) {
            true => refused("content-type is there twice".into()),
            false => Ok(None),
        };
    };
    let mut parts = first.to_str().unwrap_or("?").split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let is_utf8 = value.trim_matches('"').eq_ignore_ascii_case("utf-8");
        if name.trim().eq_ignore_ascii_case("charset") && !is_utf8 {
            return refused("the charset is another one; JSON is read as utf-8".into());
        }
    }
    Ok(Some(kind))
}

pub(super) fn must_be_json(headers: &HeaderMap) -> Result<(), Failed> {
    match content_type(headers)?.as_deref() {
        None | Some("application/json") => Ok(()),
        Some(_) => Err(Failed::new(Code::UnsupportedType, "send application/json")),
    }
}

/// Whether a body is JSON in lines; if not, it is plain JSON.
pub(super) fn is_lines(headers: &HeaderMap) -> Result<bool, Failed> {
    match content_type(headers)?.as_deref() {
        None | Some("application/json") => Ok(false),
        Some("application/x-ndjson" | "application/jsonl") => Ok(true),
        Some(_) => {
            let detail = "send application/json, or application/x-ndjson, which is for lines";
            Err(Failed::new(Code::UnsupportedType, detail))
        }
    }
}

/// JSON of a known shape, which is an object.
pub(super) fn read<T: DeserializeOwned + JsonSchema>(bytes: &[u8]) -> Result<T, Failed> {
    windrow_wire::read::object(bytes).map_err(Failed::malformed)
}

/// What stands after the question mark.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked<T>, Failed> {
        let asked = Query::from_request_parts(parts, state).await;
        let asked = asked.map(|Query(asked)| Asked(asked));
        asked.map_err(|refused| Failed::new(Code::Malformed, about_query(&refused.body_text())))
    }
}

/// What is said about parameters: of one that does not exist, with the one that was probably meant;
/// of a value, only what was expected. Names stand between backticks, the unknown one first.
fn about_query(said: &str) -> String {
    let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(said);
    let mut names = said.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| said.contains("unknown field"));
    if let Some(near) = unknown.and_then(|unknown| nearest(unknown, names)) {
        return format!("{said}; `{near}` is meant, perhaps");
    }
    match (said.split_once(": unknown variant `"), said.rfind(", expected ")) {
        (Some((name, _)), Some(at)) => format!("{name}: unknown{}", &said[at..]),
        _ => said.to_owned(),
    }
}

/// A name or an id in the path.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Failed> {
        let name = Path::from_request_parts(parts, state).await.map(|Path(name)| Named(name));
        name.map_err(|refused| Failed::new(Code::Malformed, refused.body_text()))
    }
}

/// The id of an item in a path.
pub(super) fn item_id(text: &str) -> Result<ItemId, Failed> {
    text.parse().map_err(|_| Failed::new(Code::NotFound, "that is not an item's id"))
}

pub(super) fn lease_id(text: &str) -> Result<LeaseId, Failed> {
    text.parse().map_err(|_| Failed::new(Code::NotFound, "that is not a lease's id"))
}

/// The id by which a request may be repeated: `Idempotency-Key`, a UUID or any other text.
pub(super) fn request_id(headers: &HeaderMap) -> Result<Option<RequestId>, Failed> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(value) = keys.next() else { return Ok(None) };
    if keys.next().is_some() {
        return Err(Failed::malformed("idempotency-key is there twice"));
    }
    let is_printable = |text: &&str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let text = value.to_str().ok().filter(is_printable);
    let text = text.filter(|text| (1..=255).contains(&text.len()));
    let Some(text) = text else {
        let detail = "idempotency-key: must be 1 to 255 printable characters";
        return Err(Failed::new(Code::Malformed, detail));
    };
    Ok(Some(text.parse().unwrap_or_else(|_| {
        let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let half: [u8; 16] = std::array::from_fn(|at| hash[at]);
        RequestId(u128::from_be_bytes(half))
    })))
}

/// Nothing more to say.
#[derive(serde::Serialize, JsonSchema, Debug)]
pub(super) struct Done {
    pub(super) done: bool,
    /// Something that may be a slip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

impl Done {
    pub(super) const YES: axum::Json<Done> = axum::Json(Done { done: true, note: None });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_was_probably_meant_is_named() {
        let near =
            |name: &str| about_query(&format!("unknown field `{name}`, expected `status` or `q`"));
        assert!(near("stauts").ends_with("`status` is meant, perhaps"), "{}", near("stauts"));
        assert!(!near("x").contains("mean") && !near("colour").contains("mean"));
        let wrong =
            "Failed to deserialize query string: mode: unknown variant `secret`, expected `a`";
        assert_eq!(about_query(wrong), "mode: unknown, expected `a`");
    }

    #[test]
    fn a_request_id_is_a_uuid_or_made_from_any_text() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_static(text));
            request_id(&headers).ok().flatten()
        };
        let uuid = "01a1e54e-ab99-70c0-8368-704973772be1";
        assert_eq!(of(uuid), uuid.parse().ok());
        assert!(of("order 7").is_some() && of("order 7") == of("order 7"));
        assert_ne!(of("order 7"), of("order 8"));
        assert_eq!(of(""), None);
        assert_eq!(request_id(&HeaderMap::new()).ok().flatten(), None);
    }
}
