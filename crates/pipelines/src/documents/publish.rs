//! Publishing: when all pages have ended, the new generation is seen, and the one before goes.

use serde_json::json;
use windrow_client::worker::{Done, Handled, Job, Unread};

use super::Parts;
use super::fault::Fault;
use super::pages::about;
use super::remove::is_removal;
use crate::catalog::{GenerationKey, Published};

impl Parts {
    /// Makes a document's generation live, and removes those before it.
    pub(super) async fn publish(&self, job: &Job<Unread>) -> Handled<Done> {
        if is_removal(job) {
            return Ok(Done::complete());
        }
        let at = about(job).map_err(Fault::undone)?.generation();
        let removed = self.make_live(job.tenant(), at).await.map_err(Fault::undone)?;
        let told =
            json!({"document": at.document, "generation": at.generation, "removed": removed});
        Ok(Done::complete().result(&told))
    }

    async fn make_live(&self, tenant: &str, at: GenerationKey) -> Result<Vec<u32>, Fault> {
        let old = match self.keeping.publish(tenant, at).await? {
            Published::Live { old } => old,
            Published::Superseded { live } => {
                return Err(Fault::Gone(format!("generation {live} is live")));
            }
        };
        for generation in &old {
            let old = GenerationKey { generation: *generation, ..at };
            self.keeping.remove_generation(tenant, old).await?;
        }
        Ok(old)
    }
}
