//! Chunks: a page of Markdown, cut into pieces that can be embedded, searched and read alone.
//!
//! Decides what the document is ([`classify`]), how such a document is cut ([`Strategy`]), and
//! where. A chunk is a stretch of the page as it stands there, with at most three things around it:
//! what it repeats of the text before, the header of the table or the fence of the code that it
//! begins within, and the end of that fence. All of the page is in chunks, but for images in
//! base64, which are a word.
//!
//! A token is taken for four characters. Nothing here knows a tokenizer: limits are to be chosen
//! with some air.

mod atoms;
mod class;
mod classify;
mod cut;
mod evidence;
mod images;
mod pack;
mod sections;
mod strategy;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use self::images::Bare;
use self::pack::{Pack, Packer};
use self::sections::Sections;
use self::strategy::{Build, TOKEN_CHARS};
use super::markdown::{self, Block, Holds, Kind};

pub(super) use self::class::words;
pub use self::class::{Class, DocumentType, Domain};
pub use self::strategy::Strategy;

/// What is known of a page beside its text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// The name of the file that it is from.
    pub file_name: &'a str,
    /// The number of the page in the document, from 1.
    pub page: u32,
    /// What the document is, if somebody knows: one page alone may not show it.
    pub class: Option<Class>,
}

/// How large chunks may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// No chunk has more tokens, whatever the strategy; at least 64.
    pub max_tokens: u32,
    /// No row of a table is cut that has no more tokens, its header included.
    pub row_max_tokens: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { max_tokens: 2_048, row_max_tokens: 8_192 }
    }
}

/// A piece of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Its number on the page, from 0.
    pub index: u32,
    /// What it says.
    pub text: String,
    /// SHA-256 of the text.
    pub content_hash: [u8; 32],
    /// Its own bytes of the page's Markdown. Those of a page's chunks do not overlap.
    pub range: Range<usize>,
    /// How many bytes before its own the text repeats.
    pub overlap: usize,
    /// What is known of it.
    pub meta: Meta,
}

/// What is known of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The headings above it on its page, the highest first.
    pub heading_path: Vec<String>,
    /// Whether there is a table in it.
    pub contains_table: bool,
    /// Whether there is a list in it.
    pub contains_list: bool,
    /// Whether there is code in it.
    pub contains_code: bool,
    /// Whether there is an equation in it.
    pub contains_equation: bool,
    /// What the document is.
    pub document_type: DocumentType,
    /// What the document is about.
    pub domain: Domain,
    /// How much it matters, from 0.5 to 1.
    pub importance: f64,
    /// How the page was cut.
    pub strategy: Strategy,
    /// How many tokens it has, as far as can be said.
    pub token_estimate: u32,
}

/// The chunks of a page.
pub fn chunk(markdown: &str, context: &Context<'_>, limits: &Limits) -> Vec<Chunk> {
    let bare = images::without_images(markdown);
    let text = &*bare.text;
    let blocks = markdown::read(text);
    let class =
        context.class.unwrap_or_else(|| classify::classify(text, &blocks, context.file_name));
    let strategy = Strategy::choose(class, build(text, &blocks), limits);
    let sections = sections::sections(text, &blocks, strategy);
    let sizes = strategy.sizes(limits);
    let (atoms, frames) = atoms::atoms(text, &blocks, &sections, &sizes);
    let packer = Packer { text, atoms: &atoms, frames: &frames, strategy, sizes };
    let page = Page { bare: &bare, blocks: &blocks, sections: &sections, packer: &packer, class };
    let packs = match strategy {
        Strategy::WholeDocument => packer.whole(),
        _ => packer.pack(),
    };
    let chunks = packs.iter().enumerate();
    chunks.map(|(index, pack)| page.chunk(index, pack, context)).collect()
}

/// What a document is, by its text or that of its first page, and its file's name.
pub fn classify(markdown: &str, file_name: &str) -> Class {
    let bare = images::without_images(markdown);
    classify::classify(&bare.text, &markdown::read(&bare.text), file_name)
}

/// How many tokens a text has, as far as can be said without knowing whose.
pub fn token_estimate(text: &str) -> u32 {
    let tokens = text.chars().count().div_ceil(TOKEN_CHARS);
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

fn build(text: &str, blocks: &[Block]) -> Build {
    let is_table = |block: &&Block| matches!(block.kind, Kind::Table { .. });
    let chars = |block: &Block| text[block.range.clone()].chars().count();
    Build {
        chars: text.trim().chars().count(),
        headings: blocks.iter().any(|block| matches!(block.kind, Kind::Heading { .. })),
        table_chars: blocks.iter().filter(is_table).map(chars).sum(),
    }
}

/// A page that has been cut.
struct Page<'a> {
    bare: &'a Bare<'a>,
    blocks: &'a [Block],
    sections: &'a Sections,
    packer: &'a Packer<'a>,
    class: Class,
}

impl Page<'_> {
    fn chunk(&self, index: usize, pack: &Pack, context: &Context<'_>) -> Chunk {
        let atoms = &self.packer.atoms[pack.atoms.clone()];
        let own = atoms[0].range.start..atoms[atoms.len() - 1].range.end;
        let (before, after) = self.packer.frame(&pack.atoms);
        let text = [before, &self.bare.text[pack.start..own.end], after].concat();
        let range = self.bare.source(own.clone());
        let repeated = self.bare.source(pack.start..own.start).start;
        Chunk {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            content_hash: Sha256::digest(&text).into(),
            overlap: if pack.start < own.start { range.start - repeated } else { 0 },
            range,
            meta: self.meta(index, pack, context, &text),
            text,
        }
    }

    fn meta(&self, index: usize, pack: &Pack, context: &Context<'_>, text: &str) -> Meta {
        let atoms = &self.packer.atoms[pack.atoms.clone()];
        let holds =
            atoms.iter().fold(Holds::default(), |all, atom| all.and(self.blocks[atom.block].holds));
        let said = atoms.iter().find(|atom| !atom.leads).unwrap_or(&atoms[0]);
        let heading_path = self.sections.path(&self.bare.text, said.block);
        let first = index == 0 && context.page <= 1;
        Meta {
            importance: f64::from(sections::importance(&heading_path, first)) / 100.0,
            heading_path,
            contains_table: holds.table,
            contains_list: holds.list,
            contains_code: holds.code,
            contains_equation: holds.equation,
            document_type: self.class.document_type,
            domain: self.class.domain,
            strategy: self.packer.strategy,
            token_estimate: token_estimate(text),
        }
    }
}

#[cfg(test)]
mod tests;
