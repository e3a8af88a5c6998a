//! The catalog: what pipelines know.
//!
//! Documents with their generations, pages with their Markdown, chunks with their text, entities
//! and what relates them, vectors of the built-in index, and the memo of what was paid for. One
//! trait over two databases: SQLite beside an embedded queue ([`Sqlite`]), PostgreSQL for many
//! servers ([`Postgres`]). The decisions that both share are here, in types and plain functions;
//! the databases only store.
//!
//! Every write may be repeated. What is written belongs to a generation and is refused as
//! [`CatalogError::Gone`] once that is old. Leaves out what is still to be done and by whom, which
//! the queue knows, and time, which is an argument.

mod around;
mod bounds;
mod chunk;
mod digest;
mod document;
mod error;
mod graph;
mod leftover;
mod memo;
pub mod moving;
mod page;
pub mod postgres;
mod search;
pub mod sqlite;
mod vectors;
mod words;

use std::fmt;

use futures_util::future::BoxFuture;
use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

pub use around::{
    AROUND_MAX, Around, EntityFilter, Link, MentionCursor, MentionedIn, Node, Prominent, SaidIn,
};
pub use bounds::{
    BATCH_MAX, CHUNK_BYTES_MAX, DIMENSIONS_MAX, GRAPH_MAX, LIMIT_MAX, MARKDOWN_BYTES_MAX,
    MEMO_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, PAGES_MAX, PLACE_BYTES_MAX,
    REASON_BYTES_MAX, SOURCE_BYTES_MAX, TITLE_BYTES_MAX,
};
pub use chunk::{Chunk, ChunkId, ChunkPlace, ChunkText, NewChunk, content_hash, embedder};
pub use document::{
    Added, Content, Counted, DOCUMENTS_COUNTED_MAX, Deleted, Document, DocumentCursor,
    DocumentFilter, DocumentState, Generation, GenerationKey, GenerationState, Hash, NewDocument,
    OldGeneration, Progress, Published, Scope,
};
pub use error::CatalogError;
pub use graph::{
    Called, Entity, EntityId, Mention, Neighbour, NewEntity, NewGraph, NewRelationship, Relation,
    normalised,
};
pub use leftover::{Leftover, Removed};
pub use memo::{MemoKey, MemoOf, MemoStats};
pub use page::{ManifestLine, ManifestOutcome, Page, PageChunks, PageKey, PageOutcome};
pub use postgres::Postgres;
pub use search::{Snippet, TextHit, TextQuery, snippet};
pub use sqlite::Sqlite;
pub use vectors::{
    NewVector, Point, VectorChange, VectorCursor, VectorsSince, vector_bytes, vector_of,
};
pub use words::words;

/// What a catalog answers, some time.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, CatalogError>>;

/// What pipelines know, in some database.
///
/// An answer to a write means that it is on the disk. Whoever reads for a user names the tenant,
/// and is shown nothing of another one.
pub trait Catalog: fmt::Debug + Send + Sync {
    /// Takes a document in: it is new, has a new generation, or has not changed.
    fn add_document(&self, new: NewDocument, now: Timestamp) -> Answer<'_, Added>;

    /// Whose a document is; None if there is none. For whoever may see everybody's.
    fn owner(&self, id: Uuid) -> Answer<'_, Option<String>>;

    /// One document.
    fn document(&self, tenant: &str, id: Uuid) -> Answer<'_, Option<Document>>;

    /// Documents after a cursor, what was added last first.
    fn documents(
        &self,
        filter: DocumentFilter,
        after: Option<DocumentCursor>,
        limit: u32,
    ) -> Answer<'_, Vec<Document>>;

    /// How many documents of a tenant there are in each state, counted up to a bound.
    fn count_documents(&self, tenant: &str) -> Answer<'_, Vec<Counted>>;

    /// One generation of a document.
    fn generation(&self, tenant: &str, at: GenerationKey) -> Answer<'_, Option<Generation>>;

    /// Whether a document of a tenant has this content, in any of its generations.
    fn has_content(&self, tenant: &str, hash: Hash) -> Answer<'_, bool>;

    /// Notes why a generation cannot be built, or with None that it can after all.
    fn fail_generation(&self, at: GenerationKey, why: Option<String>) -> Answer<'_, ()>;

