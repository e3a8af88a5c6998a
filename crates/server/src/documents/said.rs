//! What stages read and write, as it goes over the wire: both ways.

use serde_json::Value;
use windrow_core::Refusal;
use windrow_pipelines::adapters::extract::{Entity, Extracted, Relationship};
use windrow_pipelines::catalog::{
    ChunkId, ChunkPlace, GenerationKey, NewChunk, PageKey, PageOutcome,
};
use windrow_pipelines::documents::{Content, Piece, Unkept};
use windrow_wire::bytes::Json;
use windrow_wire::stage::{self as wire, Hex};

/// A version, as it is said.
pub(crate) fn version(of: GenerationKey) -> wire::Version {
    wire::Version { document: of.document.to_string(), generation: of.generation }
}

/// A version that was said.
pub(crate) fn generation(of: &wire::Version) -> Result<GenerationKey, Refusal> {
    Ok(GenerationKey { document: document(&of.document)?, generation: of.generation })
}

pub(crate) fn page(page: PageKey) -> wire::Page {
    let PageKey { document, generation, number } = page;
    wire::Page { document: document.to_string(), generation, number }
}

pub(crate) fn page_key(page: &wire::Page) -> Result<PageKey, Refusal> {
    let (generation, number) = (page.generation, page.number);
    Ok(PageKey { document: document(&page.document)?, generation, number })
}

pub(crate) fn document(id: &str) -> Result<uuid::Uuid, Refusal> {
    id.parse().map_err(|_| Refusal::invalid("document", "is not an id"))
}

/// What came of a page. A stage never says that it waits.
pub(crate) fn outcome(outcome: PageOutcome) -> wire::PageOutcome {
    match outcome {
        PageOutcome::Read { markdown, how, hash } => {
            wire::PageOutcome::Read { markdown, how, hash: Hex(hash) }
        }
        PageOutcome::Without { reason } => wire::PageOutcome::Without { reason },
        PageOutcome::Waiting => unreachable!("a stage says what came of a page"),
    }
}

pub(crate) fn outcome_of(outcome: wire::PageOutcome) -> PageOutcome {
    match outcome {
        wire::PageOutcome::Read { markdown, how, hash } => {
            PageOutcome::Read { markdown, how, hash: hash.0 }
        }
        wire::PageOutcome::Without { reason } => PageOutcome::Without { reason },
    }
}

pub(crate) fn chunk(chunk: NewChunk) -> Result<wire::NewChunk, Unkept> {
    let NewChunk { index, kind, text, tokens, begins, ends, metadata } = chunk;
    let metadata = json(&metadata)?;
    Ok(wire::NewChunk { index, kind, text, tokens, begins, ends, metadata })
}

pub(crate) fn chunk_of(chunk: wire::NewChunk) -> Result<NewChunk, Refusal> {
    let wire::NewChunk { index, kind, text, tokens, begins, ends, metadata } = chunk;
    let unread = |_| Refusal::invalid("metadata", "cannot be read");
    let metadata = serde_json::from_str(metadata.text()).map_err(unread)?;
    Ok(NewChunk { index, kind, text, tokens, begins, ends, metadata })
}

fn json(value: &Value) -> Result<Json, Unkept> {
    let unsaid = || Unkept::Bad { why: "what is known of a chunk cannot be written".to_owned() };
    Json::read(value.to_string().as_bytes()).ok_or_else(unsaid)
}

pub(crate) fn place(place: ChunkPlace) -> wire::Place {
    let ChunkPlace { id, page, index, hash, is_embedded, is_linked } = place;
    wire::Place { chunk: Hex(id.0), page, index, hash: Hex(hash), is_embedded, is_linked }
}

pub(crate) fn place_of(place: wire::Place) -> ChunkPlace {
    let wire::Place { chunk, page, index, hash, is_embedded, is_linked } = place;
    ChunkPlace { id: ChunkId(chunk.0), page, index, hash: hash.0, is_embedded, is_linked }
}

pub(crate) fn piece(piece: Piece, metadata: Option<&Value>) -> Result<wire::Piece, Unkept> {
    let Piece { id, page: at, collection, name, text } = piece;
    let (chunk, metadata) = (Hex(id.0), metadata.map(json).transpose()?);
    Ok(wire::Piece { chunk, page: page(at), collection, name, text, metadata })
}

pub(crate) fn piece_of(piece: wire::Piece) -> Result<(Piece, Value), Refusal> {
    let wire::Piece { chunk, page, collection, name, text, metadata } = piece;
    let unread = |_| Refusal::invalid("metadata", "cannot be read");
    let metadata = metadata.map(|json| serde_json::from_str(json.text())).transpose();
    let metadata = metadata.map_err(unread)?.unwrap_or(Value::Null);
    let page = page_key(&page)?;
    Ok((Piece { id: ChunkId(chunk.0), page, collection, name, text }, metadata))
}

pub(crate) fn graph(said: &Extracted) -> (Vec<wire::Entity>, Vec<wire::Relationship>) {
    let entity = |one: &Entity| {
        let Entity { name, kind, description, score } = one.clone();
        wire::Entity { name, kind, description, score }
    };
    let relationship = |one: &Relationship| {
        let Relationship { source, target, description, keywords, weight } = one.clone();
        wire::Relationship { source, target, description, keywords, weight }
    };
    let entities = said.entities.iter().map(entity).collect();
    (entities, said.relationships.iter().map(relationship).collect())
}

pub(crate) fn graph_of(
    entities: Vec<wire::Entity>,
    relationships: Vec<wire::Relationship>,
) -> Extracted {
    let entity = |one: wire::Entity| {
        let wire::Entity { name, kind, description, score } = one;
        Entity { name, kind, description, score }
    };
    let relationship = |one: wire::Relationship| {
        let wire::Relationship { source, target, description, keywords, weight } = one;
        Relationship { source, target, description, keywords, weight }
    };
    let relationships = relationships.into_iter().map(relationship).collect();
    Extracted { entities: entities.into_iter().map(entity).collect(), relationships }
}

pub(crate) fn content(content: Content) -> wire::Content {
    wire::Content { hash: Hex(content.hash), bytes: content.bytes }
}

pub(crate) fn content_of(content: wire::Content) -> Content {
    Content { hash: content.hash.0, bytes: content.bytes }
}
