//! Documents: what is added, and what is known of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A document whose file was uploaded before, as a blob.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewDocument {
    /// What it is called; its ending says what it is, if `media_type` does not.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,
    /// The file: the hash of an uploaded blob (`POST /blobs`, `PUT /blobs/{sha256}`).
    pub sha256: String,
    /// What it is found by again: what is added from the same place is a new version of it. Its
    /// name, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub collection: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub media_type: Option<String>,
    #[serde(default, alias = "user_id", skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Do it again though it has not changed.
    #[serde(default)]
    pub again: bool,
}

/// What became of a document that was added.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Added {
    pub id: String,
    pub outcome: AddedOutcome,
    pub generation: u32,
    /// The item that does it, if there is something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
}

/// See [`Added`].
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum AddedOutcome {
    /// It was not known.
    Created,
    /// It is a new version of one that is known.
    Changed,
    /// It is known like this, or being worked on.
    Unchanged,
}

/// A document.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Document {
    pub id: String,
    pub tenant: String,
    pub collection: String,
    pub source: String,
    pub name: String,
    pub state: State,
    pub media_type: Option<String>,
    pub bytes: Option<u64>,
    pub sha256: Option<String>,
    /// How many pages it has, once somebody looked.
    pub pages: Option<u32>,
    /// Why it cannot be read.
    pub failure: Option<String>,
    /// The newest version.
    pub generation: Option<u32>,
    /// The version that search finds.
    pub live_generation: Option<u32>,
    pub added_at: Time,
    pub changed_at: Time,
    pub published_at: Option<Time>,
    /// How it stands in each phase, if that was asked for: ocr, vector and graphrag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<Phase>>,
}

/// What a document is.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its first version is being read.
    Building,
    /// Search finds its newest version.
    Live,
    /// Search finds a version while a newer one is being read.
    Updating,
    /// Its newest version cannot be read; search may find an older one.
    Failed,
    Deleting,
}

/// A page of a list of documents.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Documents {
    /// The latest first.
    pub documents: Vec<Document>,
    /// The cursor with which it goes on; null at its end.
    pub next: Option<String>,
}

/// How many documents are in a state.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct StateCount {
    pub state: State,
    /// Counted up to 100,000.
    pub documents: u32,
    /// Whether there are more than were counted.
    pub is_capped: bool,
}

/// A page of a document.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Page {
    pub document: String,
    pub generation: u32,
    pub number: u32,
    pub outcome: PageOutcome,
    /// How it was read: `text`, `text_layer`, `ocr` or `vision`; `elsewhere` if it was imported.
    pub how: Option<String>,
    pub markdown: Option<String>,
    /// Why it has no text.
    pub reason: Option<String>,
    /// Why the document cannot be read.
    pub failure: Option<String>,
    pub chunks: Vec<Chunk>,
}

/// What came of a page.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum PageOutcome {
    /// Nobody has read it yet.
    Waiting,
    Read,
    /// It has no text.
    Without,
}

/// A chunk of a page.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Chunk {
    pub id: String,
    pub index: u32,
    pub kind: String,
    pub text: String,
    pub tokens: u32,
    /// Where it is in the page's Markdown, in bytes.
    pub begins: u32,
    pub ends: u32,
    /// Headings above it, what it contains, how important it is.
    pub metadata: serde_json::Value,
    /// Which embedder made its vector.
    pub embedded_by: Option<String>,
    /// Whether what it is about is in the graph.
    pub is_linked: bool,
}

/// What came of every page.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Manifest {
    pub document: String,
    pub generation: u32,
    /// Why the document cannot be read.
    pub failure: Option<String>,
    pub pages: Vec<ManifestLine>,
    /// The number after which it goes on; null at its end.
    pub next: Option<u32>,
}

/// What came of a page, without its text.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct ManifestLine {
    pub number: u32,
    pub outcome: PageOutcome,
    pub how: Option<String>,
    /// How long its Markdown is.
    pub bytes: Option<u64>,
    pub reason: Option<String>,
    /// How many chunks it was cut into; null until it is cut.
    pub chunks: Option<u32>,
    /// Of how many of its chunks there are vectors.
    pub vector: Share,
    /// Of how many of its chunks it is known what they are about.
    pub graph: Share,
    /// The item that reads it; null if that is past its keeping.
    pub item: Option<PageItem>,
}

/// How many of all are done.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Share {
    pub total: u32,
    pub done: u32,
}

/// The item of a page.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct PageItem {
    pub id: String,
    pub status: Task,
    /// How often its stage was tried.
    pub attempts: u16,
}

/// How far a document is. The names of seed 001 stand at the top.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Progress {
    pub id: String,
    pub filename: String,
    pub generation: u32,
    pub state: State,
    pub ocr_status: Task,
    pub vector_index_status: Task,
    pub graphrag_index_status: Task,
    pub total_pages: u32,
    pub ocr_completed_pages: u32,
    pub ocr_failed_pages: u32,
    pub total_chunks: u32,
    pub vector_completed_chunks: u32,
    pub graphrag_completed_chunks: u32,
    /// ocr, vector and graphrag, in this order.
    pub phases: Vec<Phase>,
    /// Of a hundred, of all phases together. It never falls while a version is being read.
    pub percent: f64,
    /// Pages that are read in a second, since the first one was begun.
    pub rate_per_s: Option<f64>,
    /// How long it will take at that pace.
    pub eta_ms: Option<u64>,
    /// What failed, and why; the first hundred.
    pub gaps: Vec<Gap>,
    /// The item that does it.
    pub item: Option<String>,
}

/// How a document stands in a phase, in the words of seed 001 and ours.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Pending,
    Processing,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

/// One phase of a document: of its pages, or of its chunks as far as they are known.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Phase {
    pub name: String,
    pub status: Task,
    pub total: u32,
    pub pending: u32,
    pub processing: u32,
    pub completed: u32,
    pub failed: u32,
    pub skipped: u32,
    pub cancelled: u32,
    pub percent: f64,
}

/// A page or a chunk that failed.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Gap {
    pub page: u32,
    /// The chunk's place in its page, from 0; null if it is the page.
    pub chunk: Option<u32>,
    pub phase: String,
    pub reason: Option<String>,
    /// The item that failed.
    pub item: String,
}

/// How many pages or chunks stand where.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Stat {
    /// `ocr_pages`, `vector_chunks` or `graphrag_chunks`.
    pub task_type: String,
    pub status: Task,
    pub count: u64,
}

/// A document that is ready for its next phase.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Ready {
    pub id: String,
    pub filename: String,
    pub item: String,
}

/// What one phase remembers, so that the same is not done twice, and how often that saved work.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Memo {
    /// `ocr` (pages that were read), `vector` or `graph` (what chunks are about).
    pub phase: String,
    /// Results that are remembered, and their bytes.
    pub entries: u64,
    pub bytes: u64,
    /// How often a result was there, and how often it was not.
    pub hits: u64,
    pub misses: u64,
}
