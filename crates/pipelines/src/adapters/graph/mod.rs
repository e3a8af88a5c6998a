//! The graph: where it is kept what chunks say of entities.
//!
//! `in_catalog.rs` keeps it beside everything else; `bolt/` in a graph database that speaks Bolt
//! and Cypher. What a chunk says belongs to that chunk: it is put in place of what the chunk said
//! before, and goes with its generation. An entity is the same in every graph, since its id follows
//! from tenant, collection, kind and name; one of which nothing is said any more goes too.

pub mod bolt;
pub mod in_catalog;

use std::collections::HashMap;
use std::fmt;

use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::adapters::extract::{Entity, Extracted, Relationship};
use crate::catalog::{
    Called, ChunkId, GenerationKey, NewEntity, NewGraph, NewRelationship, Scope, normalised,
};

/// Who says something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    pub chunk: ChunkId,
    /// The generation that the chunk is of.
    pub at: GenerationKey,
    pub scope: Scope,
}

/// Where it is kept what chunks say.
pub trait Graph: fmt::Debug + Send + Sync {
    /// What it is, in a word.
    fn name(&self) -> &str;

    /// Keeps what a chunk says, all or nothing, in place of what it said before. May be repeated.
    fn put<'a>(
        &'a self,
        origin: &'a Origin,
        said: &'a Extracted,
    ) -> BoxFuture<'a, Result<(), GraphError>>;

    /// Removes what these chunks said. That one said nothing is no error.
    fn remove_chunks<'a>(&'a self, chunks: &'a [ChunkId]) -> BoxFuture<'a, Result<(), GraphError>>;

    /// Removes what chunks of a generation said; whoever says something of it later is told that it
    /// is gone. That nothing was said is no error.
    fn remove_generation(&self, at: GenerationKey) -> BoxFuture<'_, Result<(), GraphError>>;

    /// The same for all generations of a document, those to come included.
    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), GraphError>>;
}

/// Why a graph did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GraphError {
    /// It cannot do it now: try again. It does no harm if this time it was done after all.
    #[error("{why}")]
    Transient { why: String, retry_after_ms: Option<u64> },
    /// This never works.
    #[error("{why}")]
    Bad { why: String },
    /// The generation was removed. There is nothing left to do for it.
    #[error("{what} is no longer there")]
    Gone { what: String },
}

/// What relates two entities if nobody has a word for it.
const RELATED: &str = "related";

/// By what a relationship goes.
fn kind(relationship: &Relationship) -> &str {
    relationship.keywords.first().map_or(RELATED, |word| word)
}

/// What a text calls each of its entities, by their normalised names.
fn called(entities: &[Entity]) -> HashMap<String, Called> {
    let called = |one: &Entity| (normalised(&one.name), Called::new(&*one.kind, &*one.name));
    entities.iter().map(called).collect()
}

/// What a text says, as a catalog takes it.
fn as_said(said: &Extracted) -> Result<NewGraph, GraphError> {
    let called = called(&said.entities);
    let find = |name: &str| {
        let found = called.get(&normalised(name)).cloned();
        let why = || format!("a relationship names {name:?}, which is no entity of the text");
        found.ok_or_else(|| GraphError::Bad { why: why() })
    };
    let entities = said.entities.iter().map(|one| NewEntity {
        called: Called::new(&*one.kind, &*one.name),
        description: one.description.clone(),
        score: f64::from(one.score),
    });
    let relationships = said.relationships.iter().map(|one| {
        Ok(NewRelationship {
            source: find(&one.source)?,
            target: find(&one.target)?,
            kind: kind(one).to_owned(),
            description: one.description.clone(),
            weight: f64::from(one.weight),
        })
    });
    Ok(NewGraph {
        entities: entities.collect(),
        relationships: relationships.collect::<Result<_, GraphError>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Extracted {
        let entity = |name: &str, kind: &str, score| Entity {
            name: name.into(),
            kind: kind.into(),
            description: format!("{name}!"),
            score,
        };
        Extracted {
            entities: vec![entity("Ada Lovelace", "person", 90), entity("London", "place", 60)],
            relationships: vec![Relationship {
                source: "ada lovelace".into(),
                target: "London".into(),
                description: "she lives there".into(),
                keywords: vec!["lives in".into(), "home".into()],
                weight: 7,
            }],
        }
    }

    #[test]
    fn a_relationship_goes_by_its_first_word_and_the_kinds_of_its_ends() {
        let graph = as_said(&said()).unwrap();
        assert_eq!(graph.entities[0].score, 90.0);
        let one = &graph.relationships[0];
        assert_eq!(one.source, Called::new("person", "Ada Lovelace"));
        assert_eq!(one.target, Called::new("place", "London"));
        assert_eq!((&*one.kind, one.weight), ("lives in", 7.0));
        let mut nameless = said();
        nameless.relationships[0].keywords.clear();
        assert_eq!(as_said(&nameless).unwrap().relationships[0].kind, "related");
    }

    #[test]
    fn a_relationship_with_a_stranger_is_bad() {
        let mut said = said();
        said.relationships[0].target = "Paris".into();
        let why = as_said(&said).unwrap_err();
        assert!(matches!(&why, GraphError::Bad { why } if why.contains("\"Paris\"")), "{why:?}");
    }
}
