//! Documents and their generations.
//!
//! Decides what a document is called by and which state it is in. A document has an id for life and
//! is found by (tenant, collection, source). Each new content is a generation of it.

use std::fmt;

use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

use super::bounds::{
    NAME_BYTES_MAX, PLACE_BYTES_MAX, SOURCE_BYTES_MAX, TITLE_BYTES_MAX, asked, name, text,
};
use super::error::CatalogError;

/// A SHA-256.
pub type Hash = [u8; 32];

/// A collection of one tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    pub tenant: String,
    pub collection: String,
}

impl Scope {
    /// The collection of that name.
    pub fn new(tenant: impl Into<String>, collection: impl Into<String>) -> Scope {
        Scope { tenant: tenant.into(), collection: collection.into() }
    }

    pub(super) fn check(&self) -> Result<(), CatalogError> {
        name("a tenant", &self.tenant, NAME_BYTES_MAX)?;
        name("a collection", &self.collection, NAME_BYTES_MAX)
    }
}

/// One content of a document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GenerationKey {
    pub document: Uuid,
    /// From 1.
    pub generation: u32,
}

impl fmt::Display for GenerationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {} of document {}", self.generation, self.document)
    }
}

/// What was read: its hash, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub hash: Hash,
    pub media_type: String,
    pub bytes: u64,
    /// Where the bytes are, in words that only the pipeline reads.
    pub place: String,
}

/// A document as somebody brings it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewDocument {
    /// The id that it gets if it is new.
    pub id: Uuid,
    pub scope: Scope,
    /// What it is found by again: a path, an address, an upload's name.
    pub source: String,
    /// What it is shown as.
    pub name: String,
    pub content: Content,
    /// Make a generation even of what has not changed.
    pub again: bool,
}

impl NewDocument {
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        self.scope.check()?;
        name("a source", &self.source, SOURCE_BYTES_MAX)?;
        name("a name", &self.name, TITLE_BYTES_MAX)?;
        name("a media type", &self.content.media_type, NAME_BYTES_MAX)?;
        text("a place", &self.content.place, PLACE_BYTES_MAX)
    }
}

/// What became of a document that was brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Added {
    /// It was not known. Its first generation is to be built.
    New(GenerationKey),
    /// It is known with other content. A new generation is to be built.
    Changed(GenerationKey),
    /// Its newest generation has this content already, whatever became of that.
    Unchanged(GenerationKey, GenerationState),
    /// It is being deleted, and can be brought again when that is done.
    Deleting(Uuid),
}

/// What a generation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GenerationState {
    Building,
    /// Search sees it.
    Live,
    /// To be removed everywhere.
    Old,
}

/// What a document is, by its mark and its newest generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DocumentState {
    /// Its first generation is being built.
    Building,
    /// Its newest generation is live.
    Live,
    /// One generation is live while a newer one is being built.
    Updating,
    /// Its newest generation cannot be built. An older one may be live.
    Failed,
    Deleting,
}

impl DocumentState {
    pub const ALL: [DocumentState; 5] = [
        DocumentState::Building,
        DocumentState::Live,
        DocumentState::Updating,
        DocumentState::Failed,
        DocumentState::Deleting,
    ];
}

/// Words of an enum, as a database has them.
macro_rules! words {
    ($($kind:ident: $($variant:ident = $word:literal),*;)*) => {$(
        impl $kind {
            /// The word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $($kind::$variant => $word),*
                }
            }

            /// What a word stands for.
            pub fn of_word(word: &str) -> Option<$kind> {
                match word {
                    $($word => Some($kind::$variant),)*
                    _ => None,
                }
            }

            pub(super) fn read(word: &str) -> Result<$kind, CatalogError> {
                let unknown = || format!("`{word}` in the catalog is no word of this program");
                $kind::of_word(word).ok_or_else(|| CatalogError::bad(unknown()))
            }
        }
    )*};
}

words! {
    GenerationState: Building = "building", Live = "live", Old = "old";
    DocumentState: Building = "building", Live = "live", Updating = "updating", Failed = "failed",
        Deleting = "deleting";
}

/// The state of a document that is not being deleted.
pub(super) fn state_of(live: Option<u32>, newest: u32, has_failed: bool) -> DocumentState {
    match live {
        Some(live) if live >= newest => DocumentState::Live,
        _ if has_failed => DocumentState::Failed,
        Some(_) => DocumentState::Updating,
        None => DocumentState::Building,
    }
}

/// What the newest generation and the mark say about a document that is brought.
pub(super) struct Known {
    pub(super) id: Uuid,
    pub(super) is_deleting: bool,
    /// The highest number that a generation ever had.
    pub(super) newest: u32,
    /// That generation, if it is still there.
    pub(super) hash: Option<Hash>,
    pub(super) state: Option<GenerationState>,
}

