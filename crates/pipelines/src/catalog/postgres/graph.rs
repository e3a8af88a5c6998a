//! The graph in PostgreSQL.
//!
//! An entity goes with its last mention. Whoever mentions one, or takes a mention away, locks its
//! row, by ids in order, and only looks afterwards whether it is mentioned: so that none goes that
//! somebody mentions at that moment.

use std::collections::BTreeSet;

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::error::CatalogError;
use super::super::graph::{GraphRows, gathered, weight};
use super::super::{
    ChunkId, Entity, EntityId, GenerationKey, Mention, Neighbour, NewGraph, Relation, Scope,
    normalised,
};
use super::chunks::id_of;
use super::documents::{self, Hold};
use super::value::{Tx, int, nat, values};
use super::{Trouble, uuid};

pub(super) async fn put(tx: &Tx<'_>, chunk: ChunkId, new: &NewGraph) -> Result<(), Trouble> {
    let gone = || CatalogError::gone(format!("chunk {chunk}"));
    let id = uuid(chunk.0);
    let sql = "select document, generation from windrow_catalog.chunks where id = $1";
    let row = tx.row(sql, values![id]).await?.ok_or_else(gone)?;
    let at = GenerationKey { document: row.get(0), generation: nat(row.get(1)) };
    let scope = documents::open(tx, at, Hold::Shared).await.map_err(|error| match error {
        Trouble::Ours(CatalogError::Gone { .. }) => gone().into(),
        other => other,
    })?;
    let sql = "update windrow_catalog.chunks set linked = true where id = $1";
    if tx.run(sql, values![id]).await? == 0 {
        return Err(gone().into());
    }
    let said = new.distinct();
    let rows = said.rows(&scope);
    let before = forget(tx, &vec![id]).await?;
    let now = rows.mentions.iter().map(|(entity, _)| uuid(entity.0));
    lock(tx, &before.iter().copied().chain(now).collect()).await?;
    insert_mentions(tx, id, at, &scope, &rows).await?;
    insert_relationships(tx, id, at, &rows).await?;
    remove_orphans(tx, &before).await
}

/// What goes with the chunk: its id and generation in each row.
async fn insert_mentions(
    tx: &Tx<'_>,
    chunk: Uuid,
    at: GenerationKey,
    scope: &Scope,
    rows: &GraphRows<'_>,
) -> Result<(), Trouble> {
    let mentions = &rows.mentions;
    let entities: Vec<Uuid> = mentions.iter().map(|(entity, _)| uuid(entity.0)).collect();
    let kinds: Vec<&str> = mentions.iter().map(|(_, row)| row.kind.as_str()).collect();
    let normal: Vec<&str> = mentions.iter().map(|(_, row)| row.normalised.as_str()).collect();
    // Changed to what it is: that locks one that somebody else made meanwhile.
    let sql = "insert into windrow_catalog.entities (id, tenant, collection, kind, name) \
         select n.id, $1, $2, n.kind, n.name \
         from unnest($3::uuid[], $4::text[], $5::text[]) as n(id, kind, name) order by n.id \
         on conflict (id) do update set name = excluded.name";
    let values = values![scope.tenant, scope.collection, entities, kinds, normal];
    tx.run(sql, values).await?;
    let sql = "insert into windrow_catalog.mentions \
         (chunk, entity, document, generation, name, description, score) \
         select $1, n.entity, $2, $3, n.name, n.description, n.score \
         from unnest($4::uuid[], $5::text[], $6::text[], $7::float8[]) \
         as n(entity, name, description, score)";
    let names: Vec<&str> = mentions.iter().map(|(_, row)| row.name.as_str()).collect();
    let descriptions: Vec<&str> =
        mentions.iter().map(|(_, row)| row.description.as_str()).collect();
    let scores: Vec<f64> = mentions.iter().map(|(_, row)| row.score).collect();
    let number = int(at.generation);
    let values = values![chunk, at.document, number, entities, names, descriptions, scores];
    tx.run(sql, values).await?;
    Ok(())
}

async fn insert_relationships(
    tx: &Tx<'_>,
    chunk: Uuid,
    at: GenerationKey,
    rows: &GraphRows<'_>,
) -> Result<(), Trouble> {
    let said = &rows.relationships;
    let sql = "insert into windrow_catalog.relationships \
         (chunk, source, target, kind, document, generation, description, weight) \
         select $1, n.source, n.target, n.kind, $2, $3, n.description, n.weight \
         from unnest($4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::float8[]) \
         as n(source, target, kind, description, weight)";
    let end = |place: usize| uuid(rows.mentions[place].0.0);
    let sources: Vec<Uuid> = said.iter().map(|(source, ..)| end(*source)).collect();
    let targets: Vec<Uuid> = said.iter().map(|(_, target, _)| end(*target)).collect();
    let kinds: Vec<&str> = said.iter().map(|(.., row)| row.kind.as_str()).collect();
    let descriptions: Vec<&str> = said.iter().map(|(.., row)| row.description.as_str()).collect();
    let weights: Vec<f64> = said.iter().map(|(.., row)| row.weight).collect();
    let number = int(at.generation);
    let values =
        values![chunk, at.document, number, sources, targets, kinds, descriptions, weights];
    tx.run(sql, values).await?;
    Ok(())
}

/// Nothing that chunks say stays.
pub(super) async fn clear(tx: &Tx<'_>, chunks: &Vec<Uuid>) -> Result<(), Trouble> {
    let before = forget(tx, chunks).await?;
    lock(tx, &before).await?;
    remove_orphans(tx, &before).await
}

