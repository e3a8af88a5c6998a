//! Chunks: pieces of a page's Markdown, with ids that follow from what they are.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::bounds::{
    BATCH_MAX, CHUNK_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX, count, name, text,
};
use super::document::Hash;
use super::error::CatalogError;
use super::page::PageKey;

/// A chunk, by the first half of a SHA-256 over its place and content. Cutting the same page twice
/// gives the same ids, so that doing anything with a chunk twice is harmless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub [u8; 16]);

impl ChunkId {
    /// The id of the chunk with this content at this place.
    pub fn of(page: &PageKey, index: u32, content: &Hash) -> ChunkId {
        let mut sum = Sha256::new();
        sum.update(page.document.as_bytes());
        sum.update(page.generation.to_be_bytes());
        sum.update(page.number.to_be_bytes());
        sum.update(index.to_be_bytes());
        sum.update(content);
        ChunkId(half(&sum.finalize()))
    }

    pub(super) fn read(bytes: &[u8]) -> Result<ChunkId, CatalogError> {
        let bytes = bytes.try_into();
        bytes.map(ChunkId).map_err(|_| CatalogError::bad("a chunk's id has not 16 bytes"))
    }
}

pub(super) fn half(sum: &[u8]) -> [u8; 16] {
    let mut first = [0; 16];
    first.copy_from_slice(&sum[..16]);
    first
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The hash of a chunk's text.
pub fn content_hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// A chunk as the chunker gives it.
#[derive(Clone, PartialEq, Debug)]
pub struct NewChunk {
    /// Which of its page's it is, from 0.
    pub index: u32,
    /// What it is: `text`, `table`, `code` and the like.
    pub kind: String,
    pub text: String,
    /// About how many tokens a model makes of it.
    pub tokens: u32,
    /// Where it is in the page's Markdown, in bytes.
    pub begins: u32,
    pub ends: u32,
    /// What else is known of it.
    pub metadata: Value,
}

impl NewChunk {
    pub(super) fn check_all(page: &PageKey, chunks: &[NewChunk]) -> Result<(), CatalogError> {
        count("chunks of a page", chunks.len(), BATCH_MAX)?;
        let mut seen = std::collections::HashSet::new();
        for chunk in chunks {
            name("the kind of a chunk", &chunk.kind, NAME_BYTES_MAX)?;
            text("a chunk", &chunk.text, CHUNK_BYTES_MAX)?;
            text("a chunk's metadata", &chunk.metadata.to_string(), METADATA_BYTES_MAX)?;
            let is_signed = |number: u32| i32::try_from(number).is_ok();
            let numbers = [chunk.index, chunk.tokens, chunk.begins, chunk.ends];
            if !numbers.into_iter().all(is_signed) || chunk.begins > chunk.ends {
                let why = format!("chunk {} of {page} has a wrong place or size", chunk.index);
                return Err(CatalogError::Bad { why });
            }
            if !seen.insert(chunk.index) {
                let why = format!("there are two chunks {} of {page}", chunk.index);
                return Err(CatalogError::Bad { why });
            }
        }
        Ok(())
    }
}

/// A chunk as the catalog has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Chunk {
    pub id: ChunkId,
    pub page: PageKey,
    pub index: u32,
    pub kind: String,
    pub text: String,
    pub hash: Hash,
    pub tokens: u32,
    pub begins: u32,
    pub ends: u32,
    pub metadata: Value,
    /// Which embedder made its vector, and its version; None until one has.
    pub embedded_by: Option<String>,
    /// Whether its entities are known.
    pub is_linked: bool,
}

/// Where a chunk is and what is known of it, without its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkPlace {
    pub id: ChunkId,
    pub page: u32,
    pub index: u32,
    pub hash: Hash,
    pub is_embedded: bool,
    pub is_linked: bool,
}

/// A chunk's text, and what a reader is told about where it is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkText {
    pub id: ChunkId,
    pub page: PageKey,
    pub index: u32,
    pub kind: String,
    pub text: String,
    pub hash: Hash,
    /// What else the chunker knows of it.
    pub metadata: Value,
    pub collection: String,
    /// The document's.
    pub source: String,
    pub name: String,
    /// Whether search sees it.
    pub is_live: bool,
    /// Where it is in the page's Markdown, in bytes.
    pub begins: u32,
    pub ends: u32,
}

/// The name of an embedder as a chunk keeps it.
pub fn embedder(name: &str, version: &str) -> String {
    format!("{name}@{version}")
}

pub(super) fn hash_of(bytes: &[u8]) -> Result<Hash, CatalogError> {
    bytes.try_into().map_err(|_| CatalogError::bad("a hash in the catalog has not 32 bytes"))
}

pub(super) fn metadata_of(text: &str) -> Result<Value, CatalogError> {
    serde_json::from_str(text).map_err(|error| CatalogError::bad(error.to_string()))
}

pub(super) fn uuid_of(bytes: &[u8]) -> Result<Uuid, CatalogError> {
    Uuid::from_slice(bytes).map_err(|_| CatalogError::bad("an id in the catalog has not 16 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_follows_from_every_part_of_a_chunks_place_and_content() {
        let page = PageKey { document: Uuid::from_u128(7), generation: 1, number: 2 };
        let id = ChunkId::of(&page, 3, &content_hash("text"));
        assert_eq!(id, ChunkId::of(&page, 3, &content_hash("text")));
        // Pinned: vectors elsewhere are found by it.
        assert_eq!(id.to_string(), "e9f5afb58f88f51f40fe4d6761ae42c7");
        let other = [
            ChunkId::of(
                &PageKey { document: Uuid::from_u128(8), ..page },
                3,
                &content_hash("text"),
            ),
            ChunkId::of(&PageKey { generation: 2, ..page }, 3, &content_hash("text")),
            ChunkId::of(&PageKey { number: 3, ..page }, 3, &content_hash("text")),
            ChunkId::of(&page, 4, &content_hash("text")),
            ChunkId::of(&page, 3, &content_hash("texts")),
        ];
        assert!(other.iter().all(|other| *other != id));
    }
}