/// Decides what becomes of a document that is brought, and is known.
pub(super) fn decide(known: &Known, new: &NewDocument) -> Added {
    let at = |generation| GenerationKey { document: known.id, generation };
    if known.is_deleting {
        return Added::Deleting(known.id);
    }
    match (known.hash, known.state) {
        (Some(hash), Some(state)) if hash == new.content.hash && !new.again => {
            Added::Unchanged(at(known.newest), state)
        }
        _ => Added::Changed(at(known.newest + 1)),
    }
}

/// One content of a document, and how far it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Generation {
    pub number: u32,
    pub state: GenerationState,
    pub content: Content,
    /// How many pages it has, once somebody looked.
    pub pages: Option<u32>,
    /// Why it cannot be built.
    pub failure: Option<String>,
    pub added_at: Timestamp,
    pub published_at: Option<Timestamp>,
    /// The item that builds it, which may be past its keeping.
    pub item: Option<ItemId>,
}

/// A document with its newest generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    pub id: Uuid,
    pub scope: Scope,
    pub source: String,
    pub name: String,
    pub state: DocumentState,
    /// The generation that search sees.
    pub live: Option<u32>,
    /// None while it is being deleted and that generation is gone already.
    pub newest: Option<Generation>,
    pub added_at: Timestamp,
    pub changed_at: Timestamp,
}

impl Document {
    /// Where the page after this document begins.
    pub fn cursor(&self) -> DocumentCursor {
        DocumentCursor { added_at: self.added_at, id: self.id }
    }
}

/// Which documents are in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentFilter {
    pub tenant: String,
    pub collection: Option<String>,
    pub state: Option<DocumentState>,
    /// A part of its name, in any case.
    pub name: Option<String>,
}

impl DocumentFilter {
    /// Everything of a tenant.
    pub fn of(tenant: impl Into<String>) -> DocumentFilter {
        DocumentFilter { tenant: tenant.into(), collection: None, state: None, name: None }
    }
}

impl DocumentFilter {
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        let parts = [Some(&self.tenant), self.collection.as_ref(), self.name.as_ref()];
        asked(parts.into_iter().flatten().map(String::as_str))
    }
}

/// Documents of one state that are counted.
pub const DOCUMENTS_COUNTED_MAX: u32 = 100_000;

/// How many documents are in a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    pub state: DocumentState,
    /// At most [`DOCUMENTS_COUNTED_MAX`].
    pub documents: u32,
    /// Whether there are more than that.
    pub is_capped: bool,
}

impl Counted {
    /// What it means that so many were found, if one more than is counted was looked for.
    pub(super) fn of(state: DocumentState, found: u32) -> Counted {
        let documents = found.min(DOCUMENTS_COUNTED_MAX);
        Counted { state, documents, is_capped: found > documents }
    }
}

/// The last document of a page. Lists begin with what was added last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DocumentCursor {
    pub added_at: Timestamp,
    pub id: Uuid,
}

/// What became of a generation that was to go live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Published {
    /// It is live. These are old and can be removed everywhere.
    Live { old: Vec<u32> },
    /// A newer one is live already; this one is old.
    Superseded { live: u32 },
}

/// A generation that is to be removed everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldGeneration {
    pub at: GenerationKey,
    pub scope: Scope,
}

/// How far the deletion of a document is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deleted {
    /// Nothing of it is left.
    Gone,
    /// These have not confirmed that they removed it.
    Waiting { sinks: Vec<String> },
}

/// How far a generation is, as far as the catalog knows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// None until somebody looked how many there are.
    pub pages: Option<u32>,
    /// Pages that have Markdown.
    pub pages_read: u32,
    /// Pages of which it is known why they have none.
    pub pages_without: u32,
    /// Pages that are cut.
    pub pages_chunked: u32,
    pub chunks: u32,
    pub chunks_embedded: u32,
    pub chunks_linked: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_what_its_newest_generation_is() {
        let check = |live, newest, failed, want| assert_eq!(state_of(live, newest, failed), want);
        check(None, 1, false, DocumentState::Building);
        check(None, 1, true, DocumentState::Failed);
        check(Some(1), 1, false, DocumentState::Live);
        check(Some(1), 2, false, DocumentState::Updating);
        check(Some(1), 2, true, DocumentState::Failed);
        check(Some(2), 2, true, DocumentState::Live);
    }

    #[test]
    fn words_and_states_belong_together() {
        for state in DocumentState::ALL {
            assert_eq!(DocumentState::of_word(state.word()), Some(state));
        }
        for word in ["building", "live", "old"] {
            assert_eq!(GenerationState::of_word(word).map(GenerationState::word), Some(word));
        }
        assert!(GenerationState::read("fresh").is_err());
    }
}
