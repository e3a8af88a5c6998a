//! Vectors in SQLite, and the log of what else happened to them.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::vectors::{Given, change_of, vector_bytes, vector_of};
use super::super::{
    ChunkId, GenerationKey, NewVector, Point, Scope, VectorChange, VectorCursor, VectorsSince,
};
use super::{chunks, dimensions};

pub(super) const SINCE: &str = "select sequence, chunk, document, generation, page, tenant, \
     collection, vector from vectors where sequence > ?1 order by sequence limit ?2";
pub(super) const CHANGES_SINCE: &str = "select sequence, kind, document, generation, chunk \
     from changes where sequence > ?1 order by sequence limit ?2";

pub(super) fn put(db: &Connection, new: &[NewVector]) -> Result<u32, CatalogError> {
    let mut there = 0;
    let mut checked = HashSet::new();
    for NewVector { chunk, vector } in new {
        let Some((_, page, scope)) = chunks::place(db, *chunk)? else { continue };
        there += 1;
        if checked.insert((page.of(), vector.len())) {
            let given = Given { at: page.of(), scope: scope.clone(), dimension: vector.len() };
            dimensions::check(db, &given)?;
        }
        let bytes = vector_bytes(vector);
        let sql = "select sequence, vector = ?2 from vectors where chunk = ?1";
        let known = db
            .prepare_cached(sql)?
            .query_row(params![chunk.0, bytes], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        match known.optional()? {
            // What is the same already is no news for any index.
            Some((_, true)) => continue,
            Some((sequence, false)) => {
                db.prepare_cached("delete from vectors where sequence = ?1")?
                    .execute([sequence])?;
            }
            None => {}
        }
        let sql = "insert into vectors \
             (sequence, chunk, document, generation, page, tenant, collection, vector) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (document, sequence) = (page.document.as_bytes(), next(db)?);
        let Scope { tenant, collection } = scope;
        db.prepare_cached(sql)?.execute(params![
            sequence,
            chunk.0,
            document,
            page.generation,
            page.number,
            tenant,
            collection,
            bytes
        ])?;
    }
    Ok(there)
}

fn next(db: &Connection) -> Result<i64, CatalogError> {
    let sql = "update counters set value = value + 1 where name = 'sequence' returning value";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// The vector of a chunk goes.
pub(super) fn remove(db: &Connection, chunk: ChunkId, tell: bool) -> Result<(), CatalogError> {
    let sql = "delete from vectors where chunk = ?1 returning document, generation";
    let gone = db
        .prepare_cached(sql)?
        .query_row([chunk.0], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?)))
        .optional()?;
    match gone {
        Some((document, generation)) if tell => {
            let at = GenerationKey { document: uuid_of(&document)?, generation };
            log(db, "removed", at, Some(chunk))
        }
        _ => Ok(()),
    }
}

/// A generation is what search sees of its document from now on.
pub(super) fn log_live(db: &Connection, at: GenerationKey) -> Result<(), CatalogError> {
    forget_live(db, at)?;
    log(db, "live", at, None)
}

/// A generation is no longer seen.
pub(super) fn log_removed(db: &Connection, at: GenerationKey) -> Result<(), CatalogError> {
    log(db, "removed", at, None)
}

/// Nothing of a document is live.
pub(super) fn forget_live(db: &Connection, at: GenerationKey) -> Result<(), CatalogError> {
    let sql = "delete from changes where document = ?1 and kind = 'live'";
    db.prepare_cached(sql)?.execute([at.document.as_bytes()])?;
    Ok(())
}

fn log(
    db: &Connection,
    kind: &str,
    at: GenerationKey,
    chunk: Option<ChunkId>,
) -> Result<(), CatalogError> {
    let sql = "insert into changes (sequence, kind, document, generation, chunk) \
         values (?1, ?2, ?3, ?4, ?5)";
    let (document, chunk) = (at.document.as_bytes(), chunk.map(|chunk| chunk.0));
    db.prepare_cached(sql)?.execute(params![next(db)?, kind, document, at.generation, chunk])?;
    Ok(())
}

pub(super) fn since(
    db: &Connection,
    after: VectorCursor,
    limit: u32,
) -> Result<VectorsSince, CatalogError> {
    let sql = "select value from counters where name = 'forgotten'";
    let forgotten: i64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let Some(after) = after.go_on(forgotten.unsigned_abs()) else {
        return Ok(VectorsSince::BeginAgain);
    };
    let from = i64::try_from(after.sequence).unwrap_or(i64::MAX);
    let mut changes = Vec::new();
    let mut found = db.prepare_cached(SINCE)?;
    let mut rows = found.query(params![from, limit])?;
    while let Some(row) = rows.next()? {
        let point = Point {
            chunk: ChunkId(row.get(1)?),
            document: uuid_of(&row.get::<_, Vec<u8>>(2)?)?,
            generation: row.get(3)?,
            page: row.get(4)?,
            scope: Scope { tenant: row.get(5)?, collection: row.get(6)? },
        };
        let vector = vector_of(row.get_ref(7)?.as_blob().map_err(rusqlite::Error::from)?)?;
        let sequence: i64 = row.get(0)?;
        changes.push((sequence.unsigned_abs(), VectorChange::Put { point, vector }));
    }
    let mut found = db.prepare_cached(CHANGES_SINCE)?;
    let mut rows = found.query(params![from, limit])?;
    while let Some(row) = rows.next()? {
        let (sequence, kind): (i64, String) = (row.get(0)?, row.get(1)?);
        let document = uuid_of(&row.get::<_, Vec<u8>>(2)?)?;
        let change = change_of(&kind, document, row.get(3)?, row.get(4)?)?;
        changes.push((sequence.unsigned_abs(), change));
    }
    Ok(VectorsSince::new(after, changes, limit as usize))
}

pub(super) fn newest(db: &Connection) -> Result<u64, CatalogError> {
    let sql = "select value from counters where name = 'sequence'";
    let newest: i64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(newest.unsigned_abs())
}

pub(super) fn sweep(db: &Connection, before: u64, limit: u32) -> Result<u64, CatalogError> {
    let sql = "delete from changes where sequence in (select sequence from changes \
         where kind = 'removed' and sequence < ?1 order by sequence limit ?2) returning sequence";
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let mut gone = db.prepare_cached(sql)?;
    let gone: Result<Vec<i64>, _> =
        gone.query_map(params![before, limit], |row| row.get(0))?.collect();
    let gone = gone?;
    if let Some(last) = gone.iter().max() {
        let sql = "update counters set value = max(value, ?1) where name = 'forgotten'";
        db.prepare_cached(sql)?.execute([last])?;
    }
    Ok(gone.len() as u64)
}
