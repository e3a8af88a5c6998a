//! The graph in SQLite.
//!
//! What a chunk says is one value (`said.rs`), beside the chunk in the order in which chunks came.
//! Mentions are also rows by entity, with what is asked of many of them at once.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::error::CatalogError;
use super::super::graph::{Distinct, Thing, gathered, weight};
use super::super::{
    ChunkId, Entity, EntityId, GenerationKey, Mention, Neighbour, Relation, Scope, normalised,
};
use super::chunks;
use super::said::{Mentioned, Said};

/// So many of the strongest mentions are asked what an entity is.
const DESCRIBED_BY_MAX: u32 = 20;

pub(super) fn put(db: &Connection, chunk: ChunkId, new: &Distinct) -> Result<(), CatalogError> {
    let place = chunks::place(db, chunk)?;
    let (row, page, scope) = place.ok_or_else(|| CatalogError::gone(format!("chunk {chunk}")))?;
    let rows = new.rows(&scope);
    let before = forget(db, row, page.of())?;
    let mut entity = db.prepare_cached(
        "insert into entities (id, tenant, collection, kind, name) \
         values (?1, ?2, ?3, ?4, ?5) on conflict do nothing",
    )?;
    for (id, thing) in &rows.mentions {
        let Thing { kind, normalised, .. } = thing;
        entity.execute(params![id.0, scope.tenant, scope.collection, kind, normalised])?;
    }
    keep(db, row, page.of(), &Said::of(&rows))?;
    remove_orphans(db, &before)?;
    db.prepare_cached("update chunks set linked = 1 where row = ?1")?.execute([row])?;
    Ok(())
}

