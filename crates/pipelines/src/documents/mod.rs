//! Documents: files become pages, pages chunks, chunks vectors and a graph (seed 001).
//!
//! A document's item is split into its pages, and those into chunks (`route.rs` has the pictures);
//! `publish` is the last join, which makes the new generation live and removes the one before. Each
//! stage writes to the catalog what it made and then settles, so that a stage which is done twice
//! writes the same twice. Everything that can be chosen (who reads, embeds, extracts, and where it
//! is kept) is in [`Parts`]; what a page or chunk waits for is said with the file. Leaves out how
//! files come in: whoever has one calls [`add`].

mod add;
mod at_hand;
mod batch;
mod child;
mod cut;
pub mod elsewhere;
mod fault;
mod graph;
mod keeping;
mod leftovers;
mod pages;
mod phases;
mod publish;
mod read;
mod remove;
mod route;
mod stages;
mod vector;
mod work;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_core::item::{BlobRef, Body};
use windrow_core::settings::{Policy, Settings, StageSettings};

use crate::adapters::embed::Embedder;
use crate::adapters::extract::Extractor;
use crate::catalog::{GenerationKey, PageKey};
use crate::text::chunk::Limits;

pub use self::add::{Added, NewFile, NotAdded, add, resume};
pub use self::at_hand::AtHand;
pub use self::keeping::{Content, Keeping, Kept, Piece, Publication, Unkept};
pub use self::leftovers::{Leftovers, StillThere};
pub use self::read::{PageText, ReadError, Reader, TextFiles, media_type, said_type};
pub use self::remove::remove;
pub use self::route::{CHUNK_BITS, Gate};
pub use self::stages::{CHOICES, NotAStage, Stages};
pub use self::work::{Plan, Workers};

/// The queue of documents.
pub const QUEUE: &str = windrow_core::command::DOCUMENTS;

/// The kinds of its items.
pub const DOCUMENT: &str = "document";
pub const PAGE: &str = "page";
pub const CHUNK: &str = "chunk";

/// The stages of its items.
pub mod stage {
    pub const PAGES: &str = "pages";
    /// The three in which a document is split again whose pages and chunks wait for each other.
    pub const CUT: &str = "cut";
    pub const EMBED: &str = "embed";
    pub const LINK: &str = "link";
    pub const PUBLISH: &str = "publish";
    pub const OCR: &str = "ocr";
    pub const CHUNK: &str = "chunk";
    pub const VECTOR: &str = "vector";
    pub const GRAPH: &str = "graph";
}

/// How the queue of documents behaves, unless an operator says otherwise: retries come first, and
/// what a stage needs of others is left alone while it does not answer.
pub fn settings(parts: &Parts, plan: &Plan) -> Settings {
    let max_attempts = plan.max_attempts;
    let plain = Policy {
        retry_first: true,
        max_attempts,
        // As long as it takes, where it costs no attempt.
        deferrals_max: u16::MAX,
        ..Policy::default()
    };
    let of = |stage: &str, resource: Option<&str>| StageSettings {
        stage: stage.into(),
        policy: Policy {
            resource: resource.map(Into::into),
            lease_ms: plan.lease_ms,
            ..plain.clone()
        },
    };
    // A program of this machine that fails for one page holds up no other.
    let ocr = parts.reader.asks_others().then_some("documents.ocr");
    let stages = vec![
        of(stage::OCR, ocr),
        of(stage::VECTOR, Some("documents.embed")),
        of(stage::GRAPH, Some("documents.extract")),
    ];
    Settings { defaults: plain, stages, ..Settings::default() }
}

/// How long a page or a chunk is somebody's without a word of it; there are several in that time.
const LEASE_MS: u64 = 120_000;
/// How often a stage is tried, the first time included.
const MAX_ATTEMPTS: u16 = 3;

/// What the stages work with.
#[derive(Clone, Debug)]
pub struct Parts {
    pub keeping: Arc<dyn Keeping>,
    pub files: Arc<dyn Files>,
    pub reader: Arc<dyn Reader>,
    pub embedder: Arc<dyn Embedder>,
    /// Who says what chunks are about; nobody if nobody wants to know.
    pub extractor: Option<Arc<dyn Extractor>>,
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
}

/// Files that were taken in, wherever they are kept.
pub trait Files: std::fmt::Debug + Send + Sync {
    /// A copy of the file on this machine, which stays for as long as it is needed.
    fn open<'a>(&'a self, tenant: &'a str, file: BlobRef)
    -> BoxFuture<'a, Result<PathBuf, String>>;
}

/// What time it is.
pub trait Clock: std::fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;
}

/// What an item of a document or of a page says about itself, as its metadata.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
struct About {
    document: Uuid,
    generation: u32,
    /// As the views of the seed call it.
    #[serde(rename = "filename", alias = "name")]
    name: String,
    media_type: String,
    /// The file, by the hash of its content.
    #[serde(with = "hex")]
    file: [u8; 32],
    bytes: u64,
    /// Of a page its number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
}

impl About {
    fn generation(&self) -> GenerationKey {
        GenerationKey { document: self.document, generation: self.generation }
    }

    fn page(&self, number: u32) -> PageKey {
        PageKey { document: self.document, generation: self.generation, number }
    }

    fn file(&self) -> BlobRef {
        BlobRef { hash: self.file, len: self.bytes }
    }

    fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What the item of a document is to do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Task {
    Build(GenerationKey),
    Remove(Uuid),
}

impl Task {
    /// What an item of the queue of documents is to do, by its body. None for a page or chunk.
    pub fn of(body: &Body) -> Option<Task> {
        let about: About = serde_json::from_str(body.metadata.as_deref()?).ok()?;
        match (&*body.kind, &*body.op) {
            (DOCUMENT, remove::DELETE) => Some(Task::Remove(about.document)),
            (DOCUMENT, _) => Some(Task::Build(about.generation())),
            _ => None,
        }
    }
}

/// A hash in hexadecimal.
mod hex {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        let text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        super::bytes_of(&text).ok_or_else(|| D::Error::custom("it is no hash"))
    }
}

/// The bytes of a text in hexadecimal, if it has just so many.
fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_item_says_about_itself_is_read_as_it_was_written() {
        let about = About {
            document: Uuid::from_u128(7),
            generation: 2,
            name: "a \"b\".pdf".into(),
            media_type: "application/pdf".into(),
            file: [0xab; 32],
            bytes: 12,
            page: Some(3),
        };
        let text = about.text();
        assert!(text.contains(&"ab".repeat(32)), "{text}");
        assert_eq!(serde_json::from_str::<About>(&text).ok(), Some(about));
        assert_eq!(bytes_of::<2>("0aFf"), Some([10, 255]));
        for wrong in ["0a", "0aFg", "0aFfF", "ääaa"] {
            assert_eq!(bytes_of::<2>(wrong), None, "{wrong}");
        }
    }
}
