//! Hybrid search: by words and by meaning at once.
//!
//! Each finds what the other misses: words find names and numbers, vectors what is said in other
//! words. Both are asked for more than is wanted, and their rankings are fused. If one of them
//! cannot be asked, the other answers, and the reply says so.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join;
use uuid::Uuid;

use super::fuse::{Fused, List, Part, fuse};
use super::index::{Index, Near};
use crate::adapters::embed::{Embedder, embed_all};
use crate::adapters::vectors::{Filter, Hit, Vectors};
use crate::catalog::{
    BATCH_MAX, Catalog, CatalogError, ChunkId, ChunkText, Snippet, TextQuery, snippet, words,
};

/// Of each ranking so many times as many are asked for as are wanted.
const DEEPER: u32 = 4;
/// And at least so many.
const DEEP_MIN: u32 = 50;
/// A store that gave too little of what is live is asked for so many times as many.
const WIDER: usize = 4;
/// And for no more: there is a limit to what is not live.
const WIDE_MAX: usize = BATCH_MAX;
/// The most that anybody may want.
pub const LIMIT_MAX: u32 = 200;

/// What is looked for, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    pub text: String,
    pub tenant: String,
    pub collection: Option<String>,
    pub document: Option<Uuid>,
    pub limit: u32,
}

/// What was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The best first.
    pub hits: Vec<Passage>,
    /// Why one of the rankings is missing, or a part of it, if one is.
    pub missing: Option<String>,
}

/// A passage that was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Passage {
    pub chunk: ChunkText,
    pub snippet: Snippet,
    pub score: f64,
    /// What each ranking said.
    pub parts: Vec<Part>,
}

/// Where vectors are looked up.
#[derive(Clone, Debug)]
pub enum Nearest {
    /// In memory, from the catalog.
    Index(Arc<Index>),
    /// In a store of their own.
    Store(Arc<dyn Vectors>),
}

/// What the vectors found, and why something was passed over.
type Nearby = (Vec<(ChunkId, f32)>, Option<String>);

/// What searches.
#[derive(Clone, Debug)]
pub struct Search {
    pub catalog: Arc<dyn Catalog>,
    pub embedder: Arc<dyn Embedder>,
    pub nearest: Nearest,
}

impl Search {
    /// Finds passages. Fails only if nobody could be asked.
    pub async fn find(&self, query: &Query) -> Result<Found, CatalogError> {
        let limit = query.limit.clamp(1, LIMIT_MAX);
        let deep = (limit * DEEPER).max(DEEP_MIN);
        let (by_words, by_meaning) =
            join(self.by_words(query, deep), self.by_meaning(query, deep)).await;
        let (by_words, by_meaning, missing) = match (by_words, by_meaning) {
            (Ok(words), Ok((meaning, passed_over))) => {
                (words, meaning, passed_over.map(|why| format!("not all vectors: {why}")))
            }
            (Ok(words), Err(why)) => (words, Vec::new(), Some(format!("no vectors: {why}"))),
            (Err(why), Ok((meaning, _))) => (Vec::new(), meaning, Some(format!("no words: {why}"))),
            (Err(why), Err(_)) => return Err(why),
        };
        let lists = [
            List { name: "words", found: &by_words },
            List { name: "vectors", found: &by_meaning },
        ];
        // Of what is found some may go before it is read.
        let fused = fuse(&lists, deep as usize);
        let hits = self.passages(query, fused, limit as usize).await?;
        Ok(Found { hits, missing })
    }

    async fn by_words(
        &self,
        query: &Query,
        deep: u32,
    ) -> Result<Vec<(ChunkId, f32)>, CatalogError> {
        let query = TextQuery {
            collection: query.collection.clone(),
            document: query.document,
            limit: deep,
            ..TextQuery::of(query.tenant.as_str(), query.text.as_str())
        };
        let hits = self.catalog.search_text(query).await?;
        Ok(hits.into_iter().map(|hit| (hit.chunk, hit.score as f32)).collect())
    }

    /// What is nearest, and why something was passed over if it was.
    async fn by_meaning(&self, query: &Query, deep: u32) -> Result<Nearby, String> {
        if query.text.trim().is_empty() {
            return Ok((Vec::new(), None));
        }
        let embedded = embed_all(&*self.embedder, &[&query.text]).await;
        let vector = embedded.map_err(|error| error.to_string())?.pop().unwrap_or_default();
        let filter = Filter {
            tenant: Some(query.tenant.as_str().into()),
            collection: query.collection.as_deref().map(Into::into),
            document: query.document,
            live: None,
        };
        let deep = deep as usize;
        let Near { hits, passed_over } = match &self.nearest {
            Nearest::Index(index) => {
                index.search(&vector, filter, deep).await.map_err(|error| error.to_string())?
            }
            Nearest::Store(store) => {
                let hits = self.in_store(&**store, &vector, &filter, deep).await?;
                Near { hits, passed_over: None }
            }
        };
        let scored = hits.into_iter().map(|hit| (ChunkId(hit.point.id), hit.score));
        Ok((scored.collect(), passed_over))
    }

    /// What a store finds, as far as search sees it. A store also holds generations that are being
    /// built and those that are on their way out, which may lie nearer; if too few of the others
    /// are left, it is asked for more.
    async fn in_store(
        &self,
        store: &dyn Vectors,
        vector: &[f32],
        filter: &Filter,
        deep: usize,
    ) -> Result<Vec<Hit>, String> {
        let tenant = filter.tenant.as_deref().unwrap_or_default();
        let mut known: HashMap<ChunkId, bool> = HashMap::new();
        let mut wanted = deep;
        loop {
            let hits = store.search(vector, filter, wanted).await;
            let mut hits = hits.map_err(|error| error.to_string())?;
            let is_all = hits.len() < wanted;
            let ids = hits.iter().map(|hit| ChunkId(hit.point.id));
            let ids: Vec<ChunkId> = ids.filter(|id| !known.contains_key(id)).collect();
            // What the catalog does not know is nowhere to be seen.
            known.extend(ids.iter().map(|id| (*id, false)));
            let texts = self.catalog.chunk_texts(tenant, ids).await;
            let texts = texts.map_err(|error| error.to_string())?;
            known.extend(texts.into_iter().map(|text| (text.id, text.is_live)));
            hits.retain(|hit| known.get(&ChunkId(hit.point.id)) == Some(&true));
            if is_all || hits.len() >= deep || wanted >= WIDE_MAX {
                hits.truncate(deep);
                return Ok(hits);
            }
            wanted = (wanted * WIDER).min(WIDE_MAX);
        }
    }

    /// The texts of what was found, as far as they are still live.
    async fn passages(
        &self,
        query: &Query,
        fused: Vec<Fused<ChunkId>>,
        limit: usize,
    ) -> Result<Vec<Passage>, CatalogError> {
        let ids = fused.iter().map(|fused| fused.id).collect();
        let texts = self.catalog.chunk_texts(&query.tenant, ids).await?;
        let mut texts: HashMap<ChunkId, ChunkText> =
            texts.into_iter().filter(|text| text.is_live).map(|text| (text.id, text)).collect();
        let words = words(&query.text);
        let passage = |Fused { id, score, parts }: Fused<ChunkId>| {
            let chunk = texts.remove(&id)?;
            let snippet = snippet(&chunk.text, &words);
            Some(Passage { chunk, snippet, score, parts })
        };
        Ok(fused.into_iter().filter_map(passage).take(limit).collect())
    }
}
