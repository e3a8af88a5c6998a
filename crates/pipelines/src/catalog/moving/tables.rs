//! What there is to move: the tables that both databases have, by their columns.
//!
//! Leaves out what a database keeps for itself: rows' numbers, and the words of chunks. And what is
//! left over: nobody is late with a write to a store outside while everything stands still.

use super::{Cell, Row};

/// A table, as both databases have it.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    /// The key first.
    pub(in super::super) columns: &'static [Column],
    /// So many columns are the key.
    keys: usize,
    /// So many rows are moved together: fewer of what is large.
    pub(super) slice: u32,
}

#[derive(Debug)]
pub(in super::super) struct Column {
    pub(in super::super) name: &'static str,
    pub(in super::super) kind: Kind,
}

/// How a value is kept. Any may be missing where the schema lets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Kind {
    /// Sixteen bytes.
    Id,
    /// Of 32 bits, or of 64.
    Short,
    Long,
    Flag,
    Real,
    Text,
    Bytes,
}

impl Table {
    /// Made with the schema, with rows in it.
    pub(in super::super) fn is_always_there(&self) -> bool {
        self.name == "counters"
    }

    pub(in super::super) fn key<'a>(&self, row: &'a Row) -> &'a [Cell] {
        &row[..self.keys.min(row.len())]
    }

    pub(in super::super) fn key_names(&self) -> String {
        names(&self.columns[..self.keys])
    }

    pub(in super::super) fn key_kinds(&self) -> impl Iterator<Item = Kind> {
        self.columns[..self.keys].iter().map(|column| column.kind)
    }

    pub(in super::super) fn names(&self) -> String {
        names(self.columns)
    }
}

fn names(columns: &[Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    names.join(", ")
}

macro_rules! tables {
    ($($name:ident by $keys:literal, $slice:literal: $($kind:ident $($column:ident)+),*;)*) => {
        [$(Table {
            name: stringify!($name),
            keys: $keys,
            slice: $slice,
            columns: &[$($(Column { name: stringify!($column), kind: Kind::$kind }),+),*],
        }),*]
    };
}

/// Every table, in an order in which what is referred to comes first.
pub static TABLES: [Table; 14] = tables! {
    documents by 1, 500: Id id, Text tenant collection source name folded_name state,
        Short newest live, Long added_at changed_at;
    generations by 2, 500: Id document, Short number, Text state, Bytes hash, Text media_type,
        Long bytes, Text place, Short pages, Text failure, Long added_at published_at, Text item;
    deletions by 2, 500: Id document, Text sink, Flag confirmed;
    pages by 3, 50: Id document, Short generation number, Text state how, Bytes hash, Text reason,
        Long bytes, Short chunks, Text markdown;
    chunks by 1, 500: Id id document, Short generation page ordinal,
        Text tenant collection kind embedder, Flag linked, Short tokens begins ends, Bytes hash,
        Text metadata text;
    entities by 1, 500: Id id, Text tenant collection kind name;
    mentions by 2, 500: Id chunk entity document, Short generation, Text name description,
        Real score;
    relationships by 4, 500: Id chunk source target, Text kind, Id document, Short generation,
        Text description, Real weight;
    vectors by 1, 500: Id chunk, Long sequence, Id document, Short generation page,
        Text tenant collection, Bytes vector;
    dimensions by 2, 500: Id document, Short generation, Text tenant collection, Short dimension;
    changes by 1, 500: Long sequence, Text kind, Id document, Short generation, Id chunk;
    memos by 2, 50: Text tenant, Bytes key, Text phase, Long bytes used_at, Bytes value;
    memo_counts by 2, 500: Text tenant phase, Long hits misses;
    counters by 1, 500: Text name, Long value;
};
