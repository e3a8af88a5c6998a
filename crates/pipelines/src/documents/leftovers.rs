//! Leftovers: what is gone from the catalog goes from the stores outside, for certain.
//!
//! A stage may write to a store outside after what it writes was removed there: it had not heard of
//! it yet, or was killed before it could take it back. So what is gone is removed once more, when
//! it was gone already at the look before: looks are further apart than any stage is late. A
//! generation that is old and that nobody removes goes in the same way.

use std::collections::HashSet;

use super::{AtHand, Unkept};
use crate::catalog::{GenerationKey, Leftover, Removed};

/// How much is removed in one step.
const STEP: u32 = 200;

/// Looks after what is left over, a look now and then.
#[derive(Debug)]
pub struct Leftovers {
    at_hand: AtHand,
    /// The newest that was there at the look before.
    until: u64,
    /// Generations that were old then.
    old: HashSet<GenerationKey>,
}

/// Why something is left over still. The next look tries again.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StillThere(String);

impl Leftovers {
    pub fn new(at_hand: AtHand) -> Leftovers {
        Leftovers { at_hand, until: 0, old: HashSet::new() }
    }

    /// Removes what was left over at the look before. Says how much that was.
    pub async fn look(&mut self) -> Result<usize, StillThere> {
        self.removed().await.map_err(|error| StillThere(error.to_string()))
    }

    async fn removed(&mut self) -> Result<usize, Unkept> {
        let catalog = &self.at_hand.catalog;
        let last = catalog.last_leftover().await?;
        let old = catalog.old_generations(STEP).await?;
        let old: HashSet<GenerationKey> = old.into_iter().map(|old| old.at).collect();
        let mut removed = 0;
        for at in old.intersection(&self.old) {
            self.at_hand.remove_old(*at).await?;
            removed += 1;
        }
        loop {
            let some = catalog.take_leftovers(self.until, STEP).await?;
            if some.is_empty() {
                break;
            }
            self.at_hand.remove_again(&some).await?;
            removed += some.len();
            catalog.forget_leftovers(some.iter().map(|one| one.number).collect()).await?;
        }
        (self.until, self.old) = (last, old);
        Ok(removed)
    }
}

impl AtHand {
    /// Removes every generation that is old, for whoever begins: nobody else does it then.
    pub async fn remove_all_old(&self) -> Result<usize, Unkept> {
        let mut removed = 0;
        loop {
            let old = self.catalog.old_generations(STEP).await?;
            if old.is_empty() {
                return Ok(removed);
            }
            removed += old.len();
            for one in old {
                self.remove_old(one.at).await?;
            }
        }
    }

    /// Removes from the stores outside what is gone here.
    async fn remove_again(&self, leftovers: &[Leftover]) -> Result<(), Unkept> {
        let mut chunks = Vec::new();
        for leftover in leftovers {
            match leftover.of {
                Removed::Chunk(chunk) => chunks.push(chunk),
                Removed::Generation(at) => {
                    if let Some(vectors) = &self.vectors {
                        vectors.remove_generation(at.document, at.generation).await?;
                    }
                    self.graph.remove_generation(at).await?;
                }
                Removed::Document(document) => {
                    if let Some(vectors) = &self.vectors {
                        vectors.remove_document(document).await?;
                    }
                    self.graph.remove_document(document).await?;
                }
            }
        }
        if let Some(vectors) = &self.vectors {
            let ids: Vec<_> = chunks.iter().map(|chunk| chunk.0).collect();
            vectors.remove_chunks(&ids).await?;
        }
        Ok(self.graph.remove_chunks(&chunks).await?)
    }
}
