//! Publishing: when all pages have ended, the new generation is seen, and the one before goes.

use serde_json::json;
use windrow_client::worker::{Done, Handled, Job, Unread};

use super::fault::Fault;
use super::remove::is_removal;
use super::{Parts, Publication};
use crate::catalog::GenerationKey;

impl Parts {
    /// Makes a document's generation live, and removes those before it.
    pub(super) async fn publish(&self, job: &Job<Unread>) -> Handled<Done> {
        if is_removal(job) {
            return Ok(Done::complete());
        }
        // However long it takes: all of the work is done.
        let patiently = |fault: Fault| fault.patiently().undone();
        let at = self.known(job).await.map_err(patiently)?.generation();
        let made = self.make_live(job.tenant(), at).await;
        let told = match made.map_err(patiently)? {
            Ok(removed) => {
                json!({"document": at.document, "generation": at.generation, "removed": removed})
            }
            // The item itself has done what it could. Its gaps say what failed, and whoever has
            // them done again comes by here again.
            Err(why) => {
                json!({"document": at.document, "generation": at.generation, "failed": why})
            }
        };
        Ok(Done::complete().result(&told))
    }

    /// Which generations went, or why the new one is not to be seen.
    async fn make_live(
        &self,
        tenant: &str,
        at: GenerationKey,
    ) -> Result<Result<Vec<u32>, String>, Fault> {
        let old = match self.keeping.publish(tenant, at).await? {
            Publication::Live { old } => old,
            Publication::Superseded { live } => {
                return Err(Fault::Gone(format!("generation {live} is live")));
            }
            Publication::Empty { why } => return Ok(Err(why)),
        };
        for generation in &old {
            let old = GenerationKey { generation: *generation, ..at };
            self.keeping.remove_generation(tenant, old).await?;
        }
        Ok(Ok(old))
    }
}