    /// Notes which item builds a generation, so that it is found again.
    fn note_item(&self, at: GenerationKey, item: ItemId) -> Answer<'_, ()>;

    /// Says how many pages a generation has. Another number later is refused.
    fn begin_pages(&self, of: GenerationKey, pages: u32) -> Answer<'_, ()>;

    /// Says what came of a page. A page that turns out to have no text loses its chunks.
    fn put_page(&self, page: PageKey, outcome: PageOutcome) -> Answer<'_, ()>;

    /// One page.
    fn page(&self, tenant: &str, page: PageKey) -> Answer<'_, Option<Page>>;

    /// Says what a page is cut into, in place of what it was cut into before. Chunks that stay the
    /// same keep what is known of them.
    fn put_chunks(&self, page: PageKey, chunks: Vec<NewChunk>) -> Answer<'_, Vec<ChunkId>>;

    /// The chunks of a page, in order.
    fn chunks(&self, tenant: &str, page: PageKey) -> Answer<'_, Vec<Chunk>>;

    /// Chunks of a generation after a page and an index, in order.
    fn chunk_places(
        &self,
        tenant: &str,
        of: GenerationKey,
        after: (u32, u32),
        limit: u32,
    ) -> Answer<'_, Vec<ChunkPlace>>;

    /// Texts by ids, in the order of the ids; those that are not there are left out.
    fn chunk_texts(&self, tenant: &str, ids: Vec<ChunkId>) -> Answer<'_, Vec<ChunkText>>;

    /// Notes by which embedder chunks have vectors. Says how many of them are there, in generations
    /// that are not old.
    fn mark_embedded(&self, ids: Vec<ChunkId>, by: &str) -> Answer<'_, u32>;

    /// Says what a chunk says, in place of what it said before.
    fn put_graph(&self, chunk: ChunkId, graph: NewGraph) -> Answer<'_, ()>;

    /// One entity, unless no live document mentions it.
    fn entity(&self, tenant: &str, id: EntityId) -> Answer<'_, Option<Entity>>;

    /// Entities of this name, of any kind.
    fn entities_called(&self, scope: &Scope, name: &str) -> Answer<'_, Vec<Entity>>;

    /// What chunks mention, those of live documents.
    fn mentions(&self, tenant: &str, chunks: Vec<ChunkId>) -> Answer<'_, Vec<Mention>>;

    /// What is around an entity, the strongest relations first.
    fn neighbours(&self, tenant: &str, of: EntityId, limit: u32) -> Answer<'_, Vec<Neighbour>>;

    /// What is around an entity, layer by layer, and only of a kind if one is given. None if no
    /// live document mentions it.
    fn around(
        &self,
        tenant: &str,
        of: EntityId,
        kind: Option<&str>,
        limit: u32,
    ) -> Answer<'_, Option<Around>>;

    /// What there is in the documents that were added last, and who is mentioned most in them.
    fn prominent(&self, filter: EntityFilter) -> Answer<'_, Prominent>;

    /// Entities with a part of a name, those that begin with it first. Where there are very many,
    /// only of some it is known what stands in the middle of their names.
    fn entities_named(&self, filter: EntityFilter, part: &str, limit: u32)
    -> Answer<'_, Vec<Node>>;

    /// Live chunks that mention an entity, after a cursor: by document, and there in order.
    fn mentioned_in(
        &self,
        tenant: &str,
        of: EntityId,
        after: MentionCursor,
        limit: u32,
    ) -> Answer<'_, Vec<MentionedIn>>;

    /// Documents of all tenants, by id, whose newest generation waits to be built, unless it cannot
    /// be, and those that are being deleted. Reads every document, in slices: for whoever starts.
    fn unfinished(&self, after: Option<Uuid>, limit: u32) -> Answer<'_, Vec<Document>>;

    /// Makes a generation live, and those before it old, at once.
    fn publish(&self, at: GenerationKey, now: Timestamp) -> Answer<'_, Published>;

    /// Generations that are to be removed everywhere.
    fn old_generations(&self, limit: u32) -> Answer<'_, Vec<OldGeneration>>;

    /// Removes all that the catalog has of an old generation. In slices: others get in between.
    fn remove_generation(&self, at: GenerationKey) -> Answer<'_, ()>;

