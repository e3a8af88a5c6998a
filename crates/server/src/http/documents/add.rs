//! Adding: a file comes in one of three ways and becomes a document.
//!
//! As the body of the request it is written down piece by piece, as a blob is. A form is small
//! enough to be held, and only a few are at once. Whatever is large, or comes over a bad line, is
//! uploaded as a blob in pieces before, and named here.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use multer::{Constraints, Multipart, SizeLimit};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use windrow_core::Refusal;
use windrow_core::item::BlobRef;
use windrow_core::limits::BLOB_MAX;
use windrow_pipelines::catalog::Scope;
use windrow_pipelines::documents::{self, Gate, NewFile, media_type, said_type};
use windrow_store::blobs::Blobs as _;
use windrow_wire::document::{Added, AddedOutcome, NewDocument};
use windrow_wire::item::sha256;
use windrow_wire::problem::Code;

use super::super::App;
use super::super::blobs::take_whole;
use super::super::reply::{Asked, Failed, read, whole};
use super::{TENANT, is_yes, tenant};
use crate::auth::Scoped;
use crate::blobs::{keep, known};

/// The collection of what is added without naming one.
const COLLECTION: &str = "default";

/// Forms that are held at once, and how large the texts in one may be.
static FORMS: Semaphore = Semaphore::const_new(4);
const FIELD_MAX: u64 = 16 * 1024;

pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("name", "what the body is called; its ending says what it is. Needed if the body is the file"),
    ("source", "what it is found by again; its name if left out"),
    ("collection", "the collection it belongs to; `default` if left out"),
    ("again", "true to do it again though it has not changed"),
    TENANT,
];

/// A form.
#[derive(JsonSchema, Debug)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "it is described, and read part by part")]
pub(in super::super) struct Form {
    /// The file, with its name.
    #[schemars(extend("format" = "binary"))]
    file: String,
    name: Option<String>,
    source: Option<String>,
    collection: Option<String>,
    media_type: Option<String>,
    tenant: Option<String>,
    again: Option<bool>,
}

/// The file itself.
#[derive(JsonSchema, Debug)]
#[schemars(extend("format" = "binary"))]
#[expect(dead_code, reason = "it is described, and taken as it comes")]
pub(in super::super) struct Bytes(String);

/// What stands after the question mark.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    name: Option<String>,
    source: Option<String>,
    collection: Option<String>,
    media_type: Option<String>,
    again: Option<String>,
    #[serde(alias = "user_id")]
    tenant: Option<String>,
}

impl About {
    /// What is empty is as if it was not given, as forms send it.
    fn forget_empty(&mut self) {
        let About { name, source, collection, media_type, again, tenant } = self;
        for said in [name, source, collection, media_type, again, tenant] {
            *said = said.take().filter(|said| !said.is_empty());
        }
    }
}

pub(super) async fn add(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Asked(mut about): Asked<About>,
    request: Request,
) -> Result<Response, Failed> {
    is_yes("again", about.again.as_deref())?;
    about.forget_empty();
    let kind = kind_of(request.headers())?;
    let (about, file) = match kind.as_str() {
        "application/json" => stored(&scoped, about, request).await?,
        "multipart/form-data" => form(&scoped, about, request).await?,
        _ => body(&scoped, about, &kind, request).await?,
    };
    let new = new_file(&scoped, about, file)?;
    let added = app.documents.add(new).await?;
    let (status, added) = shown(added)?;
    Ok((status, Json(added)).into_response())
}

/// What a body is said to be, without its parameters.
fn kind_of(headers: &HeaderMap) -> Result<String, Failed> {
    let said = headers.get(CONTENT_TYPE).map(|said| said.to_str());
    let Some(Ok(said)) = said else {
        let detail = "content-type: say what the body is: the type of the file, \
                      multipart/form-data, or application/json for a blob";
        return Err(Failed::new(Code::UnsupportedType, detail));
    };
    let kind = said.split(';').next().unwrap_or_default();
    Ok(kind.trim().to_ascii_lowercase())
}

/// A file that was uploaded before.
async fn stored(
    scoped: &Scoped,
    about: About,
    request: Request,
) -> Result<(About, BlobRef), Failed> {
    let new: NewDocument = read(&whole(request, &()).await?)?;
    let about = About {
        name: Some(new.name),
        source: new.source.or(about.source),
        collection: new.collection.or(about.collection),
        media_type: new.media_type.or(about.media_type),
        again: if new.again { Some("true".to_owned()) } else { about.again },
        tenant: new.tenant.or(about.tenant),
    };
    let wrong = || Refusal::invalid("sha256", "is not 64 hexadecimal digits");
    let hash = sha256(&new.sha256).ok_or_else(wrong)?;
    let tenant = tenant(about.tenant.as_deref(), scoped)?;
    let queue = scoped.of(&tenant)?;
    let found = queue.store().find(&tenant, hash).await?;
    let Some(found) = found else {
        let detail = "there is no such blob; upload the file first (POST /blobs)";
        return Err(Failed::new(Code::BlobMissing, detail));
    };
    known(queue, &tenant, found.blob).await?;
    Ok((about, found.blob))
}

