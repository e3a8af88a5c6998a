//! Files that pages need: one stylesheet, one script, one picture, all ours.

use std::sync::LazyLock;

use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};
use windrow_wire::problem::Code;

use crate::http::{Failed, Named};

const FILES: [(&str, &str, &str); 3] = [
    ("console.css", "text/css; charset=utf-8", include_str!("assets/console.css")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("assets/console.js")),
    ("mark.svg", "image/svg+xml", include_str!("assets/mark.svg")),
];

/// What of a file's hash stands in its address, so that a browser asks again when it changed.
static MARKS: LazyLock<[String; FILES.len()]> = LazyLock::new(|| {
    FILES.map(|(_, _, text)| {
        let hash = Sha256::digest(text.as_bytes());
        hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    })
});

/// The way to a file.
pub(super) fn way(name: &str) -> String {
    let at = FILES.iter().position(|(file, _, _)| *file == name);
    let mark = at.map_or("", |at| MARKS[at].as_str());
    format!("assets/{name}?v={mark}")
}

pub(super) async fn file(Named(name): Named) -> Result<Response, Failed> {
    let found = FILES.iter().find(|(file, _, _)| *file == name);
    let (_, kind, text) =
        found.ok_or_else(|| Failed::new(Code::NotFound, "there is no such file"))?;
    let headers = [
        (CONTENT_TYPE, *kind),
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
    ];
    Ok((headers, *text).into_response())
}
