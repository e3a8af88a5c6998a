//! Keeping: where stages find what is known of a document, and leave what they make of it.
//!
//! A stage sees this and no catalog, no store of vectors and no graph, so that it is the same where
//! those are at hand (`at_hand.rs`) and where a server has them. Whoever asks says whose the
//! document is. Every write may be repeated, and says [`Unkept::Gone`] of what something newer has
//! replaced. Leaves out how documents come in and how they are shown: that is the catalog's.

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use uuid::Uuid;

use crate::adapters::extract::Extracted;
use crate::catalog::{
    ChunkId, ChunkPlace, GenerationKey, Hash, MemoKey, MemoOf, NewChunk, PageKey, PageOutcome,
};

/// A chunk as stages see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub id: ChunkId,
    pub page: PageKey,
    pub collection: String,
    /// The document's.
    pub name: String,
    pub text: String,
}

/// The file that a generation is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    pub hash: Hash,
    pub bytes: u64,
}

/// What became of a generation that was to go live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Publication {
    /// It is live. These are old and can be removed everywhere.
    Live { old: Vec<u32> },
    /// A newer one is live already; this one is old.
    Superseded { live: u32 },
    /// Nothing came of it, so that it is not to be seen; what was seen before stays.
    Empty { why: String },
}

/// Why something was not kept or found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unkept {
    /// It may pass; it does no harm if it was kept after all.
    #[error("{why}")]
    Passing { why: String, retry_after_ms: Option<u64> },
    /// It never works.
    #[error("{why}")]
    Bad { why: String },
    /// What it belongs to was replaced or deleted.
    #[error("{what} is no longer there")]
    Gone { what: String },
}

/// What is answered, some time.
pub type Kept<'a, T> = BoxFuture<'a, Result<T, Unkept>>;

/// What stages read and write.
pub trait Keeping: fmt::Debug + Send + Sync {
    /// Says how many pages a generation has.
    fn begin_pages<'a>(&'a self, tenant: &'a str, of: GenerationKey, pages: u32) -> Kept<'a, ()>;

    /// Notes why a generation cannot be built.
    fn fail_generation<'a>(
        &'a self,
        tenant: &'a str,
        at: GenerationKey,
        why: String,
    ) -> Kept<'a, ()>;

    /// What a generation is made of; None if there is none, or it is old.
    fn content<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Option<Content>>;

    /// Says what came of a page.
    fn put_page<'a>(&'a self, tenant: &'a str, page: PageKey, outcome: PageOutcome)
    -> Kept<'a, ()>;

    /// The Markdown of a page; None of one that was not read.
    fn markdown<'a>(&'a self, tenant: &'a str, page: PageKey) -> Kept<'a, Option<String>>;

    /// The numbers of all pages that were read.
    fn pages_read<'a>(&'a self, tenant: &'a str, of: GenerationKey) -> Kept<'a, Vec<u32>>;

    /// Says what a page is cut into, in place of what it was cut into before.
    fn put_chunks<'a>(
        &'a self,
        tenant: &'a str,
        page: PageKey,
        chunks: Vec<NewChunk>,
    ) -> Kept<'a, Vec<ChunkId>>;

    /// Chunks of a generation after a page and an index, in order, some at a time.
    fn places<'a>(
        &'a self,
        tenant: &'a str,
        of: GenerationKey,
        after: (u32, u32),
    ) -> Kept<'a, Vec<ChunkPlace>>;

    /// Chunks by ids; those that are not there are left out.
    fn pieces<'a>(&'a self, tenant: &'a str, ids: Vec<ChunkId>) -> Kept<'a, Vec<Piece>>;

    /// The same, with what else is known of each.
    fn known_pieces<'a>(
        &'a self,
        tenant: &'a str,
        ids: Vec<ChunkId>,
    ) -> Kept<'a, Vec<(Piece, Value)>>;

    /// Puts vectors where they are searched, and notes by which embedder they are. Says which of
    /// the chunks are no longer there; those have no vector either.
    fn put_vectors<'a>(
        &'a self,
        tenant: &'a str,
        vectors: Vec<(Piece, Vec<f32>)>,
        by: &'a str,
    ) -> Kept<'a, Vec<ChunkId>>;

    /// Puts what a chunk says into the graph, in place of what it said before.
    fn put_graph<'a>(
        &'a self,
        tenant: &'a str,
        chunk: &'a Piece,
        said: &'a Extracted,
    ) -> Kept<'a, ()>;

    /// The same for many chunks; answers for each, in their order.
    fn put_graphs<'a>(
        &'a self,
        tenant: &'a str,
        said: &'a [(Piece, Extracted)],
    ) -> BoxFuture<'a, Vec<Result<(), Unkept>>>;

    /// What is remembered under keys, in their order.
    fn remembered<'a>(
        &'a self,
        of: &'a MemoOf,
        keys: Vec<MemoKey>,
    ) -> Kept<'a, Vec<Option<Vec<u8>>>>;

    /// Remembers results. What is remembered already stays.
    fn remember<'a>(&'a self, of: &'a MemoOf, values: Vec<(MemoKey, Vec<u8>)>) -> Kept<'a, ()>;

    /// Makes a generation live, and those before it old, unless nothing came of it.
    fn publish<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, Publication>;

    /// Removes an old generation everywhere.
    fn remove_generation<'a>(&'a self, tenant: &'a str, at: GenerationKey) -> Kept<'a, ()>;

    /// Removes a document everywhere that somebody asked to be deleted; false if nobody did. One
    /// that is not there is gone.
    fn remove_document<'a>(&'a self, tenant: &'a str, document: Uuid) -> Kept<'a, bool>;
}