/// The file is the body.
async fn body(
    scoped: &Scoped,
    about: About,
    kind: &str,
    request: Request,
) -> Result<(About, BlobRef), Failed> {
    if about.name.is_none() {
        return Err(Refusal::invalid("name", "is missing; add ?name= with the file's name").into());
    }
    let length = request.headers().get(CONTENT_LENGTH);
    let Some(len) = length.and_then(|value| value.to_str().ok()?.parse().ok()) else {
        let detail = "content-length: must say how many bytes there are; or upload it as a blob";
        return Err(Failed::malformed(detail));
    };
    let tenant = tenant(about.tenant.as_deref(), scoped)?;
    let blob = take_whole(scoped.of(&tenant)?, &tenant, len, None, request.into_body()).await?;
    let said = (kind != "application/octet-stream").then(|| kind.to_owned());
    Ok((About { media_type: about.media_type.or(said), ..about }, blob))
}

/// The file is a part of a form.
async fn form(
    scoped: &Scoped,
    mut about: About,
    request: Request,
) -> Result<(About, BlobRef), Failed> {
    let unread = |error: multer::Error| match error {
        multer::Error::FieldSizeExceeded { .. } | multer::Error::StreamSizeExceeded { .. } => {
            let detail = format!("a file in a form may have {BLOB_MAX} bytes");
            Failed::new(Code::TooLarge, detail)
        }
        error => Failed::malformed(format!("the form cannot be read: {error}")),
    };
    let said = request.headers().get(CONTENT_TYPE).and_then(|said| said.to_str().ok());
    let boundary = multer::parse_boundary(said.unwrap_or_default()).map_err(unread)?;
    // Whoever sends slowly holds nobody up but those who send forms.
    let busy = |_| {
        let detail = "as many forms as can be held are being read just now; try again, or send the \
                      file as the body with ?name=, which is not held";
        Failed::busy(detail)
    };
    let _held = FORMS.try_acquire().map_err(busy)?;
    let limits = SizeLimit::new().for_field("file", BLOB_MAX).per_field(FIELD_MAX);
    let constraints = Constraints::new().size_limit(limits.whole_stream(BLOB_MAX + (1 << 20)));
    let stream = request.into_body().into_data_stream();
    let mut parts = Multipart::with_constraints(stream, boundary, constraints);
    let mut file = None;
    while let Some(part) = parts.next_field().await.map_err(unread)? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "file" {
            about.name = about.name.or_else(|| part.file_name().map(str::to_owned));
            let kind = part.content_type().map(ToString::to_string);
            let kind = kind.filter(|kind| kind != "application/octet-stream");
            about.media_type = about.media_type.or(kind);
            file = Some(part.bytes().await.map_err(unread)?);
            continue;
        }
        let text = part.text().await.map_err(unread)?;
        match name.as_str() {
            "name" => about.name = Some(text),
            "source" => about.source = Some(text),
            "collection" => about.collection = Some(text),
            "media_type" => about.media_type = Some(text),
            "tenant" | "user_id" => about.tenant = Some(text),
            "again" => about.again = Some(text),
            _ => {
                let known = "file, name, source, collection, media_type, tenant and again";
                return Err(
                    Refusal::invalid("form", format!("has other parts than {known}")).into()
                );
            }
        }
    }
    about.forget_empty();
    let missing = || Refusal::invalid("file", "is missing; send it with -F file=@NAME");
    let file = file.ok_or_else(missing)?;
    if file.is_empty() {
        return Err(Refusal::invalid("file", "is empty").into());
    }
    let tenant = tenant(about.tenant.as_deref(), scoped)?;
    Ok((about, keep(scoped.of(&tenant)?, &tenant, &file).await?))
}

fn new_file(scoped: &Scoped, about: About, file: BlobRef) -> Result<NewFile, Failed> {
    let missing = || Refusal::invalid("name", "is missing");
    let name = about.name.filter(|name| !name.trim().is_empty()).ok_or_else(missing)?;
    let tenant = tenant(about.tenant.as_deref(), scoped)?;
    let is_none = || Refusal::invalid("media_type", "is no media type, such as application/pdf");
    let media_type = match about.media_type {
        Some(said) => said_type(&said).ok_or_else(is_none)?,
        None => media_type(&name).to_owned(),
    };
    Ok(NewFile {
        scope: Scope::new(&*tenant, about.collection.unwrap_or_else(|| COLLECTION.to_owned())),
        source: about.source.unwrap_or_else(|| name.clone()),
        name,
        media_type,
        file,
        again: is_yes("again", about.again.as_deref())?,
        gate: Gate::default(),
    })
}

/// What became of a file, as it is told.
pub(super) fn shown(added: documents::Added) -> Result<(StatusCode, Added), Failed> {
    use documents::Added as Is;
    let (at, outcome, item) = match added {
        Is::Enqueued { at, item, is_new } => {
            let outcome = if is_new { AddedOutcome::Created } else { AddedOutcome::Changed };
            (at, outcome, Some(item.to_string()))
        }
        Is::Unchanged { at } => (at, AddedOutcome::Unchanged, None),
        Is::Deleting { document } => {
            let detail = format!("document {document} is being deleted; add it when it is gone");
            return Err(Failed::new(Code::StillLive, detail));
        }
    };
    let status = match outcome {
        AddedOutcome::Unchanged => StatusCode::OK,
        AddedOutcome::Created | AddedOutcome::Changed => StatusCode::CREATED,
    };
    let (id, generation) = (at.document.to_string(), at.generation);
    Ok((status, Added { id, outcome, generation, item }))
}
