//! Blobs: payloads too large to travel with their item, uploaded in pieces and read in ranges.
//!
//! Nothing is held whole in memory: a body is taken in pieces that are durable before the next one
//! is read, and given out in pieces that are read when they are sent.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, patch, post, put};
use futures_util::StreamExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use windrow_core::command::NewItem;
use windrow_core::item::{BlobRef as CoreRef, Payload};
use windrow_core::limits::{BLOB_MAX, PAYLOAD_INLINE_MAX, RETRY_AFTER_MS};
use windrow_core::rules::enqueue::validate;
use windrow_core::{Refusal, Timestamp, text};
use windrow_engine::Clock as _;
use windrow_pipelines::documents::said_type;
use windrow_store::blobs::{BlobError, Blobs, NewUpload, PIECE, UploadId};
use windrow_wire::item::{BlobRef, sha256};
use windrow_wire::problem::{Code, Problem};

use super::bytes::{Whole, never_a_page};
use super::reply::{Asked, Done, Failed, Named, Read, item_id, lease_id};
use super::table::{BASE, Operation, Role};
use crate::auth::Scoped;
use crate::blobs::{NotKept, finish, keep};
use crate::store::Queue;

/// So much of a body is written at once.
const WRITTEN: usize = 4 * PIECE;
/// Where an upload stands.
const OFFSET: &str = "upload-offset";
const LENGTH: &str = "upload-length";

/// What can be asked of blobs.
pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    let tenant: &[_] = &[("tenant", "whose it is (also user_id); `default` if not said")];
    vec![
        of(
            Method::POST,
            "/blobs",
            Role::Producer,
            "Begin to upload a blob in pieces. The answer and its Location name the upload.",
            post(begin),
        )
        .needs::<Begin>()
        .gives::<Stands>(201),
        of(
            Method::GET,
            "/blobs/uploads/{upload}",
            Role::Producer,
            "Where an upload stands. HEAD says it in Upload-Offset.",
            get(stands),
        )
        .gives::<Stands>(200),
        of(
            Method::PATCH,
            "/blobs/uploads/{upload}",
            Role::Producer,
            "Go on with an upload from the byte that Upload-Offset names. What is answered for is \
             durable; with the last byte the blob is stored.",
            patch(go_on),
        )
        .heads(&[(OFFSET, "the byte at which the body begins, as the last answer said")])
        .gives::<Stands>(200),
        of(
            Method::DELETE,
            "/blobs/uploads/{upload}",
            Role::Producer,
            "Give an upload up.",
            delete(give_up),
        )
        .gives::<Done>(200),
        of(
            Method::PUT,
            "/blobs/{sha256}",
            Role::Producer,
            "Store a blob in one request.",
            put(store),
        )
        .asks(tenant)
        .gives::<BlobRef>(201),
        of(
            Method::GET,
            "/blobs/{sha256}",
            Role::Viewer,
            "The bytes of a blob, or a range of them.",
            get(show),
        )
        .asks(tenant)
        .gives_bytes(),
        of(
            Method::GET,
            "/leases/{lease}/items/{id}/payload",
            Role::Worker,
            "The payload of an item that a lease holds, wherever it is kept, or a range of it.",
            get(payload),
        )
        .gives_bytes(),
    ]
}

/// A blob that is going to be uploaded.
#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Begin {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
    /// In bytes; at most 64 MiB.
    #[schemars(range(min = 1, max = 67_108_864))]
    length: u64,
    /// What the bytes must hash to. Others are thrown away.
    sha256: Option<String>,
}

/// Where an upload stands.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Stands {
    upload: String,
    /// So many bytes are here, durably.
    offset: u64,
    length: u64,
    /// What to refer to, once all bytes are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_ref: Option<BlobRef>,
}

impl Stands {
    fn answer(self, status: StatusCode) -> Response {
        let (offset, length) = (self.offset, self.length);
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(OFFSET, offset.into());
        response.headers_mut().insert(LENGTH, length.into());
        response
    }
}

/// Whose blob is meant.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Whose {
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

fn tenant(said: Option<String>, scoped: &Scoped) -> Result<Arc<str>, Failed> {
    let tenant = said.map_or_else(|| scoped.tenant(), Into::into);
    text::name("tenant", &tenant, true)?;
    Ok(tenant)
}

impl From<BlobError> for Failed {
    fn from(error: BlobError) -> Failed {
        let code = match &error {
            BlobError::NotFound => return Failed::not_found("such upload or blob"),
            BlobError::WrongOffset { .. } | BlobError::Busy => Code::OffsetMismatch,
            BlobError::TooLong { .. } => Code::TooLarge,
            BlobError::Incomplete { .. } => Code::Malformed,
            BlobError::WrongHash { .. } => Code::HashMismatch,
            BlobError::Gone => Code::BlobMissing,
            BlobError::Full => {
                let problem = Problem::new(Code::StoreFull, error.to_string());
                return Failed(problem.retry_after(RETRY_AFTER_MS));
            }
            BlobError::Failed(_) => Code::StoreFailed,
        };
        Failed::new(code, error.to_string())
    }
}

