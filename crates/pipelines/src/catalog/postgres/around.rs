//! Pictures of the graph in PostgreSQL, and where an entity is mentioned.
//!
//! What is asked of each of several entities is asked at once, of each up to a bound.

use std::collections::HashMap;

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::around::{
    COLLECTIONS_MAX, COUNTED_MAX, NAMES_MAX, SAID_MAX, SAMPLED_DOCUMENTS, SAMPLED_MENTIONS, Said,
    SaidIn, Shown, Walk, beginning_with, prominent,
};
use super::super::{
    Around, EntityFilter, EntityId, MentionCursor, MentionedIn, Node, PageKey, Prominent,
    normalised,
};
use super::chunks::id_of;
use super::graph::entity_of;
use super::value::{Built, Tx, int, nat, values};
use super::{Trouble, uuid};

pub(super) async fn around(
    tx: &Tx<'_>,
    tenant: &str,
    of: EntityId,
    kind: Option<&str>,
    limit: u32,
) -> Result<Option<Around>, Trouble> {
    if shown(tx, tenant, &[of]).await?.is_empty() {
        return Ok(None);
    }
    let mut walk = Walk::new(of, kind.map(normalised), limit);
    loop {
        let layer = walk.layer();
        if layer.is_empty() {
            break;
        }
        let (mut all, mut is_cut) = (Vec::new(), false);
        for sql in SAID {
            is_cut |= said(tx, sql, tenant, &layer, &mut all).await?;
        }
        walk.take(all, is_cut);
    }
    let known = shown(tx, tenant, &walk.members()).await?;
    Ok(Some(walk.end(known)))
}

macro_rules! said {
    ($here:literal, $there:literal) => {
        concat!(
            "select s.source, s.target, s.kind, s.description, s.weight, s.far, s.chunk, \
             s.document, s.name, s.page, a.id from unnest($1::uuid[]) as a(id) \
             cross join lateral (select r.source, r.target, r.kind, r.description, r.weight, \
             e.kind as far, r.chunk, r.document, d.name, c.page \
             from windrow_catalog.relationships r \
             join windrow_catalog.documents d \
             on d.id = r.document and d.live = r.generation and d.tenant = $2 \
             join windrow_catalog.chunks c on c.id = r.chunk \
             join windrow_catalog.entities e on e.id = r.",
            $there,
            " where r.",
            $here,
            " = a.id and r.",
            $there,
            " <> a.id limit $3) s"
        )
    };
}

/// What live documents state of entities: where they are the source, and where the target.
pub(super) const SAID: [&str; 2] = [said!("source", "target"), said!("target", "source")];

/// Adds what is stated of entities; true if it is not all.
async fn said(
    tx: &Tx<'_>,
    sql: &str,
    tenant: &str,
    layer: &[EntityId],
    into: &mut Vec<Said>,
) -> Result<bool, Trouble> {
    let ids: Vec<Uuid> = layer.iter().map(|id| uuid(id.0)).collect();
    let mut counts: HashMap<Uuid, u32> = HashMap::new();
    for row in &tx.rows(sql, values![ids, tenant, i64::from(SAID_MAX)]).await? {
        *counts.entry(row.get(10)).or_default() += 1;
        into.push(Said {
            source: entity_of(row, 0),
            target: entity_of(row, 1),
            kind: row.get(2),
            description: row.get(3),
            weight: row.get(4),
            far_kind: row.get(5),
            by: SaidIn {
                chunk: id_of(row, 6),
                document: row.get(7),
                name: row.get(8),
                page: nat(row.get(9)),
            },
        });
    }
    Ok(counts.into_values().any(|count| count >= SAID_MAX))
}

pub(super) const NAMES: &str = "select a.id, e.kind, n.name, n.mentions \
     from unnest($1::uuid[]) as a(id) \
     join windrow_catalog.entities e on e.id = a.id and e.tenant = $2 \
     cross join lateral (select s.name, (sum(count(*)) over ())::bigint as mentions \
     from (select m.name from windrow_catalog.mentions m \
     join windrow_catalog.documents d on d.id = m.document and d.live = m.generation \
     where m.entity = a.id limit $3) s group by s.name order by count(*) desc, s.name limit 1) n";

/// How entities are shown, those that live documents mention.
async fn shown(
    tx: &Tx<'_>,
    tenant: &str,
    ids: &[EntityId],
) -> Result<HashMap<EntityId, Shown>, Trouble> {
    let ids: Vec<Uuid> = ids.iter().map(|id| uuid(id.0)).collect();
    let rows = tx.rows(NAMES, values![ids, tenant, i64::from(COUNTED_MAX)]).await?;
    let one = |row: &Row| {
        let mentions = u32::try_from(row.get::<_, i64>(3)).unwrap_or(u32::MAX);
        (entity_of(row, 0), (row.get(1), row.get(2), mentions))
    };
    Ok(rows.iter().map(one).collect())
}

