//! Pages: what was read from each, or why nothing was.

use std::fmt;

use uuid::Uuid;

use super::bounds::{MARKDOWN_BYTES_MAX, NAME_BYTES_MAX, REASON_BYTES_MAX, name, text};
use super::document::{GenerationKey, Hash};
use super::error::CatalogError;

/// A page of one generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    pub document: Uuid,
    pub generation: u32,
    /// From 1.
    pub number: u32,
}

impl PageKey {
    /// The generation that it is a page of.
    pub fn of(&self) -> GenerationKey {
        GenerationKey { document: self.document, generation: self.generation }
    }
}

impl fmt::Display for PageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {}", self.number, self.of())
    }
}

/// What came of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageOutcome {
    /// Nobody has read it yet.
    Waiting,
    Read {
        markdown: String,
        /// How it was read: `text_layer`, `ocr`, `vision` and the like.
        how: String,
        /// Of what it was read from, so that it is not read twice.
        hash: Hash,
    },
    /// It has no text, for this reason.
    Without { reason: String },
}

impl PageOutcome {
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        match self {
            PageOutcome::Waiting => Ok(()),
            PageOutcome::Read { markdown, how, .. } => {
                name("how a page was read", how, NAME_BYTES_MAX)?;
                text("the Markdown of a page", markdown, MARKDOWN_BYTES_MAX)
            }
            PageOutcome::Without { reason } => {
                name("the reason why a page has no text", reason, REASON_BYTES_MAX)
            }
        }
    }
}

/// A page with what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    pub key: PageKey,
    pub outcome: PageOutcome,
    /// How many chunks it was cut into; None until it is cut.
    pub chunks: Option<u32>,
}

/// What came of a page, without its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestLine {
    pub number: u32,
    pub outcome: ManifestOutcome,
    /// How many chunks it was cut into; None until it is cut.
    pub chunks: Option<u32>,
}

/// How far the chunks of a page are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageChunks {
    pub total: u32,
    pub embedded: u32,
    pub linked: u32,
}

/// A [`PageOutcome`] without the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ManifestOutcome {
    Waiting,
    Read { how: String, bytes: u64 },
    Without { reason: String },
}

/// A page as a row has it: the columns `state, how, markdown, hash, reason`.
pub(super) struct PageRow {
    pub(super) state: &'static str,
    pub(super) how: Option<String>,
    pub(super) markdown: Option<String>,
    pub(super) hash: Option<Vec<u8>>,
    pub(super) reason: Option<String>,
}

impl From<PageOutcome> for PageRow {
    fn from(outcome: PageOutcome) -> PageRow {
        let none =
            PageRow { state: "waiting", how: None, markdown: None, hash: None, reason: None };
        match outcome {
            PageOutcome::Waiting => none,
            PageOutcome::Read { markdown, how, hash } => PageRow {
                state: "read",
                how: Some(how),
                markdown: Some(markdown),
                hash: Some(hash.to_vec()),
                ..none
            },
            PageOutcome::Without { reason } => {
                PageRow { state: "without", reason: Some(reason), ..none }
            }
        }
    }
}

/// The reverse: what the columns of a row say.
pub(super) fn outcome_of(
    state: &str,
    how: Option<String>,
    markdown: Option<String>,
    hash: Option<Vec<u8>>,
    reason: Option<String>,
) -> Result<PageOutcome, CatalogError> {
    let outcome = match (state, how, markdown, hash, reason) {
        ("waiting", ..) => Some(PageOutcome::Waiting),
        ("read", Some(how), Some(markdown), Some(hash), _) => {
            let hash = hash.try_into().ok();
            hash.map(|hash| PageOutcome::Read { markdown, how, hash })
        }
        ("without", _, _, _, Some(reason)) => Some(PageOutcome::Without { reason }),
        _ => None,
    };
    outcome
        .ok_or_else(|| CatalogError::bad(format!("a page in the catalog is `{state}`, not whole")))
}

/// The same without the text.
pub(super) fn manifest_of(
    state: &str,
    how: Option<String>,
    bytes: Option<i64>,
    reason: Option<String>,
) -> Result<ManifestOutcome, CatalogError> {
    Ok(match (state, how, bytes, reason) {
        ("waiting", ..) => ManifestOutcome::Waiting,
        ("read", Some(how), Some(bytes), _) => {
            ManifestOutcome::Read { how, bytes: bytes.unsigned_abs() }
        }
        ("without", _, _, Some(reason)) => ManifestOutcome::Without { reason },
        _ => {
            let why = format!("a page in the catalog is `{state}`, not whole");
            return Err(CatalogError::Bad { why });
        }
    })
}
