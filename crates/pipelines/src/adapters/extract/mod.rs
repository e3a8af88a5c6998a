//! Extracting: a text becomes the entities that it is about, and what relates them.
//!
//! `llm.rs` asks a model behind an endpoint; `cooccurrence/` needs no model and understands
//! nothing, it sees names and which of them stand together. Whatever read it, what leaves here went
//! through `kept.rs`: cleaned, each entity once, the weak ones gone, and no more than a chunk can
//! be about. Leaves out remembering what was read before, which is the pipeline's.

mod answer;
pub mod cooccurrence;
pub mod kept;
pub mod llm;
mod prompt;

use std::fmt;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use self::kept::Limits;

/// Something that a text is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entity {
    pub name: String,
    /// `person`, `organisation`, `place` and the like.
    pub kind: String,
    pub description: String,
    /// How much the text is about it, from 1 to 100.
    pub score: u8,
}

/// What a text says of two of its entities.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Relationship {
    /// The name of an entity.
    pub source: String,
    pub target: String,
    pub description: String,
    /// What relates them, in words; the first is the one it goes by.
    pub keywords: Vec<String>,
    /// How strongly they are related, from 1 to 10.
    pub weight: u8,
}

/// What a text says, the strongest first.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Extracted {
    pub entities: Vec<Entity>,
    pub relationships: Vec<Relationship>,
}

/// What stands around a text, and helps to understand it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Context<'a> {
    /// What the document is called.
    pub document: &'a str,
    /// The headings above the text, the highest first.
    pub headings: &'a [&'a str],
}

/// Something that reads entities and relationships out of texts.
pub trait Extractor: fmt::Debug + Send + Sync {
    /// What it is, in a word.
    fn name(&self) -> &str;

    /// What it reads by: with another version everything is to be read again.
    fn version(&self) -> &str;

    /// What else decides what it finds, in words that are the same as long as that is. With the
    /// text and the context it is what a result may be remembered by.
    fn parameters(&self) -> String;

    /// Whether to read a text costs more than to remember what was read.
    fn is_paid(&self) -> bool {
        true
    }

    /// Reads one text. A text about nothing has no entities, which is no error.
    fn extract<'a>(
        &'a self,
        text: &'a str,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<Extracted, ExtractError>>;
}

/// Why nothing is known of a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExtractError {
    /// It is not the text's fault: try again.
    #[error("{why}")]
    Transient {
        why: String,
        /// How long the endpoint asks to be left alone.
        retry_after_ms: Option<u64>,
    },
    /// This text never works.
    #[error("{why}")]
    Bad { why: String },
}

impl ExtractError {
    fn transient(why: impl Into<String>) -> ExtractError {
        ExtractError::Transient { why: why.into(), retry_after_ms: None }
    }

    fn bad(why: impl Into<String>) -> ExtractError {
        ExtractError::Bad { why: why.into() }
    }
}
