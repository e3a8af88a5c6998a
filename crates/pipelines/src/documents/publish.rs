//! Publishing: when all pages have ended, the new generation is seen, and the one before goes.

use serde_json::json;
use windrow_client::worker::{Done, Handled, Job, Unread};

use super::Parts;
use super::fault::Fault;
use super::pages::about;
use super::remove::is_removal;
use crate::catalog::{CatalogError, GenerationKey, Published};

/// Old generations that are asked for at once.
const SLICE: u32 = 100;

impl Parts {
    /// Makes a document's generation live, and removes those before it.
    pub(super) async fn publish(&self, job: &Job<Unread>) -> Handled<Done> {
        if is_removal(job) {
            return Ok(Done::complete());
        }
        let at = about(job).map_err(Fault::undone)?.generation();
        let removed = self.make_live(at).await.map_err(Fault::undone)?;
        let told =
            json!({"document": at.document, "generation": at.generation, "removed": removed});
        Ok(Done::complete().result(&told))
    }

    async fn make_live(&self, at: GenerationKey) -> Result<Vec<u32>, Fault> {
        let old = match self.catalog.publish(at, self.clock.now()).await? {
            Published::Live { old } => old,
            Published::Superseded { live } => {
                return Err(Fault::Gone(format!("generation {live} is live")));
            }
        };
        for generation in &old {
            self.remove(GenerationKey { generation: *generation, ..at }).await?;
        }
        Ok(old)
    }

    /// Removes what became old and was not removed, because whoever did it is gone. Says how many
    /// generations that were.
    pub async fn remove_old(&self) -> Result<usize, CatalogError> {
        let mut removed = 0;
        loop {
            let old = self.catalog.old_generations(SLICE).await?;
            if old.is_empty() {
                return Ok(removed);
            }
            removed += old.len();
            for one in old {
                self.remove(one.at).await.map_err(|fault| CatalogError::transient(fault.why()))?;
            }
        }
    }

    /// Removes a generation everywhere. To repeat it is harmless.
    pub(super) async fn remove(&self, at: GenerationKey) -> Result<(), Fault> {
        if let Some(vectors) = &self.vectors {
            vectors.remove_generation(at.document, at.generation).await?;
        }
        self.graph.remove_generation(at).await?;
        Ok(self.catalog.remove_generation(at).await?)
    }
}
