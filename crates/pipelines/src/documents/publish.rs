//! Publishing: when all pages have ended, the new generation is seen, and the one before goes.

use serde_json::json;
use windrow_client::worker::{Done, Handled, Job, Unread};

use super::Parts;
use super::fault::Fault;
use super::remove::is_removal;
use super::vector::without_vector;
use crate::catalog::{GenerationKey, ManifestOutcome, Published};

/// Chunks that are looked at for words.
const LOOKED_AT: u32 = 100;

impl Parts {
    /// Makes a document's generation live, and removes those before it.
    pub(super) async fn publish(&self, job: &Job<Unread>) -> Handled<Done> {
        if is_removal(job) {
            return Ok(Done::complete());
        }
        let at = self.known(job).await.map_err(Fault::undone)?.generation();
        if let Some(why) = self.is_empty(job.tenant(), at).await.map_err(Fault::undone)? {
            let noted = self.catalog.fail_generation(at, Some(why.clone())).await;
            noted.map_err(|error| Fault::from(error).undone())?;
            // The item itself has done what it could. Its gaps say what failed, and whoever has
            // them done again comes by here again.
            let told = json!({"document": at.document, "generation": at.generation, "failed": why});
            return Ok(Done::complete().result(&told));
        }
        let removed = self.make_live(at).await.map_err(|fault| fault.patiently().undone())?;
        let told =
            json!({"document": at.document, "generation": at.generation, "removed": removed});
        Ok(Done::complete().result(&told))
    }

    /// Why a generation is not to be seen: nothing came of it. What is seen instead stays.
    async fn is_empty(&self, tenant: &str, at: GenerationKey) -> Result<Option<String>, Fault> {
        let Some(progress) = self.catalog.progress(tenant, at).await? else { return Ok(None) };
        if progress.pages_read == 0 && progress.pages_without > 0 {
            let first = self.catalog.manifest(tenant, at, 0, 1).await?.pop();
            let why = match first.map(|line| line.outcome) {
                Some(ManifestOutcome::Without { reason }) => reason,
                _ => "the manifest has the reasons".to_owned(),
            };
            return Ok(Some(format!("no page could be read; the first: {why}")));
        }
        let known = self.catalog.document(tenant, at.document).await?;
        let replaces = known.and_then(|known| known.live).is_some_and(|live| live != at.generation);
        if replaces && progress.chunks_embedded == 0 && self.has_words(tenant, at).await? {
            let why = "nothing of it could be embedded; the version before stays";
            return Ok(Some(why.to_owned()));
        }
        Ok(None)
    }

    /// Whether one of the first chunks has words, of which there should be a vector.
    async fn has_words(&self, tenant: &str, at: GenerationKey) -> Result<bool, Fault> {
        let places = self.catalog.chunk_places(tenant, at, (0, 0), LOOKED_AT).await?;
        let ids = places.into_iter().map(|place| place.id).collect();
        let texts = self.catalog.chunk_texts(tenant, ids).await?;
        Ok(texts.iter().any(|chunk| without_vector(chunk).is_none()))
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

    /// Removes a generation everywhere. To repeat it is harmless.
    pub(super) async fn remove(&self, at: GenerationKey) -> Result<(), Fault> {
        if let Some(vectors) = &self.vectors {
            vectors.remove_generation(at.document, at.generation).await?;
        }
        self.graph.remove_generation(at).await?;
        Ok(self.catalog.remove_generation(at).await?)
    }
}
