//! Stages of documents that are done elsewhere: what their workers ask, and what they are told.
//!
//! A call is one thing that a stage reads or writes, about documents of one tenant. Every call may
//! be repeated. [`VERSION`] is raised with every change of a call that the other side would not
//! understand; whoever asks says which one it speaks.

use std::borrow::Cow;
use std::fmt::Write as _;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bytes::{Base64, Json};

/// The calls that are described here.
pub const VERSION: u16 = 1;

/// What whoever does stages elsewhere must know before it begins.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct StagesHere {
    /// The calls that this server understands.
    pub version: u16,
    /// The stages that this server does itself.
    pub stages: Vec<String>,
    /// Who makes the vectors that it searches. Others cannot be compared with them.
    pub embedder: Embedder,
}

/// Who makes vectors.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Embedder {
    pub name: String,
    pub version: String,
}

/// Something that a stage reads or writes.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct StageCall {
    /// Whose document it is about.
    pub tenant: String,
    pub call: Call,
}

/// See [`StageCall`].
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    Read(Reading),
    Write(Writing),
}

/// What a stage wants to know.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reading {
    /// The file that a version is made of.
    Content { of: Version },
    /// The Markdown of a page.
    Markdown { page: Page },
    /// The numbers of all pages that were read.
    PagesRead { of: Version },
    /// Chunks of a version after a page and an index, some at a time.
    Places { of: Version, after_page: u32, after_index: u32 },
    /// Chunks with their texts.
    Pieces { chunks: Vec<Hex<16>> },
    /// A chunk with all that is known of it.
    Piece { chunk: Hex<16> },
    /// What is remembered of a phase.
    Remembered { phase: String, keys: Vec<Hex<32>> },
}

/// What a stage has made.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Writing {
    /// How many pages a version has.
    BeginPages { of: Version, pages: u32 },
    /// Why a version cannot be built.
    FailGeneration { of: Version, why: String },
    /// What came of a page.
    PutPage { page: Page, outcome: PageOutcome },
    /// What a page is cut into.
    PutChunks { page: Page, chunks: Vec<NewChunk> },
    /// Vectors of chunks, and which embedder made them.
    PutVectors { by: String, vectors: Vec<Vector> },
    /// What a chunk says of entities.
    PutGraph { chunk: Hex<16>, entities: Vec<Entity>, relationships: Vec<Relationship> },
    /// To be remembered of a phase.
    Remember { phase: String, values: Vec<Memo> },
    /// Makes a version live.
    Publish { of: Version },
    /// Removes an old version.
    RemoveGeneration { of: Version },
    /// Removes a document that is being deleted.
    RemoveDocument { document: String },
}

/// What a call is answered with.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case")]
pub enum StageAnswer {
    Done,
    /// It belongs to what was replaced or deleted: there is nothing left to do.
    Gone {
        what: String,
    },
    /// It never works.
    Bad {
        why: String,
    },
    /// None if there is no such version, or it is old.
    Content {
        content: Option<Content>,
    },
    Markdown {
        markdown: Option<String>,
    },
    Numbers(Vec<u32>),
    Chunks(Vec<Hex<16>>),
    Places(Vec<Place>),
    Pieces(Vec<Piece>),
    Piece {
        piece: Option<Piece>,
    },
    Remembered(Vec<Option<Base64>>),
    /// These versions are old now.
    Live {
        old: Vec<u32>,
    },
    /// This version is live already, and a newer one.
    Superseded {
        live: u32,
    },
    /// Nothing came of this version, so that it is not live.
    Empty {
        why: String,
    },
    /// Whether a document was removed; it was not if nobody asked for it.
    Removed(bool),
}

/// A version of a document.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Version {
    pub document: String,
    pub generation: u32,
}

/// A page of a version.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Page {
    pub document: String,
    pub generation: u32,
    /// From 1.
    pub number: u32,
}

/// What came of a page.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PageOutcome {
    Read {
        markdown: String,
        how: String,
        /// Of what it was read from.
        hash: Hex<32>,
    },
    /// It has no text, for this reason.
    Without { reason: String },
}

/// A chunk of a page.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct NewChunk {
    pub index: u32,
    pub kind: String,
    pub text: String,
    pub tokens: u32,
    /// Where it is in the page's Markdown, in bytes.
    pub begins: u32,
    pub ends: u32,
    pub metadata: Json,
}

/// Where a chunk is.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Place {
    pub chunk: Hex<16>,
    pub page: u32,
    pub index: u32,
    pub hash: Hex<32>,
    pub is_embedded: bool,
    pub is_linked: bool,
}

/// A chunk with its text.
#[derive(Clone, PartialEq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Piece {
    pub chunk: Hex<16>,
    pub page: Page,
    pub collection: String,
    /// The document's.
    pub name: String,
    pub text: String,
    /// What else is known of it, if it was asked for alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// A vector of a chunk.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    pub chunk: Hex<16>,
    /// Its numbers, four bytes each, the lowest first.
    pub vector: Base64,
}

/// Something that a text is about.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    pub name: String,
    pub kind: String,
    pub description: String,
    /// From 1 to 100.
    pub score: u8,
}

/// What a text says of two of its entities.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Relationship {
    pub source: String,
    pub target: String,
    pub description: String,
    pub keywords: Vec<String>,
    /// From 1 to 10.
    pub weight: u8,
}

/// Something to remember.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub struct Memo {
    pub key: Hex<32>,
    pub value: Base64,
}

/// The file that a version is made of.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema, Debug)]
pub struct Content {
    pub hash: Hex<32>,
    pub bytes: u64,
}

/// So many bytes, in small hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * N);
        for byte in self.0 {
            // To a text it can always be written.
            let _written = write!(text, "{byte:02x}");
        }
        to.serialize_str(&text)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hex<N>, D::Error> {
        let text = Cow::<'_, str>::deserialize(from)?;
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
        let bytes = bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Hex).ok_or_else(|| {
            let expected = format!("{} small hexadecimal digits", 2 * N);
            D::Error::invalid_value(Unexpected::Str(&text), &expected.as_str())
        })
    }
}

impl<const N: usize> JsonSchema for Hex<N> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Hex{N}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": "string", "pattern": format!("^[0-9a-f]{{{}}}$", 2 * N) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_it_was_written_and_one_with_something_else_in_it_is_not() {
        let page = Page { document: "d".into(), generation: 1, number: 2 };
        let outcome =
            PageOutcome::Read { markdown: "# A".into(), how: "ocr".into(), hash: Hex([0xab; 32]) };
        let call = Call::Write(Writing::PutPage { page, outcome });
        let call = StageCall { tenant: "t".into(), call };
        let text = serde_json::to_string(&call).expect("it is written");
        assert!(text.contains(&"ab".repeat(32)), "{text}");
        let read = crate::read::object::<StageCall>(text.as_bytes());
        assert_eq!(read, Ok(call));
        for (right, wrong) in [("\"number\"", "\"page\""), ("put_page", "eat_page"), ("abab", "AB")]
        {
            let text = text.replacen(right, wrong, 1);
            assert!(crate::read::object::<StageCall>(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_small_and_as_many_as_there_must_be() {
        let read = |text: &str| serde_json::from_str::<Hex<2>>(text).ok();
        assert_eq!(read("\"0aff\""), Some(Hex([10, 255])));
        for wrong in ["\"0aFf\"", "\"0af\"", "\"0affa\"", "\"0aff00\"", "\"\"", "7", "\"ääa\""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
