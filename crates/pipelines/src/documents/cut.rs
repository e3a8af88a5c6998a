//! Cutting: a page becomes chunks, and is split into them unless its document waits for all.

use windrow_client::worker::{Done, Handled, Job, Undone, Unread};
use windrow_core::tally::OnGaps;

use super::child::chunk_child;
use super::fault::Fault;
use super::pages::about;
use super::route::{CHUNK, Gate};
use super::{About, Parts};
use crate::catalog::{ChunkId, Hash, NewChunk, content_hash};
use crate::text::chunk::{self, Context};

impl Parts {
    /// Cuts a page into its chunks.
    pub(super) async fn cut(&self, job: &Job<Unread>) -> Handled<Done> {
        let about = about(job).map_err(Fault::undone)?;
        let chunks = self.chunks(job.tenant(), &about).await.map_err(Fault::undone)?;
        if chunks.is_empty() {
            return Err(Undone::skip("content_pattern: there is no text on this page"));
        }
        if Gate::of_page(&job.work().body.route) == Gate::Document {
            return Ok(Done::complete());
        }
        let child = |(index, (id, hash))| chunk_child(index, id, hash, &CHUNK);
        let children = (0..).zip(chunks).map(child).collect();
        Ok(Done::split(children).on_gaps(OnGaps::Continue))
    }

    /// What a page is cut into, in order.
    async fn chunks(&self, tenant: &str, about: &About) -> Result<Vec<(ChunkId, Hash)>, Fault> {
        let number = about.page.ok_or_else(|| Fault::bad("the item does not say which page"))?;
        let key = about.page(number);
        let Some(markdown) = self.keeping.markdown(tenant, key).await? else {
            return Err(Fault::Gone(key.to_string()));
        };
        let (name, limits) = (about.name.clone(), self.limits);
        let cut = move || {
            let context = Context { file_name: &name, page: number, class: None };
            chunk::chunk(&markdown, &context, &limits)
        };
        let chunks = tokio::task::spawn_blocking(cut).await.map_err(Fault::passing)?;
        let chunks: Result<Vec<NewChunk>, _> = chunks.into_iter().map(new_chunk).collect();
        let chunks = chunks.map_err(Fault::bad)?;
        let hashes: Vec<Hash> = chunks.iter().map(|chunk| content_hash(&chunk.text)).collect();
        let ids = self.keeping.put_chunks(tenant, key, chunks).await?;
        Ok(ids.into_iter().zip(hashes).collect())
    }
}

fn new_chunk(chunk: chunk::Chunk) -> serde_json::Result<NewChunk> {
    Ok(NewChunk {
        index: chunk.index,
        kind: if chunk.meta.contains_table { "table" } else { "text" }.into(),
        tokens: chunk.meta.token_estimate,
        begins: chunk.range.start as u32,
        ends: chunk.range.end as u32,
        metadata: serde_json::to_value(&chunk.meta)?,
        text: chunk.text,
    })
}
