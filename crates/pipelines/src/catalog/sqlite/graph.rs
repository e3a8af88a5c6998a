//! The graph in SQLite.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::error::CatalogError;
use super::super::graph::{gathered, weight};
use super::super::{
    ChunkId, Entity, EntityId, Mention, Neighbour, NewGraph, Relation, Scope, normalised,
};
use super::chunks;

pub(super) fn put(db: &Connection, chunk: ChunkId, new: &NewGraph) -> Result<(), CatalogError> {
    let place = chunks::place(db, chunk)?;
    let (page, scope) = place.ok_or_else(|| CatalogError::gone(format!("chunk {chunk}")))?;
    let rows = new.rows(&scope);
    let before = forget(db, chunk)?;
    let (document, generation) = (page.document.as_bytes(), page.generation);
    for mention in &rows.mentions {
        let sql = "insert into entities (id, tenant, collection, kind, name) \
             values (?1, ?2, ?3, ?4, ?5) on conflict do nothing";
        db.prepare_cached(sql)?.execute(params![
            mention.entity.0,
            scope.tenant,
            scope.collection,
            mention.kind,
            mention.normalised
        ])?;
        let sql = "insert into mentions \
             (chunk, entity, document, generation, name, description, score) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let (name, description, score) = (&mention.name, &mention.description, mention.score);
        db.prepare_cached(sql)?.execute(params![
            chunk.0,
            mention.entity.0,
            document,
            generation,
            name,
            description,
            score
        ])?;
    }
    for said in &rows.relationships {
        let sql = "insert into relationships \
             (chunk, source, target, kind, document, generation, description, weight) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (source, target, description) = (said.source.0, said.target.0, &said.description);
        db.prepare_cached(sql)?.execute(params![
            chunk.0,
            source,
            target,
            said.kind,
            document,
            generation,
            description,
            said.weight
        ])?;
    }
    remove_orphans(db, &before)?;
    db.prepare_cached("update chunks set linked = 1 where id = ?1")?.execute([chunk.0])?;
    Ok(())
}

/// Nothing that a chunk says stays.
pub(super) fn clear(db: &Connection, chunk: ChunkId) -> Result<(), CatalogError> {
    let before = forget(db, chunk)?;
    remove_orphans(db, &before)
}

/// Gives the entities that the chunk mentioned.
fn forget(db: &Connection, chunk: ChunkId) -> Result<Vec<[u8; 16]>, CatalogError> {
    let sql = "delete from mentions where chunk = ?1 returning entity";
    let mut gone = db.prepare_cached(sql)?;
    let gone: Result<Vec<_>, _> = gone.query_map([chunk.0], |row| row.get(0))?.collect();
    db.prepare_cached("delete from relationships where chunk = ?1")?.execute([chunk.0])?;
    Ok(gone?)
}

fn remove_orphans(db: &Connection, entities: &[[u8; 16]]) -> Result<(), CatalogError> {
    let sql = "delete from entities where id = ?1 \
         and not exists (select 1 from mentions where entity = ?1)";
    let mut remove = db.prepare_cached(sql)?;
    for entity in entities {
        remove.execute([entity])?;
    }
    Ok(())
}

/// What live documents say of an entity.
const LIVE: &str = "from mentions m \
     join documents d on d.id = m.document and d.live = m.generation where m.entity = ?1";

pub(super) fn entity(
    db: &Connection,
    tenant: &str,
    id: EntityId,
) -> Result<Option<Entity>, CatalogError> {
    let sql = "select collection, kind from entities where id = ?1 and tenant = ?2";
    let found = db
        .prepare_cached(sql)?
        .query_row(params![id.0, tenant], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)));
    let Some((collection, kind)) = found.optional()? else { return Ok(None) };
    let sql =
        format!("select m.name {LIVE} group by m.name order by count(*) desc, m.name limit 1");
    let name = db.prepare_cached(&sql)?.query_row([id.0], |row| row.get(0)).optional()?;
    let Some(name) = name else { return Ok(None) };
    let sql = format!("select count(*) {LIVE}");
    let mentions = db.prepare_cached(&sql)?.query_row([id.0], |row| row.get(0))?;
    let sql = format!("select m.description {LIVE} order by m.score desc, m.description limit 1");
    let description = db.prepare_cached(&sql)?.query_row([id.0], |row| row.get(0))?;
    let scope = Scope::new(tenant, collection);
    Ok(Some(Entity { id, scope, kind, name, description, mentions }))
}

