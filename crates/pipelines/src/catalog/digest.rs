//! The fingerprint of a collection: one hash over everything that is live in it.
//!
//! Two runs that made the same of the same documents have the same one, whatever ids their
//! documents got, in which order things were written and in which database.

use sha2::{Digest as _, Sha256};

use super::document::Hash;

/// What is live of one document, each list by page, index and whatever follows.
#[derive(Default)]
pub(super) struct LiveDocument {
    pub(super) source: String,
    pub(super) hash: Vec<u8>,
    pub(super) pages: Vec<PageLine>,
    pub(super) chunks: Vec<ChunkLine>,
    pub(super) mentions: Vec<MentionLine>,
    pub(super) relationships: Vec<RelationshipLine>,
}

pub(super) struct PageLine {
    pub(super) number: i64,
    pub(super) state: String,
    pub(super) how: Option<String>,
    pub(super) markdown: Option<String>,
    pub(super) reason: Option<String>,
}

pub(super) struct ChunkLine {
    pub(super) page: i64,
    pub(super) index: i64,
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) metadata: String,
    pub(super) embedder: Option<String>,
    pub(super) vector: Option<Vec<u8>>,
}

pub(super) struct MentionLine {
    pub(super) page: i64,
    pub(super) index: i64,
    pub(super) entity: Vec<u8>,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) score: f64,
}

pub(super) struct RelationshipLine {
    pub(super) page: i64,
    pub(super) index: i64,
    pub(super) source: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) kind: String,
    pub(super) description: String,
    pub(super) weight: f64,
}

/// The hash so far. Documents are added by their sources' bytes.
#[derive(Default)]
pub(super) struct Print(Sha256);

impl Print {
    pub(super) fn add(&mut self, document: &LiveDocument) {
        self.text("document");
        self.text(&document.source);
        self.bytes(&document.hash);
        for page in &document.pages {
            self.number(page.number);
            self.text(&page.state);
            for part in [&page.how, &page.markdown, &page.reason] {
                self.option(part.as_ref().map(String::as_bytes));
            }
        }
        for chunk in &document.chunks {
            self.place(chunk.page, chunk.index);
            self.text(&chunk.kind);
            self.text(&chunk.text);
            self.text(&chunk.metadata);
            self.option(chunk.embedder.as_ref().map(String::as_bytes));
            self.option(chunk.vector.as_deref());
        }
        for mention in &document.mentions {
            self.place(mention.page, mention.index);
            self.bytes(&mention.entity);
            self.text(&mention.name);
            self.text(&mention.description);
            self.bytes(&mention.score.to_be_bytes());
        }
        for relationship in &document.relationships {
            self.place(relationship.page, relationship.index);
            self.bytes(&relationship.source);
            self.bytes(&relationship.target);
            self.text(&relationship.kind);
            self.text(&relationship.description);
            self.bytes(&relationship.weight.to_be_bytes());
        }
    }

    pub(super) fn end(self) -> Hash {
        self.0.finalize().into()
    }

    fn place(&mut self, page: i64, index: i64) {
        self.number(page);
        self.number(index);
    }

    fn number(&mut self, number: i64) {
        self.0.update(number.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// With its length, so that no two lists of parts read alike.
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn option(&mut self, bytes: Option<&[u8]>) {
        self.0.update([u8::from(bytes.is_some())]);
        self.bytes(bytes.unwrap_or_default());
    }
}
