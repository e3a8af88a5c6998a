//! Chunks in SQLite, and everything that goes with one.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use uuid::Uuid;

use super::super::chunk::{hash_of, metadata_of, uuid_of};
use super::super::error::CatalogError;
use super::super::{
    Chunk, ChunkId, ChunkPlace, ChunkText, GenerationKey, NewChunk, PageKey, Scope, content_hash,
};
use super::{documents, graph, leftovers, search, vectors};

pub(super) const OF_PAGE: &str = "select row, id from chunks \
     where document = ?1 and generation = ?2 and page = ?3 order by ordinal";

pub(super) const PLACES: &str = "select id, page, ordinal, hash, embedder is not null, linked \
     from chunks where document = ?1 and generation = ?2 and (page, ordinal) > (?3, ?4) \
     and tenant = ?5 order by page, ordinal limit ?6";

pub(super) fn put(
    db: &Connection,
    page: PageKey,
    new: &[NewChunk],
) -> Result<Vec<ChunkId>, CatalogError> {
    let scope = documents::open(db, page.of())?;
    let sql =
        "update pages set chunks = ?4 where document = ?1 and generation = ?2 and number = ?3";
    let id = page.document.as_bytes();
    let changed = db.prepare_cached(sql)?.execute(params![
        id,
        page.generation,
        page.number,
        new.len() as i64
    ])?;
    if changed == 0 {
        return Err(CatalogError::bad(format!("there is no {page}")));
    }
    let new: Vec<(ChunkId, [u8; 32], &NewChunk)> = new
        .iter()
        .map(|chunk| {
            let hash = content_hash(&chunk.text);
            (ChunkId::of(&page, chunk.index, &hash), hash, chunk)
        })
        .collect();
    let wanted: HashSet<ChunkId> = new.iter().map(|(id, ..)| *id).collect();
    let mut kept = HashSet::new();
    for (row, id) in of_page(db, page)? {
        if wanted.contains(&id) {
            kept.insert(id);
        } else {
            remove(db, row, id, page.of(), true)?;
            leftovers::note_chunk(db, page, id)?;
        }
    }
    for (id, hash, chunk) in new.iter().filter(|(id, ..)| !kept.contains(id)) {
        leftovers::is_back(db, *id)?;
        insert(db, &scope, page, *id, hash, chunk)?;
    }
    Ok(new.iter().map(|(id, ..)| *id).collect())
}

fn insert(
    db: &Connection,
    scope: &Scope,
    page: PageKey,
    id: ChunkId,
    hash: &[u8; 32],
    chunk: &NewChunk,
) -> Result<(), CatalogError> {
    let sql = "insert into chunks (id, document, generation, page, ordinal, tenant, collection, \
         kind, linked, tokens, begins, ends, hash, metadata, text) \
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10, ?11, ?12, ?13, ?14)";
    db.prepare_cached(sql)?.execute(params![
        id.0,
        page.document.as_bytes(),
        page.generation,
        page.number,
        chunk.index,
        scope.tenant,
        scope.collection,
        chunk.kind,
        chunk.tokens,
        chunk.begins,
        chunk.ends,
        hash,
        chunk.metadata.to_string(),
        chunk.text
    ])?;
    search::index(db, db.last_insert_rowid(), scope, page.document, &chunk.text)
}

fn of_page(db: &Connection, page: PageKey) -> Result<Vec<(i64, ChunkId)>, CatalogError> {
    let mut found = db.prepare_cached(OF_PAGE)?;
    let at = params![page.document.as_bytes(), page.generation, page.number];
    let found: Result<Vec<(i64, [u8; 16])>, _> =
        found.query_map(at, |row| Ok((row.get(0)?, row.get(1)?)))?.collect();
    Ok(found?.into_iter().map(|(row, id)| (row, ChunkId(id))).collect())
}

/// A page that is not cut.
pub(super) fn clear(db: &Connection, page: PageKey) -> Result<(), CatalogError> {
    for (row, id) in of_page(db, page)? {
        remove(db, row, id, page.of(), true)?;
        leftovers::note_chunk(db, page, id)?;
    }
    let sql =
        "update pages set chunks = null where document = ?1 and generation = ?2 and number = ?3";
    let at = params![page.document.as_bytes(), page.generation, page.number];
    db.prepare_cached(sql)?.execute(at)?;
    Ok(())
}

/// A chunk with its words, vector and graph. Indexes are told unless they are told of more.
pub(super) fn remove(
    db: &Connection,
    row: i64,
    id: ChunkId,
    of: GenerationKey,
    tell: bool,
) -> Result<(), CatalogError> {
    search::remove(db, row)?;
    graph::clear(db, row, of)?;
    vectors::remove(db, id, tell)?;
    db.prepare_cached("delete from chunks where row = ?1")?.execute([row])?;
    Ok(())
}

