//! Leftovers in SQLite.

use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::{ChunkId, GenerationKey, Leftover, PageKey, Removed};

pub(super) fn note_document(db: &Connection, id: Uuid) -> Result<(), CatalogError> {
    note(db, id, None, None)
}

pub(super) fn note_generation(db: &Connection, at: GenerationKey) -> Result<(), CatalogError> {
    note(db, at.document, Some(at.generation), None)
}

pub(super) fn note_chunk(db: &Connection, page: PageKey, id: ChunkId) -> Result<(), CatalogError> {
    note(db, page.document, Some(page.generation), Some(id))
}

fn note(
    db: &Connection,
    document: Uuid,
    generation: Option<u32>,
    chunk: Option<ChunkId>,
) -> Result<(), CatalogError> {
    let sql = "insert into leftovers (document, generation, chunk, taken) values (?1, ?2, ?3, 0)";
    let values = params![document.as_bytes(), generation, chunk.map(|chunk| chunk.0)];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// A chunk is there again, unless somebody is just removing it elsewhere.
pub(super) fn is_back(db: &Connection, id: ChunkId) -> Result<(), CatalogError> {
    db.prepare_cached("delete from leftovers where chunk = ?1 and not taken")?.execute([id.0])?;
    if db.prepare_cached("select 1 from leftovers where chunk = ?1")?.exists([id.0])? {
        return Err(CatalogError::still_going(id));
    }
    Ok(())
}

pub(super) fn last(db: &Connection) -> Result<u64, CatalogError> {
    let sql = "select coalesce(max(number), 0) from leftovers";
    let last: i64 = db.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(last.unsigned_abs())
}

pub(super) fn take(db: &Connection, until: u64, limit: u32) -> Result<Vec<Leftover>, CatalogError> {
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let sql = "update leftovers set taken = 1 where number in \
         (select number from leftovers where number <= ?1 order by number limit ?2) \
         returning number, document, generation, chunk";
    let mut taken = db.prepare_cached(sql)?;
    let mut rows = taken.query(params![until, limit])?;
    let mut leftovers = Vec::new();
    while let Some(row) = rows.next()? {
        leftovers.push(leftover(row)?);
    }
    leftovers.sort_unstable_by_key(|leftover| leftover.number);
    Ok(leftovers)
}

fn leftover(row: &Row<'_>) -> Result<Leftover, CatalogError> {
    let document = uuid_of(&row.get::<_, Vec<u8>>(1)?)?;
    let number = row.get::<_, i64>(0)?.unsigned_abs();
    Ok(Leftover { number, of: Removed::of_row(document, row.get(2)?, row.get(3)?) })
}

pub(super) fn forget(db: &Connection, numbers: &[u64]) -> Result<(), CatalogError> {
    let mut one = db.prepare_cached("delete from leftovers where number = ?1")?;
    for number in numbers {
        one.execute([i64::try_from(*number).unwrap_or(i64::MAX)])?;
    }
    Ok(())
}