/// Gives the entities that the chunks mentioned.
async fn forget(tx: &Tx<'_>, chunks: &Vec<Uuid>) -> Result<BTreeSet<Uuid>, Trouble> {
    let sql = "delete from windrow_catalog.mentions where chunk = any($1) returning entity";
    let gone = tx.rows(sql, values![*chunks]).await?;
    let sql = "delete from windrow_catalog.relationships where chunk = any($1)";
    tx.run(sql, values![*chunks]).await?;
    Ok(gone.iter().map(|row| row.get(0)).collect())
}

async fn lock(tx: &Tx<'_>, entities: &BTreeSet<Uuid>) -> Result<(), Trouble> {
    let entities: Vec<Uuid> = entities.iter().copied().collect();
    let sql = "select 1 from windrow_catalog.entities where id = any($1) order by id for update";
    tx.run(sql, values![entities]).await?;
    Ok(())
}

async fn remove_orphans(tx: &Tx<'_>, entities: &BTreeSet<Uuid>) -> Result<(), Trouble> {
    let entities: Vec<Uuid> = entities.iter().copied().collect();
    let sql = "delete from windrow_catalog.entities e where e.id = any($1) \
         and not exists (select 1 from windrow_catalog.mentions m where m.entity = e.id)";
    tx.run(sql, values![entities]).await?;
    Ok(())
}

/// What live documents say of an entity.
const LIVE: &str = "from windrow_catalog.mentions m \
     join windrow_catalog.documents d on d.id = m.document and d.live = m.generation \
     where m.entity = $1";

pub(super) async fn entity(
    tx: &Tx<'_>,
    tenant: &str,
    id: EntityId,
) -> Result<Option<Entity>, Trouble> {
    let key = uuid(id.0);
    let sql = "select collection, kind from windrow_catalog.entities \
         where id = $1 and tenant = $2";
    let Some(found) = tx.row(sql, values![key, tenant]).await? else {
        return Ok(None);
    };
    let sql =
        format!("select m.name {LIVE} group by m.name order by count(*) desc, m.name limit 1");
    let Some(name) = tx.row(&sql, values![key]).await? else { return Ok(None) };
    let sql = format!("select count(*) {LIVE}");
    let mentions: i64 = tx.one(&sql, values![key]).await?.get(0);
    let sql = format!("select m.description {LIVE} order by m.score desc, m.description limit 1");
    let description = tx.one(&sql, values![key]).await?.get(0);
    Ok(Some(Entity {
        id,
        scope: Scope { tenant: tenant.to_owned(), collection: found.get(0) },
        kind: found.get(1),
        name: name.get(0),
        description,
        mentions: u32::try_from(mentions).unwrap_or(u32::MAX),
    }))
}

pub(super) async fn called(tx: &Tx<'_>, scope: &Scope, name: &str) -> Result<Vec<Entity>, Trouble> {
    let sql = "select id from windrow_catalog.entities \
         where tenant = $1 and collection = $2 and name = $3 order by kind";
    let values = values![scope.tenant, scope.collection, normalised(name)];
    let mut entities = Vec::new();
    for row in tx.rows(sql, values).await? {
        entities.extend(entity(tx, &scope.tenant, entity_of(&row, 0)).await?);
    }
    Ok(entities)
}

pub(super) fn entity_of(row: &Row, at: usize) -> EntityId {
    EntityId(row.get::<_, Uuid>(at).into_bytes())
}

pub(super) async fn mentions(
    tx: &Tx<'_>,
    tenant: &str,
    chunks: &[ChunkId],
) -> Result<Vec<Mention>, Trouble> {
    let sql = "select m.chunk, m.entity, e.kind, m.name, m.description, m.score \
         from unnest($1::uuid[]) with ordinality as n(chunk, place) \
         join windrow_catalog.mentions m on m.chunk = n.chunk \
         join windrow_catalog.documents d on d.id = m.document and d.live = m.generation \
         join windrow_catalog.entities e on e.id = m.entity \
         where d.tenant = $2 order by n.place, m.entity";
    let chunks: Vec<Uuid> = chunks.iter().map(|id| uuid(id.0)).collect();
    let rows = tx.rows(sql, values![chunks, tenant]).await?;
    let mention = |row: &Row| Mention {
        chunk: id_of(row, 0),
        entity: entity_of(row, 1),
        kind: row.get(2),
        name: row.get(3),
        description: row.get(4),
        score: row.get(5),
    };
    Ok(rows.iter().map(mention).collect())
}

pub(super) async fn neighbours(
    tx: &Tx<'_>,
    tenant: &str,
    of: EntityId,
    limit: u32,
) -> Result<Vec<Neighbour>, Trouble> {
    let mut found = Vec::new();
    for (here, there, is_outgoing) in [("source", "target", true), ("target", "source", false)] {
        let sql = format!(
            "select r.{there}, r.kind, min(nullif(r.description, '')), sum(r.weight), count(*) \
             from windrow_catalog.relationships r \
             join windrow_catalog.documents d \
             on d.id = r.document and d.live = r.generation and d.tenant = $2 \
             where r.{here} = $1 and r.{there} <> $1 group by r.{there}, r.kind"
        );
        for row in tx.rows(&sql, values![uuid(of.0), tenant]).await? {
            let description: Option<String> = row.get(2);
            let relation = Relation {
                kind: row.get(1),
                is_outgoing,
                description: description.unwrap_or_default(),
                weight: row.get(3),
                chunks: u32::try_from(row.get::<_, i64>(4)).unwrap_or(u32::MAX),
            };
            found.push((entity_of(&row, 0), relation));
        }
    }
    let mut neighbours = Vec::new();
    for (id, by) in gathered(found, limit as usize) {
        if let Some(entity) = entity(tx, tenant, id).await? {
            neighbours.push(Neighbour { entity, weight: weight(&by), by });
        }
    }
    Ok(neighbours)
}
