//! The catalog in SQLite, for one server: a file beside the embedded queue.
//!
//! One thread writes (`writer.rs`), a few connections read (`readers.rs`). Full-text search is
//! FTS5. What each table is for is said in `schema/0001_catalog.sql`.

mod around;
mod chunks;
mod copy;
mod dimensions;
mod documents;
mod fingerprint;
mod graph;
mod leftovers;
mod memo;
mod moving;
mod open;
mod pages;
#[cfg(test)]
mod plans;
mod readers;
mod removal;
mod said;
mod search;
mod vectors;
mod writer;

use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

pub use self::copy::Restored;
use self::readers::Readers;
use self::removal::Left;
use self::writer::Writer;
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

/// A catalog in a file.
#[derive(Debug)]
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
}

impl Sqlite {
    /// Opens a catalog, or makes it. Must be called within a runtime, whose threads then read.
    pub fn open(path: &Path) -> Result<Sqlite, CatalogError> {
        let writer = Writer::start(open::writer(path)?)?;
        let readers = Readers::new(path.to_owned(), tokio::runtime::Handle::current());
        Ok(Sqlite { writer, readers })
    }

    fn read<T: Send + 'static>(
        &self,
        checked: Result<(), CatalogError>,
        work: impl FnOnce(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Answer<'_, T> {
        if let Err(error) = checked {
            return Box::pin(async { Err(error) });
        }
        self.readers.read(work)
    }

    fn write<T: Send + 'static>(
        &self,
        checked: Result<(), CatalogError>,
        work: impl FnMut(&Connection) -> Result<T, CatalogError> + Send + 'static,
    ) -> Answer<'_, T> {
        if let Err(error) = checked {
            return Box::pin(async { Err(error) });
        }
        self.writer.hand_in(work)
    }

    async fn remove(&self, at: GenerationKey) -> Result<(), CatalogError> {
        while self.writer.hand_in(move |db| removal::slice(db, at)).await? {}
        Ok(())
    }
}

/// Whether it can work later. What is damaged, or was meant differently, cannot.
impl From<rusqlite::Error> for CatalogError {
    fn from(error: rusqlite::Error) -> CatalogError {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::OperationInterrupted,
            ) => CatalogError::transient(error),
            _ => CatalogError::bad(error.to_string()),
        }
    }
}

fn ms(time: Timestamp) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn time(ms: i64) -> Timestamp {
    Timestamp(ms.unsigned_abs())
}

