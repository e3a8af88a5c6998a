//! Removing generations and documents from SQLite, in slices.

use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;
use windrow_core::Timestamp;

use super::super::error::CatalogError;
use super::super::{ChunkId, GenerationKey};
use super::{chunks, dimensions, leftovers, ms, vectors};

/// Rows of one slice. About as long as a commit takes, so that others need not wait long.
const SLICE: u32 = 200;

/// Removes some of an old generation; true if there is more.
pub(super) fn slice(db: &Connection, at: GenerationKey) -> Result<bool, CatalogError> {
    let id = at.document.as_bytes();
    let sql = "select state from generations where document = ?1 and number = ?2";
    let state = db
        .prepare_cached(sql)?
        .query_row(params![id, at.generation], |row| row.get::<_, String>(0))
        .optional()?;
    match state.as_deref() {
        None => return Ok(false),
        Some("old") => {}
        Some(state) => return Err(CatalogError::bad(format!("{at} is {state}, not old"))),
    }
    let sql = "select row, id from chunks where document = ?1 and generation = ?2 limit ?3";
    let mut some = db.prepare_cached(sql)?;
    let some: Result<Vec<(i64, [u8; 16])>, _> = some
        .query_map(params![id, at.generation, SLICE], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect();
    let some = some?;
    for (row, chunk) in &some {
        chunks::remove(db, *row, ChunkId(*chunk), at, false)?;
    }
    if !some.is_empty() {
        return Ok(true);
    }
    let sql = "delete from pages where row in \
         (select row from pages where document = ?1 and generation = ?2 limit ?3)";
    if db.prepare_cached(sql)?.execute(params![id, at.generation, SLICE])? > 0 {
        return Ok(true);
    }
    dimensions::forget(db, at)?;
    vectors::log_removed(db, at)?;
    let sql = "delete from generations where document = ?1 and number = ?2";
    db.prepare_cached(sql)?.execute(params![id, at.generation])?;
    leftovers::note_generation(db, at)?;
    Ok(false)
}

pub(super) fn begin(
    db: &Connection,
    tenant: &str,
    id: Uuid,
    sinks: &[String],
    now: Timestamp,
) -> Result<bool, CatalogError> {
    let sql = "select state = 'deleting' from documents where id = ?1 and tenant = ?2";
    let bytes = id.as_bytes();
    let is_deleting =
        db.prepare_cached(sql)?.query_row(params![bytes, tenant], |row| row.get(0)).optional()?;
    let Some(is_deleting) = is_deleting else { return Ok(false) };
    let sql = "insert into deletions (document, sink, confirmed) values (?1, ?2, 0) \
         on conflict do nothing";
    for sink in sinks {
        db.prepare_cached(sql)?.execute(params![bytes, sink])?;
    }
    if is_deleting {
        return Ok(true);
    }
    let sql = "update documents set state = 'deleting', live = null, changed_at = ?2 where id = ?1";
    db.prepare_cached(sql)?.execute(params![bytes, ms(now)])?;
    let sql = "update generations set state = 'old' where document = ?1";
    db.prepare_cached(sql)?.execute([bytes])?;
    for at in generations(db, id)? {
        vectors::forget_live(db, at)?;
        vectors::log_removed(db, at)?;
    }
    Ok(true)
}

pub(super) fn generations(db: &Connection, id: Uuid) -> Result<Vec<GenerationKey>, CatalogError> {
    let sql = "select number from generations where document = ?1 order by number";
    let mut found = db.prepare_cached(sql)?;
    let numbers: Result<Vec<u32>, _> =
        found.query_map([id.as_bytes()], |row| row.get(0))?.collect();
    let at = |generation| GenerationKey { document: id, generation };
    Ok(numbers?.into_iter().map(at).collect())
}

pub(super) fn confirm(db: &Connection, id: Uuid, sink: &str) -> Result<(), CatalogError> {
    let sql = "update deletions set confirmed = 1 where document = ?1 and sink = ?2";
    db.prepare_cached(sql)?.execute(params![id.as_bytes(), sink])?;
    Ok(())
}

/// What has to happen before a document is gone.
pub(super) enum Left {
    Nothing,
    Sinks(Vec<String>),
    Generations(Vec<GenerationKey>),
}

/// Removes the document's row if nothing else of it is left.
pub(super) fn finish(db: &Connection, id: Uuid) -> Result<Left, CatalogError> {
    let bytes = id.as_bytes();
    let sql = "select state from documents where id = ?1";
    let state =
        db.prepare_cached(sql)?.query_row([bytes], |row| row.get::<_, String>(0)).optional()?;
    match state.as_deref() {
        None => return Ok(Left::Nothing),
        Some("deleting") => {}
        Some(state) => {
            let why = format!("document {id} is {state}, not marked to be deleted");
            return Err(CatalogError::Bad { why });
        }
    }
    let sql = "select sink from deletions where document = ?1 and not confirmed order by sink";
    let mut waiting = db.prepare_cached(sql)?;
    let sinks: Result<Vec<String>, _> = waiting.query_map([bytes], |row| row.get(0))?.collect();
    let sinks = sinks?;
    if !sinks.is_empty() {
        return Ok(Left::Sinks(sinks));
    }
    let generations = generations(db, id)?;
    if !generations.is_empty() {
        return Ok(Left::Generations(generations));
    }
    db.prepare_cached("delete from deletions where document = ?1")?.execute([bytes])?;
    db.prepare_cached("delete from documents where id = ?1")?.execute([bytes])?;
    leftovers::note_document(db, id)?;
    Ok(Left::Nothing)
}