pub(super) fn list(
    db: &Connection,
    tenant: &str,
    page: PageKey,
) -> Result<Vec<Chunk>, CatalogError> {
    let sql = "select id, ordinal, kind, text, hash, tokens, begins, ends, metadata, embedder, \
         linked from chunks \
         where document = ?1 and generation = ?2 and page = ?3 and tenant = ?4 order by ordinal";
    let mut found = db.prepare_cached(sql)?;
    let at = params![page.document.as_bytes(), page.generation, page.number, tenant];
    let mut rows = found.query(at)?;
    let mut chunks = Vec::new();
    while let Some(row) = rows.next()? {
        chunks.push(chunk(row, page)?);
    }
    Ok(chunks)
}

fn chunk(row: &Row<'_>, page: PageKey) -> Result<Chunk, CatalogError> {
    Ok(Chunk {
        id: ChunkId(row.get(0)?),
        page,
        index: row.get(1)?,
        kind: row.get(2)?,
        text: row.get(3)?,
        hash: hash_of(&row.get::<_, Vec<u8>>(4)?)?,
        tokens: row.get(5)?,
        begins: row.get(6)?,
        ends: row.get(7)?,
        metadata: metadata_of(&row.get::<_, String>(8)?)?,
        embedded_by: row.get(9)?,
        is_linked: row.get(10)?,
    })
}

pub(super) fn places(
    db: &Connection,
    tenant: &str,
    of: GenerationKey,
    (page, index): (u32, u32),
    limit: u32,
) -> Result<Vec<ChunkPlace>, CatalogError> {
    let mut found = db.prepare_cached(PLACES)?;
    let document = of.document.as_bytes();
    let mut rows = found.query(params![document, of.generation, page, index, tenant, limit])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        places.push(ChunkPlace {
            id: ChunkId(row.get(0)?),
            page: row.get(1)?,
            index: row.get(2)?,
            hash: hash_of(&row.get::<_, Vec<u8>>(3)?)?,
            is_embedded: row.get(4)?,
            is_linked: row.get(5)?,
        });
    }
    Ok(places)
}

pub(super) fn texts(
    db: &Connection,
    tenant: &str,
    ids: &[ChunkId],
) -> Result<Vec<ChunkText>, CatalogError> {
    let sql = "select c.document, c.generation, c.page, c.ordinal, c.kind, c.text, c.collection, \
         d.source, d.name, d.live is c.generation, c.begins, c.ends, c.hash, c.metadata \
         from chunks c join documents d on d.id = c.document where c.id = ?1 and c.tenant = ?2";
    let mut one = db.prepare_cached(sql)?;
    let mut texts = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = one.query(params![id.0, tenant])?;
        let Some(row) = rows.next()? else { continue };
        let document = uuid_of(&row.get::<_, Vec<u8>>(0)?)?;
        texts.push(ChunkText {
            id: *id,
            page: PageKey { document, generation: row.get(1)?, number: row.get(2)? },
            index: row.get(3)?,
            kind: row.get(4)?,
            text: row.get(5)?,
            hash: hash_of(&row.get::<_, Vec<u8>>(12)?)?,
            metadata: metadata_of(&row.get::<_, String>(13)?)?,
            collection: row.get(6)?,
            source: row.get(7)?,
            name: row.get(8)?,
            is_live: row.get(9)?,
            begins: row.get(10)?,
            ends: row.get(11)?,
        });
    }
    Ok(texts)
}

pub(super) fn mark(db: &Connection, ids: &[ChunkId], by: &str) -> Result<u32, CatalogError> {
    let sql = "update chunks set embedder = ?2 where id = ?1 and exists \
         (select 1 from generations g where g.document = chunks.document \
         and g.number = chunks.generation and g.state <> 'old')";
    let mut one = db.prepare_cached(sql)?;
    let mut marked = 0;
    for id in ids {
        marked += one.execute(params![id.0, by])? as u32;
    }
    Ok(marked)
}

/// The row of a chunk, where it is, and whose.
pub(super) fn place(
    db: &Connection,
    id: ChunkId,
) -> Result<Option<(i64, PageKey, Scope)>, CatalogError> {
    let sql = "select c.document, c.generation, c.page, c.tenant, c.collection, c.row \
         from chunks c \
         join generations g on g.document = c.document and g.number = c.generation \
         where c.id = ?1 and g.state <> 'old'";
    let found = db.prepare_cached(sql)?.query_row([id.0], |row| {
        let scope = Scope { tenant: row.get(3)?, collection: row.get(4)? };
        Ok((row.get(5)?, row.get::<_, [u8; 16]>(0)?, row.get(1)?, row.get(2)?, scope))
    });
    let Some((row, document, generation, number, scope)) = found.optional()? else {
        return Ok(None);
    };
    let page = PageKey { document: Uuid::from_bytes(document), generation, number };
    Ok(Some((row, page, scope)))
}
