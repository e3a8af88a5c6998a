//! Chunks in PostgreSQL, and everything that goes with one.
//!
//! Locks go from the generation to the page, its chunks, the entities by their ids, and the
//! counter of sequences last.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::chunk::{hash_of, metadata_of};
use super::super::error::CatalogError;
use super::super::words::bare_words;
use super::super::{
    Chunk, ChunkId, ChunkPlace, ChunkText, GenerationKey, NewChunk, PageKey, Scope, content_hash,
};
use super::documents::{self, Hold};
use super::value::{Tx, int, nat, values};
use super::{Trouble, graph, leftovers, uuid, vectors};

pub(super) const OF_PAGE: &str = "select id from windrow_catalog.chunks \
     where document = $1 and generation = $2 and page = $3 order by ordinal";

pub(super) const PLACES: &str = "select id, page, ordinal, hash, embedder is not null, linked \
     from windrow_catalog.chunks where document = $1 and generation = $2 \
     and (page, ordinal) > ($3, $4) and tenant = $5 order by page, ordinal limit $6";

pub(super) async fn put(
    tx: &Tx<'_>,
    page: PageKey,
    new: &[NewChunk],
) -> Result<Vec<ChunkId>, Trouble> {
    let scope = documents::open(tx, page.of(), Hold::Shared).await?;
    let sql = "update windrow_catalog.pages set chunks = $4 \
         where document = $1 and generation = $2 and number = $3";
    let count = new.len() as i32;
    let values = values![page.document, int(page.generation), int(page.number), count];
    if tx.run(sql, values).await? == 0 {
        return Err(CatalogError::bad(format!("there is no {page}")).into());
    }
    let id = |chunk: &NewChunk| ChunkId::of(&page, chunk.index, &content_hash(&chunk.text));
    let ids: Vec<ChunkId> = new.iter().map(id).collect();
    let wanted: HashSet<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let (kept, stale): (Vec<Uuid>, Vec<Uuid>) =
        of_page(tx, page).await?.into_iter().partition(|id| wanted.contains(id));
    leftovers::note_chunks(tx, page, &stale).await?;
    remove(tx, stale, true).await?;
    let fresh = ids.iter().zip(new).filter(|(id, _)| !kept.contains(&uuid(id.0)));
    insert(tx, &scope, page, &fresh.collect::<Vec<_>>()).await?;
    Ok(ids)
}

async fn insert(
    tx: &Tx<'_>,
    scope: &Scope,
    page: PageKey,
    new: &[(&ChunkId, &NewChunk)],
) -> Result<(), Trouble> {
    if new.is_empty() {
        return Ok(());
    }
    let sql = "insert into windrow_catalog.chunks (id, document, generation, page, ordinal, \
         tenant, collection, kind, linked, tokens, begins, ends, hash, metadata, text, words) \
         select n.id, $1, $2, $3, n.ordinal, $4, $5, n.kind, false, n.tokens, n.begins, n.ends, \
         n.hash, n.metadata, n.text, to_tsvector('windrow_catalog.words', n.bare) \
         from unnest($6::uuid[], $7::int[], $8::text[], $9::int[], $10::int[], $11::int[], \
         $12::bytea[], $13::text[], $14::text[], $15::text[]) \
         as n(id, ordinal, kind, tokens, begins, ends, hash, metadata, text, bare)";
    fn all<'a, T>(new: &[(&'a ChunkId, &'a NewChunk)], part: impl Fn(&'a NewChunk) -> T) -> Vec<T> {
        new.iter().map(|(_, chunk)| part(chunk)).collect()
    }
    let ids: Vec<Uuid> = new.iter().map(|(id, _)| uuid(id.0)).collect();
    leftovers::are_back(tx, &ids).await?;
    tx.run(
        sql,
        values![
            page.document,
            int(page.generation),
            int(page.number),
            scope.tenant,
            scope.collection,
            ids,
            all(new, |chunk| int(chunk.index)),
            all(new, |chunk| chunk.kind.as_str()),
            all(new, |chunk| int(chunk.tokens)),
            all(new, |chunk| int(chunk.begins)),
            all(new, |chunk| int(chunk.ends)),
            all(new, |chunk| content_hash(&chunk.text).to_vec()),
            all(new, |chunk| chunk.metadata.to_string()),
            all(new, |chunk| chunk.text.as_str()),
            all(new, |chunk| bare_words(&chunk.text))
        ],
    )
    .await?;
    Ok(())
}