/// The statement that looks at what was added last.
pub(super) fn sample_sql(filter: &EntityFilter) -> Built {
    let mut built = Built::of(
        "select s.entity, (select e.kind from windrow_catalog.entities e where e.id = s.entity), \
         s.mentions from (select s.entity, count(*) as mentions from (select m.entity from \
         (select id, live from windrow_catalog.documents",
    );
    built.with(" where tenant = ?", filter.tenant.clone());
    if let Some(collection) = &filter.collection {
        built.with(" and collection = ?", collection.clone());
    }
    built.with(" order by added_at desc, id desc limit ?) d", i64::from(SAMPLED_DOCUMENTS));
    built.sql += " cross join lateral (select m.entity from windrow_catalog.mentions m \
         where m.document = d.id and m.generation = d.live";
    built.with(" limit ?) m", i64::from(SAMPLED_MENTIONS));
    built.with(" limit ?) s", i64::from(SAMPLED_MENTIONS));
    built.sql += " group by s.entity) s";
    built
}

pub(super) async fn sampled(tx: &Tx<'_>, filter: &EntityFilter) -> Result<Prominent, Trouble> {
    let built = sample_sql(filter);
    let rows = tx.rows(&built.sql, &built.values()).await?;
    let one = |row: &Row| {
        let count = u32::try_from(row.get::<_, i64>(2)).unwrap_or(u32::MAX);
        (entity_of(row, 0), row.get(1), count)
    };
    let kind = filter.kind.as_deref().map(normalised);
    Ok(prominent(rows.iter().map(one).collect(), kind.as_deref()))
}

/// Entities by a range of their names, of which so many are looked at.
pub(super) const NAMED: &str = "select id from \
     (select id, name, kind from windrow_catalog.entities where tenant = $1 and collection = $2 \
     and name >= $3 and name < $4 order by name limit $5) n \
     where position($6 in name) > 0 and ($7::text is null or kind = $7) limit $8";

pub(super) async fn named(
    tx: &Tx<'_>,
    filter: &EntityFilter,
    part: &str,
    limit: u32,
) -> Result<Vec<Node>, Trouble> {
    let collections = match &filter.collection {
        Some(collection) => vec![collection.clone()],
        None => collections(tx, &filter.tenant).await?,
    };
    let (part, kind) = (normalised(part), filter.kind.as_deref().map(normalised));
    if part.is_empty() {
        return Ok(Vec::new());
    }
    let looked_at = i64::from(NAMES_MAX) / collections.len().max(1) as i64;
    let mut ids: Vec<EntityId> = Vec::new();
    // Those that begin with it come first.
    for (from, to) in [beginning_with(&part), beginning_with("")] {
        for collection in &collections {
            let (tenant, limit) = (&filter.tenant, i64::from(limit));
            let values = values![*tenant, *collection, from, to, looked_at, part, kind, limit];
            for row in &tx.rows(NAMED, values).await? {
                let id = entity_of(row, 0);
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
        if ids.len() >= limit as usize {
            break;
        }
    }
    let mut known = shown(tx, &filter.tenant, &ids).await?;
    let node = |id: EntityId| {
        let (kind, name, mentions) = known.remove(&id)?;
        Some(Node { id, kind, name, mentions, distance: 0 })
    };
    Ok(ids.into_iter().filter_map(node).take(limit as usize).collect())
}

/// Collections that have entities, found by leaping from one to the next.
async fn collections(tx: &Tx<'_>, tenant: &str) -> Result<Vec<String>, Trouble> {
    let sql = "select collection from windrow_catalog.entities \
         where tenant = $1 and collection > $2 order by collection limit 1";
    let mut all: Vec<String> = Vec::new();
    while all.len() < COLLECTIONS_MAX {
        let last = all.last().cloned().unwrap_or_default();
        let Some(row) = tx.row(sql, values![tenant, last]).await? else { break };
        all.push(row.get(0));
    }
    Ok(all)
}

pub(super) const MENTIONED: &str = "select m.chunk, m.document, m.generation, c.page, c.ordinal, \
     d.name, m.name, c.text from windrow_catalog.mentions m \
     join windrow_catalog.documents d \
     on d.id = m.document and d.live = m.generation and d.tenant = $2 \
     join windrow_catalog.chunks c on c.id = m.chunk where m.entity = $1 and m.document >= $3 \
     and (m.document, c.page, c.ordinal) > ($3, $4, $5) \
     order by m.document, c.page, c.ordinal limit $6";

pub(super) async fn mentioned(
    tx: &Tx<'_>,
    tenant: &str,
    of: EntityId,
    after: MentionCursor,
    limit: u32,
) -> Result<Vec<MentionedIn>, Trouble> {
    let MentionCursor { document, page, index } = after;
    let (page, index) = (int(page), int(index));
    let values = values![uuid(of.0), tenant, document, page, index, i64::from(limit)];
    let rows = tx.rows(MENTIONED, values).await?;
    let one = |row: &Row| MentionedIn {
        chunk: id_of(row, 0),
        page: PageKey {
            document: row.get(1),
            generation: nat(row.get(2)),
            number: nat(row.get(3)),
        },
        index: nat(row.get(4)),
        document: row.get(5),
        called: row.get(6),
        text: row.get(7),
    };
    Ok(rows.iter().map(one).collect())
}