impl Catalog for Sqlite {
    fn add_document(&self, new: NewDocument, now: Timestamp) -> Answer<'_, Added> {
        self.write(new.check(), move |db| documents::add(db, &new, now))
    }

    fn owner(&self, id: Uuid) -> Answer<'_, Option<String>> {
        self.read(Ok(()), move |db| documents::owner(db, id))
    }

    fn document(&self, tenant: &str, id: Uuid) -> Answer<'_, Option<Document>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| documents::one(db, &tenant, id))
    }

    fn documents(
        &self,
        filter: DocumentFilter,
        after: Option<DocumentCursor>,
        limit: u32,
    ) -> Answer<'_, Vec<Document>> {
        self.read(filter.check(), move |db| {
            documents::list(db, &filter, after, bounds::rows(limit))
        })
    }

    fn count_documents(&self, tenant: &str) -> Answer<'_, Vec<Counted>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| documents::count(db, &tenant))
    }

    fn generation(&self, tenant: &str, at: GenerationKey) -> Answer<'_, Option<Generation>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| documents::generation(db, &tenant, at))
    }

    fn has_content(&self, tenant: &str, hash: Hash) -> Answer<'_, bool> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| documents::has_content(db, &tenant, &hash))
    }

    fn fail_generation(&self, at: GenerationKey, why: Option<String>) -> Answer<'_, ()> {
        let reason = why.as_deref().unwrap_or_default();
        let checked = bounds::text("a reason", reason, REASON_BYTES_MAX);
        self.write(checked, move |db| documents::fail(db, at, why.as_deref()))
    }

    fn note_item(&self, at: GenerationKey, item: ItemId) -> Answer<'_, ()> {
        self.write(Ok(()), move |db| documents::note_item(db, at, item))
    }

    fn unfinished(&self, after: Option<Uuid>, limit: u32) -> Answer<'_, Vec<Document>> {
        self.read(Ok(()), move |db| documents::unfinished(db, after, bounds::rows(limit)))
    }

    fn begin_pages(&self, of: GenerationKey, pages: u32) -> Answer<'_, ()> {
        let checked = bounds::count("pages", pages as usize, PAGES_MAX as usize);
        self.write(checked, move |db| pages::begin(db, of, pages))
    }

    fn put_page(&self, page: PageKey, outcome: PageOutcome) -> Answer<'_, ()> {
        self.write(outcome.check(), move |db| pages::put(db, page, outcome.clone()))
    }

    fn page(&self, tenant: &str, page: PageKey) -> Answer<'_, Option<Page>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| pages::one(db, &tenant, page))
    }

    fn put_chunks(&self, page: PageKey, chunks: Vec<NewChunk>) -> Answer<'_, Vec<ChunkId>> {
        let checked = NewChunk::check_all(&page, &chunks);
        self.write(checked, move |db| chunks::put(db, page, &chunks))
    }

    fn chunks(&self, tenant: &str, page: PageKey) -> Answer<'_, Vec<Chunk>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| chunks::list(db, &tenant, page))
    }

    fn chunk_places(
        &self,
        tenant: &str,
        of: GenerationKey,
        after: (u32, u32),
        limit: u32,
    ) -> Answer<'_, Vec<ChunkPlace>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            chunks::places(db, &tenant, of, after, bounds::rows(limit))
        })
    }

    fn chunk_texts(&self, tenant: &str, ids: Vec<ChunkId>) -> Answer<'_, Vec<ChunkText>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            bounds::count("chunks", ids.len(), BATCH_MAX)?;
            chunks::texts(db, &tenant, &ids)
        })
    }

    fn mark_embedded(&self, ids: Vec<ChunkId>, by: &str) -> Answer<'_, u32> {
        let by = by.to_owned();
        let checked = bounds::name("an embedder", &by, NAME_BYTES_MAX)
            .and_then(|()| bounds::count("chunks", ids.len(), BATCH_MAX));
        self.write(checked, move |db| chunks::mark(db, &ids, &by))
    }

    fn put_graph(&self, chunk: ChunkId, graph: NewGraph) -> Answer<'_, ()> {
        let checked = graph.check();
        let distinct = graph.distinct();
        self.write(checked, move |db| graph::put(db, chunk, &distinct))
    }

    fn entity(&self, tenant: &str, id: EntityId) -> Answer<'_, Option<Entity>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| graph::entity(db, &tenant, id))
    }

    fn entities_called(&self, scope: &Scope, name: &str) -> Answer<'_, Vec<Entity>> {
        let checked = bounds::asked([&*scope.tenant, &*scope.collection, name]);
        let (scope, name) = (scope.clone(), name.to_owned());
        self.read(checked, move |db| graph::called(db, &scope, &name))
    }

    fn mentions(&self, tenant: &str, chunks: Vec<ChunkId>) -> Answer<'_, Vec<Mention>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            bounds::count("chunks", chunks.len(), BATCH_MAX)?;
            graph::mentions(db, &tenant, &chunks)
        })
    }

    fn neighbours(&self, tenant: &str, of: EntityId, limit: u32) -> Answer<'_, Vec<Neighbour>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            graph::neighbours(db, &tenant, of, bounds::rows(limit))
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
        let checked = bounds::asked([Some(&*tenant), kind.as_deref()].into_iter().flatten());
        self.read(checked, move |db| around::around(db, &tenant, of, kind.as_deref(), limit))
    }

    fn prominent(&self, filter: EntityFilter) -> Answer<'_, Prominent> {
        self.read(filter.check(), move |db| around::sampled(db, &filter))
    }

    fn entities_named(
        &self,
        filter: EntityFilter,
        part: &str,
        limit: u32,
    ) -> Answer<'_, Vec<Node>> {
        let checked = filter.check().and_then(|()| bounds::asked([part]));
        let part = part.to_owned();
        self.read(checked, move |db| around::named(db, &filter, &part, bounds::rows(limit)))
    }

    fn mentioned_in(
        &self,
        tenant: &str,
        of: EntityId,
        after: MentionCursor,
        limit: u32,
    ) -> Answer<'_, Vec<MentionedIn>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            around::mentioned(db, &tenant, of, after, bounds::rows(limit))
        })
    }

    fn publish(&self, at: GenerationKey, now: Timestamp) -> Answer<'_, Published> {
        self.write(Ok(()), move |db| documents::publish(db, at, now))
    }

    fn old_generations(&self, limit: u32) -> Answer<'_, Vec<OldGeneration>> {
        self.read(Ok(()), move |db| documents::old(db, bounds::rows(limit)))
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
        let checked =
            sinks.iter().try_for_each(|sink| bounds::name("a sink", sink, NAME_BYTES_MAX));
        self.write(checked, move |db| removal::begin(db, &tenant, id, &sinks, now))
    }

    fn confirm_delete(&self, id: Uuid, sink: &str) -> Answer<'_, ()> {
        let sink = sink.to_owned();
        self.write(Ok(()), move |db| removal::confirm(db, id, &sink))
    }

    fn delete_document(&self, id: Uuid) -> Answer<'_, Deleted> {
        Box::pin(async move {
            loop {
                match self.writer.hand_in(move |db| removal::finish(db, id)).await? {
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
        self.read(bounds::asked([&*tenant]), move |db| pages::progress(db, &tenant, of))
    }

    fn progress_of(
        &self,
        tenant: &str,
        of: Vec<GenerationKey>,
    ) -> Answer<'_, Vec<Option<Progress>>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            bounds::count("generations", of.len(), BATCH_MAX)?;
            of.into_iter().map(|of| pages::progress(db, &tenant, of)).collect()
        })
    }

    fn page_chunks(
        &self,
        tenant: &str,
        of: GenerationKey,
        pages: Vec<u32>,
    ) -> Answer<'_, Vec<PageChunks>> {
        let tenant = tenant.to_owned();
        self.read(bounds::asked([&*tenant]), move |db| {
            bounds::count("pages", pages.len(), BATCH_MAX)?;
            pages::chunks(db, &tenant, of, &pages)
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
        self.read(bounds::asked([&*tenant]), move |db| {
            pages::manifest(db, &tenant, of, after, bounds::rows(limit))
        })
    }

    fn search_text(&self, mut query: TextQuery) -> Answer<'_, Vec<TextHit>> {
        query.limit = bounds::rows(query.limit);
        self.read(query.check(), move |db| search::search(db, &query))
    }

    fn memo_get(
        &self,
        of: &MemoOf,
        keys: Vec<MemoKey>,
        now: Timestamp,
    ) -> Answer<'_, Vec<Option<Vec<u8>>>> {
        let (of, asked) = (of.clone(), of.clone());
        Box::pin(async move {
            of.check(keys.len())?;
            let found = self.read(Ok(()), move |db| memo::get(db, &asked, &keys, now)).await?;
            let hits = found.values.iter().flatten().count();
            let misses = found.values.len() - hits;
            let stale = found.stale;
            // Nobody waits for a count.
            drop(self.writer.hand_in(move |db| memo::count(db, &of, hits, misses, &stale, now)));
            Ok(found.values)
        })
    }

    fn memo_put(
        &self,
        of: &MemoOf,
        values: Vec<(MemoKey, Vec<u8>)>,
        now: Timestamp,
    ) -> Answer<'_, ()> {
        let of = of.clone();
        let checked = of.check(values.len()).and_then(|()| check_values(&values));
        self.write(checked, move |db| memo::put(db, &of, &values, now))
    }

    fn memo_stats(&self, tenant: &str) -> Answer<'_, Vec<MemoStats>> {
        let tenant = tenant.to_owned();
        // In line after the counts that were sent before.
        self.write(Ok(()), move |db| memo::stats(db, &tenant))
    }

    fn sweep_memos(&self, before: Timestamp, limit: u32) -> Answer<'_, u64> {
        self.write(Ok(()), move |db| memo::sweep(db, before, limit))
    }

    fn put_vectors(&self, vectors: Vec<NewVector>) -> Answer<'_, u32> {
        self.write(NewVector::check_all(&vectors), move |db| vectors::put(db, &vectors))
    }

    fn put_embedded<'a>(&'a self, vectors: Vec<NewVector>, by: &'a str) -> Answer<'a, u32> {
        let ids: Vec<ChunkId> = vectors.iter().map(|vector| vector.chunk).collect();
        let by = by.to_owned();
        let checked = NewVector::check_all(&vectors)
            .and_then(|()| bounds::name("an embedder", &by, NAME_BYTES_MAX));
        self.write(checked, move |db| {
            vectors::put(db, &vectors)?;
            chunks::mark(db, &ids, &by)
        })
    }

    fn vectors_since(&self, after: VectorCursor, limit: u32) -> Answer<'_, VectorsSince> {
        let limit = limit.clamp(1, BATCH_MAX as u32);
        self.read(Ok(()), move |db| vectors::since(db, after, limit))
    }

    fn newest_change(&self) -> Answer<'_, u64> {
        self.read(Ok(()), vectors::newest)
    }

    fn sweep_changes(&self, before: u64, limit: u32) -> Answer<'_, u64> {
        self.write(Ok(()), move |db| vectors::sweep(db, before, limit))
    }

    fn last_leftover(&self) -> Answer<'_, u64> {
        self.read(Ok(()), leftovers::last)
    }

    fn take_leftovers(&self, until: u64, limit: u32) -> Answer<'_, Vec<Leftover>> {
        self.write(Ok(()), move |db| leftovers::take(db, until, bounds::rows(limit)))
    }

    fn forget_leftovers(&self, numbers: Vec<u64>) -> Answer<'_, ()> {
        let checked = bounds::count("leftovers", numbers.len(), BATCH_MAX);
        self.write(checked, move |db| leftovers::forget(db, &numbers))
    }

    fn fingerprint(&self, scope: &Scope) -> Answer<'_, Hash> {
        let scope = scope.clone();
        self.read(scope.check(), move |db| fingerprint::fingerprint(db, &scope))
    }
}
