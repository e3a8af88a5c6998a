//! Sending a file: at once if it is small, in pieces if it is not.
//!
//! Pieces go into an upload that the server keeps. If an answer does not come, the server is asked
//! where the upload stands, and it goes on from there.

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windrow_store::blobs::Hex;
use windrow_wire::document::{Added, NewDocument};

use super::files::File;
use crate::cli::exit::{Exit, Stop};
use crate::cli::reach::{Ask, Target};

/// Bytes up to which a file goes in one request, and those of a piece of a larger one.
const WHOLE: u64 = 8 << 20;
const PIECE: u64 = 4 << 20;
/// How often an upload is gone on with after no answer came.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Where files go.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) collection: Option<String>,
    pub(super) tenant: Option<String>,
    pub(super) again: bool,
}

impl Way {
    /// Sends a file, and says what became of it.
    pub(super) async fn send(&self, target: &Target, file: &File) -> Result<Added, Stop> {
        if file.size <= WHOLE {
            self.whole(target, file).await
        } else {
            self.pieces(target, file).await
        }
    }

    async fn whole(&self, target: &Target, file: &File) -> Result<Added, Stop> {
        let bytes = fs::read(&file.path).map_err(unread)?;
        let ask = Ask::post(&["documents"])
            .with("name", Some(file.name()))
            .with("source", Some(&file.path))
            .with("collection", self.collection.as_ref())
            .with("tenant", self.tenant.as_ref())
            .with("again", self.again.then_some("true"));
        let ask = ask.of_type("application/octet-stream", bytes.into());
        // The same file twice is no work, unless work is wanted.
        target.read(if self.again { ask } else { ask.once() }).await
    }

    async fn pieces(&self, target: &Target, file: &File) -> Result<Added, Stop> {
        let sha256 = self.uploaded(target, file).await?;
        let new = NewDocument {
            name: file.name().to_owned(),
            sha256,
            source: Some(file.path.clone()),
            collection: self.collection.clone(),
            media_type: None,
            tenant: self.tenant.clone(),
            again: self.again,
        };
        let ask = Ask::post(&["documents"]).json(&new);
        let ask = ask.map_err(|error| Stop::new(Exit::Failed, error.to_string()))?;
        target.read(if self.again { ask } else { ask.once() }).await
    }

    /// Uploads a file; gives what its bytes hash to.
    async fn uploaded(&self, target: &Target, file: &File) -> Result<String, Stop> {
        let begin = json!({"length": file.size, "tenant": self.tenant});
        let begin = Ask::post(&["blobs"]).json(&begin);
        let begin = begin.map_err(|error| Stop::new(Exit::Failed, error.to_string()))?;
        let upload: Value = target.read(begin).await?;
        let upload = upload["upload"].as_str().unwrap_or_default();
        let mut open = fs::File::open(&file.path).map_err(unread)?;
        let (mut sum, mut offset) = (Sha256::new(), 0);
        while offset < file.size {
            let mut piece = Vec::new();
            open.by_ref()
                .take(PIECE.min(file.size - offset))
                .read_to_end(&mut piece)
                .map_err(unread)?;
            if piece.is_empty() {
                return Err(Stop::new(Exit::Failed, "it became shorter while it was read"));
            }
            sum.update(&piece);
            let piece = Bytes::from(piece);
            let ends = offset + piece.len() as u64;
            append(target, upload, offset, piece).await?;
            offset = ends;
        }
        Ok(Hex(&sum.finalize()).to_string())
    }
}

/// Sends a piece, and what is left of it if only a part of it came through.
async fn append(target: &Target, upload: &str, from: u64, piece: Bytes) -> Result<(), Stop> {
    let (mut sent, mut tries) = (0, TRIES);
    while sent < piece.len() {
        let rest = piece.slice(sent..);
        let ask = Ask::patch(&["blobs", "uploads", upload]).at(from + sent as u64);
        match target.ask(ask.of_type("application/octet-stream", rest)).await {
            Ok(_) => return Ok(()),
            // What was on its way when the connection broke may still be written, and moves the
            // place where the upload stands.
            Err(stop) if matches!(stop.exit, Exit::Unreachable | Exit::Failed) && tries > 0 => {
                tries -= 1;
                tokio::time::sleep(PAUSE).await;
                match stands(target, upload).await {
                    // With its last byte an upload is one no more.
                    Err(stop) if stop.exit == Exit::NotFound => return Ok(()),
                    stands => sent = stands?.saturating_sub(from) as usize,
                }
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// How many bytes of an upload the server has.
async fn stands(target: &Target, upload: &str) -> Result<u64, Stop> {
    let stands: Value = target.read(Ask::get(&["blobs", "uploads", upload])).await?;
    Ok(stands["offset"].as_u64().unwrap_or_default())
}

fn unread(error: std::io::Error) -> Stop {
    Stop::new(Exit::Failed, crate::sources::walk::said(&error))
}
