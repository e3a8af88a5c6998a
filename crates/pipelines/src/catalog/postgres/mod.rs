//! The catalog in PostgreSQL, for many servers: the schema `windrow_catalog`.
//!
//! Each verb is one short transaction. Locks are taken in one order: document, generations, page,
//! chunks, entities by id, the counter of sequences. If two meet all the same, the one that the
//! database ends begins again, which is harmless because every write may be repeated. Full-text
//! search is a `tsvector` with a GIN index.

/// A transaction that writes; it is done when it is committed.
macro_rules! write {
    ($self:ident, $tx:ident => $work:expr) => {
        again::<_, CatalogError, _>(|| async {
            let mut used = $self.pool.get().await?;
            let begun = used.writing().await?;
            let $tx = &begun;
            let done = $work.await?;
            begun.commit().await?;
            Ok(done)
        })
        .await
    };
}

/// A transaction that reads.
macro_rules! read {
    ($self:ident, $tx:ident => $work:expr) => {
        again::<_, CatalogError, _>(|| async {
            let mut used = $self.pool.get().await?;
            let begun = used.reading().await?;
            let $tx = &begun;
            $work.await
        })
        .await
    };
}

mod around;
mod chunks;
mod dimensions;
mod documents;
mod fingerprint;
mod graph;
mod leftovers;
#[cfg(test)]
mod locks;
mod memo;
mod moving;
mod pages;
#[cfg(test)]
mod plans;
mod removal;
mod rights;
mod search;
mod vectors;

use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

use self::removal::Left;
pub use self::rights::{Rights, is_begun, rights};
use super::bounds::{self, BATCH_MAX, NAME_BYTES_MAX, PAGES_MAX, REASON_BYTES_MAX};
use super::error::CatalogError;
use super::memo::check_values;
use super::{
    Added, Answer, Around, Catalog, Chunk, ChunkId, ChunkPlace, ChunkText, Counted, Deleted,
    Document, DocumentCursor, DocumentFilter, Entity, EntityFilter, EntityId, Generation,
    GenerationKey, Hash, Leftover, ManifestLine, MemoKey, MemoOf, MemoStats, Mention,
    MentionCursor, MentionedIn, Neighbour, NewChunk, NewDocument, NewGraph, NewVector, Node,
    OldGeneration, Page, PageChunks, PageKey, PageOutcome, Progress, Prominent, Published, Scope,
    TextHit, TextQuery, VectorCursor, VectorsSince,
};
use crate::postgres::migrate::{Schema, State, Step};
use crate::postgres::pool::Pool;
pub use crate::postgres::{Connect, Options};
use crate::postgres::{Trouble, again, value};

/// What is kept, and how it came to be.
const SCHEMA: Schema = Schema {
    name: "windrow_catalog",
    what: "catalog",
    lock: 0x7764_7263_6174,
    steps: &[Step { name: "catalog", sql: include_str!("schema/0001_catalog.sql") }],
};

/// A catalog in a database that many servers share.
#[derive(Debug)]
pub struct Postgres {
    pool: Pool,
}

impl Postgres {
    /// Opens a catalog and brings its schema up to date. Must be called within a runtime, which
    /// then drives the connections.
    pub async fn open(options: Options) -> Result<Postgres, CatalogError> {
        let pool = Pool::new(options);
        let mut used = pool.get().await?;
        SCHEMA.migrate(&mut used).await?;
        drop(used);
        Ok(Postgres { pool })
    }

    /// Brings the schema up to date, and says which steps were missing.
    pub async fn migrate(options: Options) -> Result<Vec<(i32, Step)>, CatalogError> {
        let mut used = Pool::new(options).get().await?;
        Ok(SCHEMA.migrate(&mut used).await?)
    }

    /// How far a database is. Changes nothing.
    pub async fn schema(options: Options) -> Result<State, CatalogError> {
        let used = Pool::new(options).get().await?;
        Ok(SCHEMA.look(&used).await?)
    }

    /// How far a database is in which there is nothing.
    pub fn no_schema() -> State {
        SCHEMA.nowhere()
    }
}