pub(super) fn called(
    db: &Connection,
    scope: &Scope,
    name: &str,
) -> Result<Vec<Entity>, CatalogError> {
    let sql = "select id from entities where tenant = ?1 and collection = ?2 and name = ?3 \
         order by kind";
    let mut found = db.prepare_cached(sql)?;
    let names = params![scope.tenant, scope.collection, normalised(name)];
    let ids: Result<Vec<[u8; 16]>, _> = found.query_map(names, |row| row.get(0))?.collect();
    let entities = ids?.into_iter().map(|id| entity(db, &scope.tenant, EntityId(id)));
    Ok(entities.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

pub(super) fn mentions(
    db: &Connection,
    tenant: &str,
    chunks: &[ChunkId],
) -> Result<Vec<Mention>, CatalogError> {
    let sql = "select m.entity, e.kind, m.name, m.description, m.score from mentions m \
         join documents d on d.id = m.document and d.live = m.generation \
         join entities e on e.id = m.entity \
         where m.chunk = ?1 and d.tenant = ?2 order by m.entity";
    let mut of_chunk = db.prepare_cached(sql)?;
    let mut all = Vec::new();
    for chunk in chunks {
        let mention = |row: &Row<'_>| {
            Ok(Mention {
                chunk: *chunk,
                entity: EntityId(row.get(0)?),
                kind: row.get(1)?,
                name: row.get(2)?,
                description: row.get(3)?,
                score: row.get(4)?,
            })
        };
        let found: Result<Vec<_>, _> =
            of_chunk.query_map(params![chunk.0, tenant], mention)?.collect();
        all.extend(found?);
    }
    Ok(all)
}

/// What relates an entity to others, by the chunks that mention it: whoever relates two mentions
/// both. What such a chunk says lies together.
pub(super) fn neighbours_sql(here: &str, there: &str) -> String {
    format!(
        "select r.{there}, r.kind, min(nullif(r.description, '')), sum(r.weight), count(*) \
         from mentions m \
         join documents d on d.id = m.document and d.live = m.generation and d.tenant = ?2 \
         cross join relationships r on r.chunk = m.chunk \
         where m.entity = ?1 and r.{here} = ?1 and r.{there} <> ?1 group by r.{there}, r.kind"
    )
}

pub(super) fn neighbours(
    db: &Connection,
    tenant: &str,
    of: EntityId,
    limit: u32,
) -> Result<Vec<Neighbour>, CatalogError> {
    let mut found = Vec::new();
    for (here, there, is_outgoing) in [("source", "target", true), ("target", "source", false)] {
        let sql = neighbours_sql(here, there);
        let mut rows = db.prepare_cached(&sql)?;
        let relation = |row: &Row<'_>| {
            let description: Option<String> = row.get(2)?;
            let relation = Relation {
                kind: row.get(1)?,
                is_outgoing,
                description: description.unwrap_or_default(),
                weight: row.get(3)?,
                chunks: row.get(4)?,
            };
            Ok((EntityId(row.get(0)?), relation))
        };
        let rows: Result<Vec<_>, _> = rows.query_map(params![of.0, tenant], relation)?.collect();
        found.extend(rows?);
    }
    let mut neighbours = Vec::new();
    for (id, by) in gathered(found, limit as usize) {
        if let Some(entity) = entity(db, tenant, id)? {
            neighbours.push(Neighbour { entity, weight: weight(&by), by });
        }
    }
    Ok(neighbours)
}
