//! Cutting: a page becomes chunks, and is split into them unless its document waits for all.

use windrow_client::worker::{Done, Handled, Job, Undone, Unread};
use windrow_core::tally::OnGaps;

use super::child::chunk_child;
use super::elsewhere::Below;
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
        let child = |(index, chunk): (u32, Cut)| {
            chunk_child(index, chunk.id, chunk.hash, chunk.below, &CHUNK)
        };
        let children = (0..).zip(chunks).map(child).collect();
        Ok(Done::split(children).on_gaps(OnGaps::Continue))
    }

    /// What a page is cut into, in order.
    async fn chunks(&self, tenant: &str, about: &About) -> Result<Vec<Cut>, Fault> {
        let number = about.page.ok_or_else(|| Fault::bad("the item does not say which page"))?;
        let key = about.page(number);
        let Some(markdown) = self.keeping.markdown(tenant, key).await? else {
            return Err(Fault::Gone(key.to_string()));
        };
        let known = match self.elsewhere(tenant, about).await? {
            Some(entry) => self.cut_elsewhere(tenant, &entry, key, &markdown).await?,
            None => None,
        };
        let (chunks, below) = match known {
            Some(known) => known.into_iter().map(|(chunk, below)| (chunk, Some(below))).unzip(),
            None => {
                let chunks = self.cut_here(about.name.clone(), number, markdown).await?;
                let none = vec![None; chunks.len()];
                (chunks, none)
            }
        };
        let hashes: Vec<Hash> = chunks.iter().map(|chunk| content_hash(&chunk.text)).collect();
        let ids = self.keeping.put_chunks(tenant, key, chunks).await?;
        let all = ids.into_iter().zip(hashes).zip(below);
        Ok(all.map(|((id, hash), below)| Cut { id, hash, below }).collect())
    }

    async fn cut_here(
        &self,
        name: String,
        number: u32,
        markdown: String,
    ) -> Result<Vec<NewChunk>, Fault> {
        let limits = self.limits;
        let cut = move || {
            let context = Context { file_name: &name, page: number, class: None };
            chunk::chunk(&markdown, &context, &limits)
        };
        let chunks = tokio::task::spawn_blocking(cut).await.map_err(Fault::passing)?;
        let chunks: Result<Vec<NewChunk>, _> = chunks.into_iter().map(new_chunk).collect();
        chunks.map_err(Fault::bad)
    }
}

/// A chunk of a page, and how it stood elsewhere if it is from there.
struct Cut {
    id: ChunkId,
    hash: Hash,
    below: Option<Below>,
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
