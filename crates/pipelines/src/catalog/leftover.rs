//! Leftovers: what was removed here and may lie somewhere else all the same.
//!
//! Whoever embeds or links a chunk may not have heard that it is gone, and write it to a store
//! outside after it was removed there. So everything that is removed is noted, in the same
//! transaction, and is removed outside once more when nobody can be that late.

use uuid::Uuid;

use super::{ChunkId, GenerationKey};

/// Something that is gone, and the number under which that is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leftover {
    pub number: u64,
    pub of: Removed,
}

/// What is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removed {
    Document(Uuid),
    Generation(GenerationKey),
    Chunk(ChunkId),
}

impl Removed {
    /// As a row has it.
    pub(super) fn of_row(
        document: Uuid,
        generation: Option<u32>,
        chunk: Option<[u8; 16]>,
    ) -> Removed {
        match (generation, chunk) {
            (_, Some(chunk)) => Removed::Chunk(ChunkId(chunk)),
            (Some(generation), None) => Removed::Generation(GenerationKey { document, generation }),
            (None, None) => Removed::Document(document),
        }
    }
}
