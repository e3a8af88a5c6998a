//! The phases of a document whose pages and chunks wait for each other: it is split anew for each.
//!
//! Sees in the catalog what came of the phase before, and makes children of what went well. To
//! split a document again makes those that are missing, because children keep their numbers.

use std::sync::Arc;

use windrow_client::worker::{Done, Handled, Job, Unread};
use windrow_core::command::NewChild;
use windrow_core::route::Route;
use windrow_core::tally::OnGaps;

use super::child::{chunk_child, page_child};
use super::fault::Fault;
use super::remove::is_removal;
use super::route::{CHUNK_EMBEDDED, CHUNK_LINKED, PAGE_CUT, chunk_number};
use super::{About, Parts, stage};
use crate::catalog::ChunkPlace;

impl Parts {
    /// Splits a document into what goes through its next phase.
    pub(super) async fn next_phase(&self, job: &Job<Unread>) -> Handled<Done> {
        if is_removal(job) {
            return Ok(Done::complete());
        }
        let children = self.children(job).await.map_err(Fault::undone)?;
        Ok(Done::split(children).on_gaps(OnGaps::Continue))
    }

    async fn children(&self, job: &Job<Unread>) -> Result<Vec<NewChild>, Fault> {
        let (tenant, about) = (job.tenant(), self.known(job).await?);
        match job.stage() {
            stage::CUT => self.pages_read(tenant, &about).await,
            stage::EMBED => self.chunks_of(tenant, &about, |_| true, &CHUNK_EMBEDDED).await,
            // A chunk without words has no vector, and nothing to say.
            stage::LINK => {
                self.chunks_of(tenant, &about, |chunk| chunk.is_embedded, &CHUNK_LINKED).await
            }
            other => Err(Fault::bad(format!("a document has no stage {other:?}"))),
        }
    }

    /// Pages that were read.
    async fn pages_read(&self, tenant: &str, about: &About) -> Result<Vec<NewChild>, Fault> {
        let numbers = self.keeping.pages_read(tenant, about.generation()).await?;
        let child = |number: u32| page_child(about, number, &PAGE_CUT);
        Ok(numbers.into_iter().map(child).collect())
    }

    /// Chunks that are meant.
    async fn chunks_of(
        &self,
        tenant: &str,
        about: &About,
        is_meant: impl Fn(&ChunkPlace) -> bool,
        route: &Arc<Route>,
    ) -> Result<Vec<NewChild>, Fault> {
        let (mut children, mut after) = (Vec::new(), (0, 0));
        let mut entry = self.elsewhere(tenant, about).await?;
        loop {
            let at = about.generation();
            let places = self.keeping.places(tenant, at, after).await?;
            let Some(last) = places.last() else { return Ok(children) };
            after = (last.page, last.index);
            for place in places.iter().filter(|place| is_meant(place)) {
                let below = match &mut entry {
                    Some(entry) => entry.below(place.page, place.index).await?,
                    None => None,
                };
                let number = chunk_number(place.page, place.index);
                children.push(chunk_child(number, place.id, place.hash, below, route));
            }
        }
    }
}