fn ms(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn time(ms: i64) -> Timestamp {
    Timestamp(ms.unsigned_abs())
}

fn uuid(id: [u8; 16]) -> Uuid {
    Uuid::from_bytes(id)
}

impl Postgres {
    async fn remove(&self, at: GenerationKey) -> Result<(), CatalogError> {
        while write!(self, tx => removal::slice(tx, at))? {}
        Ok(())
    }
}

impl Catalog for Postgres {
    fn add_document(&self, new: NewDocument, now: Timestamp) -> Answer<'_, Added> {
        Box::pin(async move {
            new.check()?;
            write!(self, tx => documents::add(tx, &new, now))
        })
    }

    fn owner(&self, id: Uuid) -> Answer<'_, Option<String>> {
        Box::pin(async move { read!(self, tx => documents::owner(tx, id)) })
    }

    fn document(&self, tenant: &str, id: Uuid) -> Answer<'_, Option<Document>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => documents::one(tx, &tenant, id))
        })
    }

    fn documents(
        &self,
        filter: DocumentFilter,
        after: Option<DocumentCursor>,
        limit: u32,
    ) -> Answer<'_, Vec<Document>> {
        Box::pin(async move {
            filter.check()?;
            read!(self, tx => documents::list(tx, &filter, after, bounds::rows(limit)))
        })
    }

    fn count_documents(&self, tenant: &str) -> Answer<'_, Vec<Counted>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => documents::count(tx, &tenant))
        })
    }

    fn generation(&self, tenant: &str, at: GenerationKey) -> Answer<'_, Option<Generation>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => documents::generation(tx, &tenant, at))
        })
    }

    fn has_content(&self, tenant: &str, hash: Hash) -> Answer<'_, bool> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => documents::has_content(tx, &tenant, &hash))
        })
    }

    fn fail_generation(&self, at: GenerationKey, why: Option<String>) -> Answer<'_, ()> {
        Box::pin(async move {
            let why = why.as_deref();
            bounds::text("a reason", why.unwrap_or_default(), REASON_BYTES_MAX)?;
            write!(self, tx => documents::fail(tx, at, why))
        })
    }

    fn note_item(&self, at: GenerationKey, item: ItemId) -> Answer<'_, ()> {
        Box::pin(async move { write!(self, tx => documents::note_item(tx, at, item)) })
    }

    fn unfinished(&self, after: Option<Uuid>, limit: u32) -> Answer<'_, Vec<Document>> {
        Box::pin(
            async move { read!(self, tx => documents::unfinished(tx, after, bounds::rows(limit))) },
        )
    }

    fn begin_pages(&self, of: GenerationKey, pages: u32) -> Answer<'_, ()> {
        Box::pin(async move {
            bounds::count("pages", pages as usize, PAGES_MAX as usize)?;
            write!(self, tx => pages::begin(tx, of, pages))
        })
    }

    fn put_page(&self, page: PageKey, outcome: PageOutcome) -> Answer<'_, ()> {
        Box::pin(async move {
            outcome.check()?;
            write!(self, tx => pages::put(tx, page, &outcome))
        })
    }

    fn page(&self, tenant: &str, page: PageKey) -> Answer<'_, Option<Page>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => pages::one(tx, &tenant, page))
        })
    }

    fn put_chunks(&self, page: PageKey, chunks: Vec<NewChunk>) -> Answer<'_, Vec<ChunkId>> {
        Box::pin(async move {
            NewChunk::check_all(&page, &chunks)?;
            write!(self, tx => chunks::put(tx, page, &chunks))
        })
    }

    fn chunks(&self, tenant: &str, page: PageKey) -> Answer<'_, Vec<Chunk>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => chunks::list(tx, &tenant, page))
        })
    }

    fn chunk_places(
        &self,
        tenant: &str,
        of: GenerationKey,
        after: (u32, u32),
        limit: u32,
    ) -> Answer<'_, Vec<ChunkPlace>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => chunks::places(tx, &tenant, of, after, bounds::rows(limit)))
        })
    }

    fn chunk_texts(&self, tenant: &str, ids: Vec<ChunkId>) -> Answer<'_, Vec<ChunkText>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            bounds::count("chunks", ids.len(), BATCH_MAX)?;
            read!(self, tx => chunks::texts(tx, &tenant, &ids))
        })
    }

    fn mark_embedded(&self, ids: Vec<ChunkId>, by: &str) -> Answer<'_, u32> {
        let by = by.to_owned();
        Box::pin(async move {
            bounds::name("an embedder", &by, NAME_BYTES_MAX)?;
            bounds::count("chunks", ids.len(), BATCH_MAX)?;
            write!(self, tx => chunks::mark(tx, &ids, &by))
        })
    }

    fn put_graph(&self, chunk: ChunkId, graph: NewGraph) -> Answer<'_, ()> {
        Box::pin(async move {
            graph.check()?;
            write!(self, tx => graph::put(tx, chunk, &graph))
        })
    }

    fn entity(&self, tenant: &str, id: EntityId) -> Answer<'_, Option<Entity>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => graph::entity(tx, &tenant, id))
        })
    }

    fn entities_called(&self, scope: &Scope, name: &str) -> Answer<'_, Vec<Entity>> {
        let (scope, name) = (scope.clone(), name.to_owned());
        Box::pin(async move {
            bounds::asked([&*scope.tenant, &*scope.collection, &*name])?;
            read!(self, tx => graph::called(tx, &scope, &name))
        })
    }

    fn mentions(&self, tenant: &str, chunks: Vec<ChunkId>) -> Answer<'_, Vec<Mention>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            bounds::count("chunks", chunks.len(), BATCH_MAX)?;
            read!(self, tx => graph::mentions(tx, &tenant, &chunks))
        })
    }

    fn neighbours(&self, tenant: &str, of: EntityId, limit: u32) -> Answer<'_, Vec<Neighbour>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => graph::neighbours(tx, &tenant, of, bounds::rows(limit)))
        })
    }

    fn around(
        &self,
        tenant: &str,
        of: EntityId,
        kind: Option<&str>,
        limit: u32,
    ) -> Answer<'_, Option<Around>> {
        let (tenant, kind) = (tenant.to_owned(), kind.map(str::to_owned));
        Box::pin(async move {
            bounds::asked([Some(&*tenant), kind.as_deref()].into_iter().flatten())?;
            read!(self, tx => around::around(tx, &tenant, of, kind.as_deref(), limit))
        })
    }

    fn prominent(&self, filter: EntityFilter) -> Answer<'_, Prominent> {
        Box::pin(async move {
            filter.check()?;
            read!(self, tx => around::sampled(tx, &filter))
        })
    }

    fn entities_named(
        &self,
        filter: EntityFilter,
        part: &str,
        limit: u32,
    ) -> Answer<'_, Vec<Node>> {
        let part = part.to_owned();
        Box::pin(async move {
            filter.check()?;
            bounds::asked([&*part])?;
            read!(self, tx => around::named(tx, &filter, &part, bounds::rows(limit)))
        })
    }

    fn mentioned_in(
        &self,
        tenant: &str,
        of: EntityId,
        after: MentionCursor,
        limit: u32,
    ) -> Answer<'_, Vec<MentionedIn>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => around::mentioned(tx, &tenant, of, after, bounds::rows(limit)))
        })
    }

    fn publish(&self, at: GenerationKey, now: Timestamp) -> Answer<'_, Published> {
        Box::pin(async move { write!(self, tx => documents::publish(tx, at, now)) })
    }

    fn old_generations(&self, limit: u32) -> Answer<'_, Vec<OldGeneration>> {
        Box::pin(async move { read!(self, tx => documents::old(tx, bounds::rows(limit))) })
    }

    fn remove_generation(&self, at: GenerationKey) -> Answer<'_, ()> {
        Box::pin(self.remove(at))
    }

    fn begin_delete(
        &self,
        tenant: &str,
        id: Uuid,
        sinks: Vec<String>,
        now: Timestamp,
    ) -> Answer<'_, bool> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            sinks.iter().try_for_each(|sink| bounds::name("a sink", sink, NAME_BYTES_MAX))?;
            write!(self, tx => removal::begin(tx, &tenant, id, &sinks, now))
        })
    }

    fn confirm_delete(&self, id: Uuid, sink: &str) -> Answer<'_, ()> {
        let sink = sink.to_owned();
        Box::pin(async move {
            bounds::asked([&*sink])?;
            write!(self, tx => removal::confirm(tx, id, &sink))
        })
    }

    fn delete_document(&self, id: Uuid) -> Answer<'_, Deleted> {
        Box::pin(async move {
            loop {
                match write!(self, tx => removal::finish(tx, id))? {
                    Left::Nothing => return Ok(Deleted::Gone),
                    Left::Sinks(sinks) => return Ok(Deleted::Waiting { sinks }),
                    Left::Generations(all) => {
                        for at in all {
                            self.remove(at).await?;
                        }
                    }
                }
            }
        })
    }

    fn progress(&self, tenant: &str, of: GenerationKey) -> Answer<'_, Option<Progress>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => pages::progress(tx, &tenant, of))
        })
    }

    fn progress_of(
        &self,
        tenant: &str,
        of: Vec<GenerationKey>,
    ) -> Answer<'_, Vec<Option<Progress>>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            bounds::count("generations", of.len(), BATCH_MAX)?;
            read!(self, tx => pages::progress_of(tx, &tenant, &of))
        })
    }

    fn page_chunks(
        &self,
        tenant: &str,
        of: GenerationKey,
        pages: Vec<u32>,
    ) -> Answer<'_, Vec<PageChunks>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            bounds::count("pages", pages.len(), BATCH_MAX)?;
            read!(self, tx => pages::chunks(tx, &tenant, of, &pages))
        })
    }

    fn manifest(
        &self,
        tenant: &str,
        of: GenerationKey,
        after: u32,
        limit: u32,
    ) -> Answer<'_, Vec<ManifestLine>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => pages::manifest(tx, &tenant, of, after, bounds::rows(limit)))
        })
    }

    fn search_text(&self, mut query: TextQuery) -> Answer<'_, Vec<TextHit>> {
        Box::pin(async move {
            query.check()?;
            query.limit = bounds::rows(query.limit);
            read!(self, tx => search::search(tx, &query))
        })
    }

    fn memo_get(
        &self,
        of: &MemoOf,
        keys: Vec<MemoKey>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<Vec<u8>>>> {
        let of = of.clone();
        Box::pin(async move {
            of.check(keys.len())?;
            write!(self, tx => memo::get(tx, &of, &keys, now))
        })
    }

    fn memo_put(
        &self,
        of: &MemoOf,
        values: Vec<(MemoKey, Vec<u8>)>,
        now: Timestamp,
    ) -> Answer<'_, ()> {
        let of = of.clone();
        Box::pin(async move {
            of.check(values.len())?;
            check_values(&values)?;
            write!(self, tx => memo::put(tx, &of, &values, now))
        })
    }

    fn memo_stats(&self, tenant: &str) -> Answer<'_, Vec<MemoStats>> {
        let tenant = tenant.to_owned();
        Box::pin(async move {
            bounds::asked([&*tenant])?;
            read!(self, tx => memo::stats(tx, &tenant))
        })
    }

    fn sweep_memos(&self, before: Timestamp, limit: u32) -> Answer<'_, u64> {
        Box::pin(async move { write!(self, tx => memo::sweep(tx, before, limit)) })
    }

    fn put_vectors(&self, vectors: Vec<NewVector>) -> Answer<'_, u32> {
        Box::pin(async move {
            NewVector::check_all(&vectors)?;
            write!(self, tx => vectors::put(tx, &vectors))
        })
    }

    fn vectors_since(&self, after: VectorCursor, limit: u32) -> Answer<'_, VectorsSince> {
        let limit = limit.clamp(1, BATCH_MAX as u32);
        Box::pin(async move { read!(self, tx => vectors::since(tx, after, limit)) })
    }

    fn newest_change(&self) -> Answer<'_, u64> {
        Box::pin(async move { read!(self, tx => vectors::newest(tx)) })
    }

    fn sweep_changes(&self, before: u64, limit: u32) -> Answer<'_, u64> {
        Box::pin(async move { write!(self, tx => vectors::sweep(tx, before, limit)) })
    }

    fn last_leftover(&self) -> Answer<'_, u64> {
        Box::pin(async move { read!(self, tx => leftovers::last(tx)) })
    }

    fn take_leftovers(&self, until: u64, limit: u32) -> Answer<'_, Vec<Leftover>> {
        let limit = bounds::rows(limit);
        Box::pin(async move { write!(self, tx => leftovers::take(tx, until, limit)) })
    }

    fn forget_leftovers(&self, numbers: Vec<u64>) -> Answer<'_, ()> {
        Box::pin(async move {
            bounds::count("leftovers", numbers.len(), BATCH_MAX)?;
            write!(self, tx => leftovers::forget(tx, &numbers))
        })
    }

    fn fingerprint(&self, scope: &Scope) -> Answer<'_, Hash> {
        let scope = scope.clone();
        Box::pin(async move {
            scope.check()?;
            read!(self, tx => fingerprint::fingerprint(tx, &scope))
        })
    }
}
