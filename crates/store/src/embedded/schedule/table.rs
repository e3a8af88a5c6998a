//! A hash table of numbers, in shards. Each grows by itself, so no growth ever moves more than a
//! small part.

use hashbrown::HashTable;

const SHARDS: usize = 256;

/// Numbers by the hash of what they stand for.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Vec<HashTable<u32>>,
}

impl Default for Table {
    fn default() -> Table {
        Table { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

fn shard(hash: u64) -> usize {
    (hash >> 24) as usize % SHARDS
}

impl Table {
    pub(crate) fn insert(&mut self, hash: u64, no: u32, rehash: impl Fn(u32) -> u64) {
        self.shards[shard(hash)].insert_unique(hash, no, |no| rehash(*no));
    }

    pub(crate) fn reserve(&mut self, entries: usize, rehash: impl Fn(u32) -> u64) {
        for shard in &mut self.shards {
            shard.reserve(entries / SHARDS, |no| rehash(*no));
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, no: u32) {
        if let Ok(entry) = self.shards[shard(hash)].find_entry(hash, |known| *known == no) {
            entry.remove();
        }
    }

    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.shards[shard(hash)].find(hash, |no| is(*no)).copied()
    }

    /// The table in so many parts, to be filled side by side.
    pub(crate) fn split(&mut self, parts: usize) -> impl Iterator<Item = Part<'_>> {
        let each = SHARDS.div_ceil(parts);
        let parts = self.shards.chunks_mut(each).enumerate();
        parts.map(move |(no, shards)| Part { first: no * each, shards })
    }
}

/// Some shards of a table.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    first: usize,
    shards: &'a mut [HashTable<u32>],
}

impl Part<'_> {
    /// Whether what has this hash belongs here.
    pub(crate) fn has(&self, hash: u64) -> bool {
        (self.first..self.first + self.shards.len()).contains(&shard(hash))
    }

    pub(crate) fn insert(&mut self, hash: u64, no: u32, rehash: impl Fn(u32) -> u64) {
        self.shards[shard(hash) - self.first].insert_unique(hash, no, |no| rehash(*no));
    }
}
