//! Search: what was found, where it stands, and why it was found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a search came to.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Why only words or only vectors were looked for, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// A passage.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Hit {
    pub document: String,
    /// The document's name, and where it is from.
    pub name: String,
    pub source: String,
    pub collection: String,
    /// The page, from 1.
    pub page: u32,
    pub chunk: String,
    pub score: f64,
    /// What each ranking said of it.
    pub parts: Vec<Part>,
    pub snippet: Snippet,
    pub text: String,
    /// What it is about, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Vec<Entity>>,
}

/// What one ranking said.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Part {
    /// `words` or `vectors`.
    pub list: String,
    /// From 1.
    pub rank: u32,
    pub score: f32,
    /// What this rank adds to the whole score.
    pub worth: f64,
}

/// The piece of a passage that has the most of what was asked.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Snippet {
    pub text: String,
    /// Where the words are in it, in bytes: from, and up to.
    pub marks: Vec<(u32, u32)>,
    pub is_cut_before: bool,
    pub is_cut_after: bool,
}

/// Something that a passage mentions.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Entity {
    pub id: String,
    pub kind: String,
    pub name: String,
    pub description: String,
    /// What it has to do with, the strongest first.
    pub neighbours: Vec<Neighbour>,
}

/// An entity beside another one.
#[derive(Clone, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Neighbour {
    pub id: String,
    pub kind: String,
    pub name: String,
    /// What relates them.
    pub relation: String,
    pub weight: f64,
}