/// Keeps what a chunk says that said nothing before.
pub(super) fn keep(
    db: &Connection,
    row: i64,
    at: GenerationKey,
    said: &Said<'_>,
) -> Result<(), CatalogError> {
    if said.mentions.is_empty() {
        return Ok(());
    }
    let sql = "insert into graphs (chunk, said) values (?1, ?2)";
    db.prepare_cached(sql)?.execute(params![row, said.written()])?;
    let mut mention = db.prepare_cached(
        "insert into mentions (entity, document, generation, chunk, name, score) \
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let document = at.document.as_bytes();
    for Mentioned { entity, name, score, .. } in &said.mentions {
        mention.execute(params![entity.0, document, at.generation, row, name, score])?;
    }
    Ok(())
}

/// Nothing that a chunk says stays.
pub(super) fn clear(db: &Connection, row: i64, at: GenerationKey) -> Result<(), CatalogError> {
    let before = forget(db, row, at)?;
    remove_orphans(db, &before)
}

/// Gives the entities that the chunk mentioned.
pub(super) fn forget(
    db: &Connection,
    row: i64,
    at: GenerationKey,
) -> Result<Vec<EntityId>, CatalogError> {
    let sql = "delete from graphs where chunk = ?1 returning said";
    let said = db.prepare_cached(sql)?.query_row([row], |row| row.get::<_, Vec<u8>>(0));
    let Some(said) = said.optional()? else { return Ok(Vec::new()) };
    let said = Said::read(&said)?;
    let mut one = db.prepare_cached(
        "delete from mentions \
         where entity = ?1 and document = ?2 and generation = ?3 and chunk = ?4",
    )?;
    for mention in &said.mentions {
        let document = at.document.as_bytes();
        one.execute(params![mention.entity.0, document, at.generation, row])?;
    }
    Ok(said.mentions.iter().map(|mention| mention.entity).collect())
}

fn remove_orphans(db: &Connection, entities: &[EntityId]) -> Result<(), CatalogError> {
    let sql = "delete from entities where id = ?1 \
         and not exists (select 1 from mentions where entity = ?1)";
    let mut remove = db.prepare_cached(sql)?;
    for entity in entities {
        remove.execute([entity.0])?;
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
    let description = described(db, id)?;
    let scope = Scope::new(tenant, collection);
    Ok(Some(Entity { id, scope, kind, name, description, mentions }))
}

/// What the strongest mentions say of an entity; of some that are as strong, what comes first.
fn described(db: &Connection, id: EntityId) -> Result<String, CatalogError> {
    let sql = format!(
        "select said from graphs \
         join (select m.chunk as row {LIVE} order by m.score desc limit {DESCRIBED_BY_MAX}) \
         on chunk = row"
    );
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query([id.0])?;
    let mut best: Option<(f64, String)> = None;
    while let Some(row) = rows.next()? {
        let said = Said::read(bytes(row, 0)?)?;
        let Some(place) = said.place(id) else { continue };
        let Mentioned { score, description, .. } = said.mentions[place];
        let is_better = |(than, said): &(f64, String)| {
            score > *than || score == *than && description < said.as_str()
        };
        if best.as_ref().is_none_or(is_better) {
            best = Some((score, description.to_owned()));
        }
    }
    Ok(best.map(|(_, description)| description).unwrap_or_default())
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
    let sql = "select g.said from chunks c \
         join documents d on d.id = c.document and d.live = c.generation \
         join graphs g on g.chunk = c.row where c.id = ?1 and d.tenant = ?2";
    let mut of_chunk = db.prepare_cached(sql)?;
    let mut all = Vec::new();
    for chunk in chunks {
        let mut rows = of_chunk.query(params![chunk.0, tenant])?;
        let Some(row) = rows.next()? else { continue };
        let said = Said::read(bytes(row, 0)?)?;
        all.extend(said.mentions.iter().map(|mention| Mention {
            chunk: *chunk,
            entity: mention.entity,
            kind: mention.kind.to_owned(),
            name: mention.name.to_owned(),
            description: mention.description.to_owned(),
            score: mention.score,
        }));
    }
    Ok(all)
}

/// What the chunks say that mention an entity: whoever relates it to another mentions both.
pub(super) const SAID: &str = "select g.said from mentions m \
     cross join documents d on d.id = m.document and d.live = m.generation and d.tenant = ?2 \
     cross join graphs g on g.chunk = m.chunk where m.entity = ?1";

pub(super) fn neighbours(
    db: &Connection,
    tenant: &str,
    of: EntityId,
    limit: u32,
) -> Result<Vec<Neighbour>, CatalogError> {
    let mut relations: BTreeMap<(EntityId, String, bool), Relation> = BTreeMap::new();
    let mut found = db.prepare_cached(SAID)?;
    let mut rows = found.query(params![of.0, tenant])?;
    while let Some(row) = rows.next()? {
        for (stated, far, is_outgoing) in Said::read(bytes(row, 0)?)?.around(of) {
            let key = (far.entity, stated.kind.to_owned(), is_outgoing);
            let relation = relations.entry(key).or_insert_with(|| Relation {
                kind: stated.kind.to_owned(),
                is_outgoing,
                description: stated.description.to_owned(),
                weight: 0.0,
                chunks: 0,
            });
            relation.weight += stated.weight;
            relation.chunks += 1;
            let is_first =
                relation.description.is_empty() || stated.description < &*relation.description;
            if is_first && !stated.description.is_empty() {
                relation.description = stated.description.to_owned();
            }
        }
    }
    let found = relations.into_iter().map(|((far, ..), relation)| (far, relation)).collect();
    let mut neighbours = Vec::new();
    for (id, by) in gathered(found, limit as usize) {
        if let Some(entity) = entity(db, tenant, id)? {
            neighbours.push(Neighbour { entity, weight: weight(&by), by });
        }
    }
    Ok(neighbours)
}

/// The bytes in a column, where they lie.
pub(super) fn bytes<'a>(row: &'a Row<'_>, at: usize) -> Result<&'a [u8], CatalogError> {
    Ok(row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from)?)
}
