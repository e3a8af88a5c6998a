//! Backups: whoever makes one begins it, reads the files it lacks, and ends it.
//!
//! The server writes nothing anywhere: it gives out its files as they were at one moment. For
//! admins of all tenants, because everything is in them.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::{delete, get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windrow_core::RequestId;
use windrow_store::blobs::Hex;
use windrow_store::embedded::backup::Held;
use windrow_wire::problem::{Code, Problem};
use windrow_wire::time::Time;

use super::App;
use super::bytes::Whole;
use super::reply::{Asked, Done, Failed, Named, within};
use super::table::{Operation, Role};
use crate::auth::Scoped;
use crate::backups::{IDLE, NotBegun};

/// Files on a page.
const PAGE: usize = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    let of = Operation::new;
    vec![
        of(
            Method::POST,
            "/backups",
            Role::Admin,
            "Begin a backup: hold the store's files as they are now, and a copy of the catalog of \
             documents. Everything that was answered before is in them.",
            post(begin),
        )
        .gives::<Begun>(201),
        of(
            Method::GET,
            "/backups/{backup}/files",
            Role::Admin,
            "The files of a backup, by name, page by page.",
            get(list),
        )
        .asks(&[
            ("after", "the last name of the page before"),
            ("limit", "how many; 1000, which is the most"),
        ])
        .gives::<Files>(200),
        of(
            Method::GET,
            "/backups/{backup}/files/{file}",
            Role::Admin,
            "The bytes of a file of a backup, or a range of them.",
            get(read),
        )
        .gives_bytes(),
        of(
            Method::DELETE,
            "/backups/{backup}",
            Role::Admin,
            "End a backup. One that nobody asks for ends by itself after a minute.",
            delete(end),
        )
        .gives::<Done>(200),
    ]
}

/// A backup that was begun.
#[derive(Serialize, Deserialize, JsonSchema, Debug)]
pub(crate) struct Begun {
    pub(crate) backup: String,
    /// Identifies the store, in hexadecimal digits.
    pub(crate) store: String,
    /// The moment whose files these are.
    pub(crate) at: Time,
    /// The number of the first group of the log that is not in them.
    pub(crate) sequence: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// It is let go when nobody asks for it for so long.
    pub(crate) idle_ms: u64,
}

/// A page of the files of a backup.
#[derive(Serialize, Deserialize, JsonSchema, Debug)]
pub(crate) struct Files {
    pub(crate) files: Vec<File>,
    /// The last name, if there are more.
    pub(crate) next: Option<String>,
}

/// A file of a backup.
#[derive(Serialize, Deserialize, JsonSchema, Debug)]
pub(crate) struct File {
    pub(crate) name: String,
    /// What there is to read of it.
    pub(crate) bytes: u64,
    /// How long it is in the store. What lies behind may be zeros.
    pub(crate) size: u64,
}

impl From<NotBegun> for Failed {
    fn from(why: NotBegun) -> Failed {
        let detail = why.to_string();
        match why {
            NotBegun::Database => Failed::new(Code::Invalid, detail),
            NotBegun::TooMany => Failed(Problem::new(Code::Overloaded, detail).retry_after(1_000)),
            NotBegun::Disk(_) => Failed::new(Code::StoreFailed, detail),
        }
    }
}

/// A file that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("a file of the backup could not be read: {0}")]
struct Unread(io::Error);

impl From<Unread> for Failed {
    fn from(why: Unread) -> Failed {
        Failed::new(Code::StoreFailed, why.to_string())
    }
}

fn held(app: &App, backup: &str) -> Result<(RequestId, Arc<Held>), Failed> {
    let unknown = || Failed::not_found("such backup; one that nobody asks for ends after a minute");
    let id: RequestId = backup.parse().map_err(|_| unknown())?;
    Ok((id, app.backups.get(id).ok_or_else(unknown)?))
}

async fn begin(
    State(app): State<Arc<App>>,
    scoped: Scoped,
) -> Result<(StatusCode, Json<Begun>), Failed> {
    let store = scoped.whole()?.store();
    let (id, held) = app.backups.begin(store, &app.documents).await?;
    let (files, bytes) = held.size();
    let begun = Begun {
        backup: id.to_string(),
        store: Hex(&held.store().0).to_string(),
        at: Time(held.at()),
        sequence: held.end().sequence,
        files,
        bytes,
        idle_ms: IDLE.as_millis() as u64,
    };
    Ok((StatusCode::CREATED, Json(begun)))
}

/// Which files are asked for.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Which {
    after: Option<String>,
    limit: Option<u64>,
}

async fn list(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(backup): Named,
    Asked(which): Asked<Which>,
) -> Result<Json<Files>, Failed> {
    scoped.whole()?;
    let limit = within("limit", which.limit.unwrap_or(PAGE as u64), PAGE as u64)? as usize;
    let (_, held) = held(&app, &backup)?;
    let after = which.after.unwrap_or_default();
    let some = held.files(&after).take(limit + 1);
    let mut files: Vec<File> =
        some.map(|(name, bytes, size)| File { name: name.to_owned(), bytes, size }).collect();
    let more = files.len() > limit;
    files.truncate(limit);
    let next = files.last().filter(|_| more).map(|file| file.name.clone());
    Ok(Json(Files { files, next }))
}

async fn read(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    named: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Failed> {
    scoped.whole()?;
    let Path((backup, file)) =
        named.map_err(|refused| Failed::new(Code::Malformed, refused.body_text()))?;
    let (_, held) = held(&app, &backup)?;
    let len = held.len(&file).ok_or_else(|| Failed::not_found("such file in this backup"))?;
    let whole = Whole { len, tag: &backup, kind: "application/octet-stream" };
    let read = move |at, len| {
        let (held, file) = (Arc::clone(&held), file.clone());
        async move {
            let read = tokio::task::spawn_blocking(move || held.read(&file, at, len)).await;
            let read = read.map_err(io::Error::other).and_then(|read| read).map_err(Unread)?;
            read.ok_or_else(|| Unread(io::ErrorKind::NotFound.into()))
        }
    };
    whole.give(&headers, read).await
}

async fn end(
    State(app): State<Arc<App>>,
    scoped: Scoped,
    Named(backup): Named,
) -> Result<Json<Done>, Failed> {
    scoped.whole()?;
    let (id, _) = held(&app, &backup)?;
    app.backups.end(id);
    Ok(Done::YES)
}