    /// Marks a document: from now on search does not see it, and nothing more is written to it.
    /// These sinks have to confirm that they removed it. False if there is no such document.
    fn begin_delete(
        &self,
        tenant: &str,
        id: Uuid,
        sinks: Vec<String>,
        now: Timestamp,
    ) -> Answer<'_, bool>;

    /// Notes that a sink removed a document that is being deleted.
    fn confirm_delete(&self, id: Uuid, sink: &str) -> Answer<'_, ()>;

    /// Removes a document that is being deleted, if all sinks confirmed.
    fn delete_document(&self, id: Uuid) -> Answer<'_, Deleted>;

    /// How far a generation is; None if there is no such generation.
    fn progress(&self, tenant: &str, of: GenerationKey) -> Answer<'_, Option<Progress>>;

    /// The same for several, in their order.
    fn progress_of(
        &self,
        tenant: &str,
        of: Vec<GenerationKey>,
    ) -> Answer<'_, Vec<Option<Progress>>>;

    /// How far the chunks of some pages are, in the order of the pages.
    fn page_chunks(
        &self,
        tenant: &str,
        of: GenerationKey,
        pages: Vec<u32>,
    ) -> Answer<'_, Vec<PageChunks>>;

    /// What came of every page, those after a number.
    fn manifest(
        &self,
        tenant: &str,
        of: GenerationKey,
        after: u32,
        limit: u32,
    ) -> Answer<'_, Vec<ManifestLine>>;

    /// Live chunks that have the words of a question, the best first.
    fn search_text(&self, query: TextQuery) -> Answer<'_, Vec<TextHit>>;

    /// What is remembered under keys, in their order. Counts hits and misses; a count may be lost
    /// when the process dies.
    fn memo_get(
        &self,
        of: &MemoOf,
        keys: Vec<MemoKey>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<Vec<u8>>>>;

    /// Remembers results. What is remembered already stays.
    fn memo_put(
        &self,
        of: &MemoOf,
        values: Vec<(MemoKey, Vec<u8>)>,
        now: Timestamp,
    ) -> Answer<'_, ()>;

    /// What the memo saved a tenant, by phase.
    fn memo_stats(&self, tenant: &str) -> Answer<'_, Vec<MemoStats>>;

    /// Forgets memos that nobody has used since then, at most so many. Says how many.
    fn sweep_memos(&self, before: Timestamp, limit: u32) -> Answer<'_, u64>;

    /// Keeps vectors of chunks. Says how many of the chunks are there.
    fn put_vectors(&self, vectors: Vec<NewVector>) -> Answer<'_, u32>;

    /// Keeps vectors of chunks, and notes by which embedder they are: [`Catalog::put_vectors`] and
    /// [`Catalog::mark_embedded`], at once where that saves something.
    fn put_embedded<'a>(&'a self, vectors: Vec<NewVector>, by: &'a str) -> Answer<'a, u32> {
        let ids = vectors.iter().map(|vector| vector.chunk).collect();
        Box::pin(async move {
            self.put_vectors(vectors).await?;
            self.mark_embedded(ids, by).await
        })
    }

    /// What happened to vectors after a cursor, oldest first.
    fn vectors_since(&self, after: VectorCursor, limit: u32) -> Answer<'_, VectorsSince>;

    /// The sequence of what happened last; zero if nothing has.
    fn newest_change(&self) -> Answer<'_, u64>;

    /// Forgets what was removed before a sequence, at most so many. Says how many. An index that
    /// has not come that far begins again.
    fn sweep_changes(&self, before: u64, limit: u32) -> Answer<'_, u64>;

    /// The number of the newest thing that was removed and may lie elsewhere all the same.
    fn last_leftover(&self) -> Answer<'_, u64>;

    /// Such things up to a number, oldest first. Until they are forgotten, none of these chunks can
    /// come back.
    fn take_leftovers(&self, until: u64, limit: u32) -> Answer<'_, Vec<Leftover>>;

    /// Forgets what was removed elsewhere too.
    fn forget_leftovers(&self, numbers: Vec<u64>) -> Answer<'_, ()>;

    /// A digest of everything that is live in a collection. Reads all of it: for tests and checks.
    fn fingerprint(&self, scope: &Scope) -> Answer<'_, Hash>;
}
