//! The graph as a picture: entities around one, what relates them, and where it is said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::Snippet;

/// What is around an entity, or the entities that a name may mean.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Picture {
    /// The entity in the middle; null if names were looked for, or there is none.
    pub centre: Option<String>,
    /// The centre first and then by distance; or by name, if names were looked for.
    pub entities: Vec<Entity>,
    /// The strongest first.
    pub relationships: Vec<Relationship>,
    /// What entities there are in the documents that were added last, the most frequent type
    /// first.
    pub types: Vec<Type>,
    /// Whether there is more than is shown.
    pub is_cut: bool,
}

/// An entity in a picture.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[schemars(rename = "GraphEntity")]
pub struct Entity {
    pub id: String,
    /// As it is written most often.
    pub name: String,
    /// `person`, `place` and the like.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many passages mention it; 2,000 are counted.
    pub mentions: u32,
    /// Steps from the centre; null if names were looked for.
    pub distance: Option<u32>,
}

/// What relates two entities.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[schemars(rename = "GraphRelationship")]
pub struct Relationship {
    pub from: String,
    pub to: String,
    /// In a word or a few.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// All weights together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Some of the passages that say so, at most three.
    pub chunks: Vec<Place>,
}

/// Where a passage is.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[schemars(rename = "GraphPlace")]
pub struct Place {
    pub document: String,
    /// The document's.
    pub name: String,
    /// From 1.
    pub page: u32,
    pub chunk: String,
}

/// How many entities are of a type.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Type {
    #[serde(rename = "type")]
    pub kind: String,
    pub entities: u32,
}

/// An entity with the passages that mention it.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Mentioned {
    pub id: String,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub collection: String,
    /// What the passage says that is most about it.
    pub description: String,
    pub mentions: u32,
    /// By document, and there in order.
    pub chunks: Vec<Passage>,
    /// The cursor with which it goes on; null at its end.
    pub next: Option<String>,
}

/// A passage that mentions an entity.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Passage {
    pub document: String,
    /// The document's.
    pub name: String,
    /// From 1.
    pub page: u32,
    pub chunk: String,
    /// What it calls the entity.
    pub called: String,
    pub snippet: Snippet,
}