impl From<NotKept> for Failed {
    fn from(why: NotKept) -> Failed {
        match why {
            NotKept::Blobs(error) => error.into(),
            NotKept::Queue(failure) => failure.into(),
        }
    }
}

fn check_length(length: u64) -> Result<(), Failed> {
    match length {
        0 => Err(Refusal::invalid("length", "is zero; an empty payload needs no blob").into()),
        1..=BLOB_MAX => Ok(()),
        _ => {
            let detail = format!("{length} bytes; a blob has at most {BLOB_MAX}");
            Err(Failed::new(Code::TooLarge, detail))
        }
    }
}

fn hash(text: &str) -> Result<[u8; 32], Failed> {
    let wrong = || Refusal::invalid("sha256", "is not 64 hexadecimal digits");
    sha256(text).ok_or_else(|| wrong().into())
}

async fn begin(scoped: Scoped, Read(new): Read<Begin>) -> Result<Response, Failed> {
    check_length(new.length)?;
    let hash = new.sha256.as_deref().map(hash).transpose()?;
    let tenant = tenant(new.tenant, &scoped)?;
    let upload = NewUpload { tenant: Arc::clone(&tenant), len: new.length, hash };
    let id = scoped.of(&tenant)?.store().begin(upload, scoped.clock().now()).await?;
    let stands =
        Stands { upload: id.to_string(), offset: 0, length: new.length, payload_ref: None };
    let mut response = stands.answer(StatusCode::CREATED);
    if let Ok(location) = HeaderValue::try_from(format!("{BASE}/blobs/uploads/{id}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

async fn stands(scoped: Scoped, Named(id): Named) -> Result<Response, Failed> {
    let upload = scoped.upload(id.parse()?).await?;
    let (offset, length) = (upload.offset, upload.new.len);
    Ok(Stands { upload: id, offset, length, payload_ref: None }.answer(StatusCode::OK))
}

async fn give_up(scoped: Scoped, Named(id): Named) -> Result<Json<Done>, Failed> {
    let upload = scoped.upload(id.parse()?).await?;
    scoped.of(&upload.new.tenant)?.store().abandon(id.parse()?).await?;
    Ok(Done::YES)
}

async fn go_on(scoped: Scoped, Named(name): Named, request: Request) -> Result<Response, Failed> {
    let id: UploadId = name.parse()?;
    let said = request.headers().get(OFFSET).and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(offset) = said else {
        let detail = "upload-offset: must be the byte at which the body begins";
        return Err(Failed::new(Code::Malformed, detail));
    };
    let upload = scoped.upload(id).await?;
    if offset != upload.offset {
        return Err(BlobError::WrongOffset { offset: upload.offset }.into());
    }
    let (length, tenant) = (upload.new.len, upload.new.tenant);
    let queue = scoped.of(&tenant)?;
    let offset = take_in(queue, id, offset, request.into_body()).await?;
    let mut payload_ref = None;
    if offset == length {
        payload_ref = Some(finish(queue, &tenant, id).await?.into());
    }
    Ok(Stands { upload: name, offset, length, payload_ref }.answer(StatusCode::OK))
}

/// Writes a body down piece by piece, and says where the upload stands then.
async fn take_in(queue: &Queue, id: UploadId, from: u64, body: Body) -> Result<u64, Failed> {
    let (mut offset, mut body) = (from, body.into_data_stream());
    let mut piece: Vec<u8> = Vec::new();
    loop {
        let some: Option<Result<Bytes, _>> = body.next().await;
        let is_last = some.is_none();
        if let Some(some) = some {
            // What came before the connection broke is kept.
            let some = some.map_err(|error| Failed::new(Code::Malformed, error.to_string()));
            match some {
                Ok(some) => piece.extend_from_slice(&some),
                Err(failed) => {
                    write(queue, id, offset, &piece).await?;
                    return Err(failed);
                }
            }
        }
        if is_last || piece.len() >= WRITTEN {
            offset = write(queue, id, offset, &piece).await?;
            piece.clear();
        }
        if is_last {
            return Ok(offset);
        }
    }
}

async fn write(queue: &Queue, id: UploadId, offset: u64, piece: &[u8]) -> Result<u64, Failed> {
    if piece.is_empty() {
        return Ok(offset);
    }
    Ok(queue.store().append(id, offset, piece, queue.clock().now()).await?)
}

async fn store(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    request: Request,
) -> Result<Response, Failed> {
    let (tenant, hash) = (tenant(whose.tenant, &scoped)?, hash(&name)?);
    let queue = scoped.of(&tenant)?;
    let length = request.headers().get(CONTENT_LENGTH);
    let Some(len) = length.and_then(|value| value.to_str().ok()?.parse().ok()) else {
        let detail = "content-length: must say how many bytes there are; or begin an upload";
        return Err(Failed::new(Code::Malformed, detail));
    };
    let stored = take_whole(queue, &tenant, len, Some(hash), request.into_body()).await?;
    Ok((StatusCode::CREATED, Json(BlobRef::from(stored))).into_response())
}

/// Stores a body of so many bytes as a blob.
pub(super) async fn take_whole(
    queue: &Queue,
    tenant: &Arc<str>,
    len: u64,
    hash: Option<[u8; 32]>,
    body: Body,
) -> Result<CoreRef, Failed> {
    check_length(len)?;
    let new = NewUpload { tenant: Arc::clone(tenant), len, hash };
    let id = queue.store().begin(new, queue.clock().now()).await?;
    let stored = async {
        take_in(queue, id, 0, body).await?;
        Ok::<_, Failed>(finish(queue, tenant, id).await?)
    };
    let stored = stored.await;
    if stored.is_err() {
        // Nobody knows its name, so nobody goes on with it. If it stays, it is found after a day.
        let _given_up = queue.store().abandon(id).await;
    }
    stored
}

async fn show(
    scoped: Scoped,
    Named(name): Named,
    Asked(whose): Asked<Whose>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let (tenant, hash) = (tenant(whose.tenant, &scoped)?, hash(&name)?);
    let queue = scoped.of(&tenant)?;
    let found = Blobs::find(queue.store(), &tenant, hash).await?;
    let found = found.ok_or_else(|| Failed::not_found("such blob"))?;
    give(queue, &tenant, found.blob, "application/octet-stream", &headers).await
}

async fn payload(
    scoped: Scoped,
    named: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    let Path((lease, id)) =
        named.map_err(|refused| Failed::new(Code::Malformed, refused.body_text()))?;
    let (lease, id) = (lease_id(&lease)?, item_id(&id)?);
    let seen = scoped.inspect(id).await?;
    let seen = seen.ok_or_else(|| Failed::not_found("such item"))?;
    if seen.item.lease() != Some(lease) {
        return Err(Refusal::LeaseLost { lease }.into());
    }
    let said = seen.body.content_type.as_deref().filter(|said| said_type(said).is_some());
    let kind = said.unwrap_or("application/octet-stream");
    match seen.body.payload {
        Payload::Blob(blob) => {
            let queue = scoped.of(&seen.body.tenant)?;
            give(queue, &seen.body.tenant, blob, kind, &headers).await
        }
        Payload::Inline(bytes) => {
            let kind = HeaderValue::try_from(kind);
            let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
            let mut response = ([(CONTENT_TYPE, kind)], bytes).into_response();
            never_a_page(response.headers_mut());
            Ok(response)
        }
    }
}

/// A blob, or the range of it that was asked for.
pub(super) async fn give(
    queue: &Arc<Queue>,
    tenant: &Arc<str>,
    blob: CoreRef,
    kind: &str,
    headers: &HeaderMap,
) -> Result<Response, Failed> {
    let (queue, tenant) = (Arc::clone(queue), Arc::clone(tenant));
    let tag = BlobRef::from(blob).sha256;
    let whole = Whole { len: blob.len, tag: &tag, kind };
    let read = move |at, len| {
        let (queue, tenant) = (Arc::clone(&queue), Arc::clone(&tenant));
        async move { queue.store().read(&tenant, blob, at, len).await }
    };
    whole.give(headers, read).await
}

/// Stores payloads that are too large to travel with their item, and lets the items refer to them.
/// What would be refused anyway is left as it is.
pub(super) async fn keep_apart(
    scoped: &Scoped,
    items: &mut [NewItem],
    now: Timestamp,
) -> Result<(), Failed> {
    for new in items {
        let Payload::Inline(bytes) = &mut new.body.payload else { continue };
        if bytes.len() <= PAYLOAD_INLINE_MAX {
            continue;
        }
        let bytes = std::mem::take(bytes);
        let blob = CoreRef { hash: Sha256::digest(&bytes).into(), len: bytes.len() as u64 };
        new.body.payload = Payload::Blob(blob);
        if validate(new, now).is_ok() {
            keep(scoped.of(&new.body.tenant)?, &new.body.tenant, &bytes).await?;
        }
    }
    Ok(())
}
