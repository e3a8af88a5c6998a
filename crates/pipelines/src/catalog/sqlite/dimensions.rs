//! Of which dimension vectors in SQLite are. Which of them belong together, `Given` decides.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::error::CatalogError;
use super::super::vectors::{Given, Held};
use super::super::{GenerationKey, Scope};

/// Another dimension that another document of a collection has: one that is less, and one that is
/// more. What lies between them may be the whole collection.
pub(super) const OTHERS: [&str; 2] = [
    "select o.dimension from dimensions o \
     join generations g on g.document = o.document and g.number = o.generation \
     where o.tenant = ?1 and o.collection = ?2 and o.dimension < ?3 and o.document <> ?4 \
     and g.state <> 'old' limit 1",
    "select o.dimension from dimensions o \
     join generations g on g.document = o.document and g.number = o.generation \
     where o.tenant = ?1 and o.collection = ?2 and o.dimension > ?3 and o.document <> ?4 \
     and g.state <> 'old' limit 1",
];

/// Whether vectors belong where they are put. A generation is looked at when its first ones come.
pub(super) fn check(db: &Connection, given: &Given) -> Result<(), CatalogError> {
    let Given { at, scope: Scope { tenant, collection }, dimension } = given;
    let (id, number) = (at.document.as_bytes(), at.generation);
    let sql = "select o.generation, o.dimension from dimensions o \
         join generations g on g.document = o.document and g.number = o.generation \
         where o.document = ?1 and g.state <> 'old' and o.generation <= ?2";
    let mut held = Held::default();
    let mut own = db.prepare_cached(sql)?;
    let mut rows = own.query(params![id, number])?;
    while let Some(row) = rows.next()? {
        match row.get::<_, u32>(0)? == number {
            true => held.of_generation = Some(row.get::<_, u32>(1)? as usize),
            false => held.has_older = true,
        }
    }
    if held.of_generation.is_none() && !held.has_older {
        for sql in OTHERS {
            let values = params![tenant, collection, *dimension as i64, id];
            let other = db.prepare_cached(sql)?.query_row(values, |row| row.get::<_, u32>(0));
            let other = other.optional()?.map(|dimension| dimension as usize);
            held.of_others = held.of_others.or(other);
        }
    }
    given.check(held)?;
    let sql = "insert into dimensions (document, generation, tenant, collection, dimension) \
         values (?1, ?2, ?3, ?4, ?5) on conflict do nothing";
    let values = params![id, number, tenant, collection, *dimension as i64];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// A generation has no vectors any more.
pub(super) fn forget(db: &Connection, at: GenerationKey) -> Result<(), CatalogError> {
    let sql = "delete from dimensions where document = ?1 and generation = ?2";
    db.prepare_cached(sql)?.execute(params![at.document.as_bytes(), at.generation])?;
    Ok(())
}