async fn of_page(tx: &Tx<'_>, page: PageKey) -> Result<Vec<Uuid>, Trouble> {
    let values = values![page.document, int(page.generation), int(page.number)];
    let rows = tx.rows(OF_PAGE, values).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// A page that is not cut. Its row is locked.
pub(super) async fn clear(tx: &Tx<'_>, page: PageKey) -> Result<(), Trouble> {
    let all = of_page(tx, page).await?;
    leftovers::note_chunks(tx, page, &all).await?;
    remove(tx, all, true).await?;
    let sql = "update windrow_catalog.pages set chunks = null \
         where document = $1 and generation = $2 and number = $3";
    let values = values![page.document, int(page.generation), int(page.number)];
    tx.run(sql, values).await?;
    Ok(())
}

/// Chunks with their words, vectors and graph. Indexes are told unless they are told of more.
pub(super) async fn remove(tx: &Tx<'_>, chunks: Vec<Uuid>, tell: bool) -> Result<(), Trouble> {
    if chunks.is_empty() {
        return Ok(());
    }
    let sql = "select 1 from windrow_catalog.chunks where id = any($1) order by id for update";
    tx.run(sql, values![chunks]).await?;
    graph::clear(tx, &chunks).await?;
    let sql = "delete from windrow_catalog.chunks where id = any($1)";
    tx.run(sql, values![chunks]).await?;
    vectors::remove(tx, &chunks, tell).await
}

pub(super) async fn list(tx: &Tx<'_>, tenant: &str, page: PageKey) -> Result<Vec<Chunk>, Trouble> {
    let sql = "select id, ordinal, kind, text, hash, tokens, begins, ends, metadata, embedder, \
         linked from windrow_catalog.chunks \
         where document = $1 and generation = $2 and page = $3 and tenant = $4 order by ordinal";
    let values = values![page.document, int(page.generation), int(page.number), tenant];
    let rows = tx.rows(sql, values).await?;
    rows.iter().map(|row| chunk(row, page)).collect()
}

fn chunk(row: &Row, page: PageKey) -> Result<Chunk, Trouble> {
    Ok(Chunk {
        id: id_of(row, 0),
        page,
        index: nat(row.get(1)),
        kind: row.get(2),
        text: row.get(3),
        hash: hash_of(row.get(4))?,
        tokens: nat(row.get(5)),
        begins: nat(row.get(6)),
        ends: nat(row.get(7)),
        metadata: metadata_of(row.get(8))?,
        embedded_by: row.get(9),
        is_linked: row.get(10),
    })
}

pub(super) fn id_of(row: &Row, at: usize) -> ChunkId {
    ChunkId(row.get::<_, Uuid>(at).into_bytes())
}

pub(super) async fn places(
    tx: &Tx<'_>,
    tenant: &str,
    of: GenerationKey,
    (page, index): (u32, u32),
    limit: u32,
) -> Result<Vec<ChunkPlace>, Trouble> {
    let (generation, limit) = (int(of.generation), i64::from(limit));
    let values = values![of.document, generation, int(page), int(index), tenant, limit];
    let rows = tx.rows(PLACES, values).await?;
    let place = |row: &Row| {
        Ok(ChunkPlace {
            id: id_of(row, 0),
            page: nat(row.get(1)),
            index: nat(row.get(2)),
            hash: hash_of(row.get(3))?,
            is_embedded: row.get(4),
            is_linked: row.get(5),
        })
    };
    rows.iter().map(place).collect()
}

pub(super) async fn texts(
    tx: &Tx<'_>,
    tenant: &str,
    ids: &[ChunkId],
) -> Result<Vec<ChunkText>, Trouble> {
    let sql = "select c.id, c.document, c.generation, c.page, c.ordinal, c.kind, c.text, \
         c.collection, d.source, d.name, d.live is not distinct from c.generation, c.begins, \
         c.ends, c.hash, c.metadata from windrow_catalog.chunks c \
         join windrow_catalog.documents d on d.id = c.document \
         where c.id = any($1) and c.tenant = $2";
    let asked: Vec<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let rows = tx.rows(sql, values![asked, tenant]).await?;
    let text = |row: &Row| {
        Ok(ChunkText {
            id: id_of(row, 0),
            page: PageKey {
                document: row.get(1),
                generation: nat(row.get(2)),
                number: nat(row.get(3)),
            },
            index: nat(row.get(4)),
            kind: row.get(5),
            text: row.get(6),
            hash: hash_of(row.get(13))?,
            metadata: metadata_of(row.get(14))?,
            collection: row.get(7),
            source: row.get(8),
            name: row.get(9),
            is_live: row.get(10),
            begins: nat(row.get(11)),
            ends: nat(row.get(12)),
        })
    };
    let found: Result<HashMap<ChunkId, ChunkText>, Trouble> =
        rows.iter().map(|row| text(row).map(|text| (text.id, text))).collect();
    let found = found?;
    Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
}

pub(super) async fn mark(tx: &Tx<'_>, ids: &[ChunkId], by: &str) -> Result<u32, Trouble> {
    let ids: Vec<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let sql = "update windrow_catalog.chunks set embedder = $2 where id in \
         (select c.id from windrow_catalog.chunks c join windrow_catalog.generations g \
         on g.document = c.document and g.number = c.generation and g.state <> 'old' \
         where c.id = any($1) order by c.id for no key update of c)";
    Ok(tx.run(sql, values![ids, by]).await? as u32)
}
