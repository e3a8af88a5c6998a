//! Pictures of the graph in SQLite, and where an entity is mentioned.
//!
//! The joins are in the order in which they are to be done: from the few rows of one entity.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::around::{
    COLLECTIONS_MAX, COUNTED_MAX, NAMES_MAX, SAID_MAX, SAMPLED_DOCUMENTS, SAMPLED_MENTIONS, Said,
    SaidIn, Shown, Walk, beginning_with, prominent,
};
use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::{
    Around, ChunkId, EntityFilter, EntityId, MentionCursor, MentionedIn, Node, PageKey, Prominent,
    normalised,
};
use super::graph::bytes;
use super::said;

pub(super) fn around(
    db: &Connection,
    tenant: &str,
    of: EntityId,
    kind: Option<&str>,
    limit: u32,
) -> Result<Option<Around>, CatalogError> {
    if shown(db, tenant, of)?.is_none() {
        return Ok(None);
    }
    let mut walk = Walk::new(of, kind.map(normalised), limit);
    loop {
        let layer = walk.layer();
        if layer.is_empty() {
            break;
        }
        let (mut all, mut is_cut) = (Vec::new(), false);
        for id in layer {
            is_cut |= said(db, tenant, id, &mut all)?;
        }
        walk.take(all, is_cut);
    }
    let mut known = HashMap::new();
    for id in walk.members() {
        known.extend(shown(db, tenant, id)?.map(|shown| (id, shown)));
    }
    Ok(Some(walk.end(known)))
}

/// What the live documents say that mention an entity, and where.
pub(super) const SAID: &str = "select g.said, c.id, m.document, d.name, c.page from mentions m \
     cross join documents d on d.id = m.document and d.live = m.generation and d.tenant = ?2 \
     cross join graphs g on g.chunk = m.chunk \
     cross join chunks c on c.row = m.chunk where m.entity = ?1 limit ?3";

/// Adds what live documents state of an entity: where it is the source, and where the target. True
/// if that may not be all.
fn said(
    db: &Connection,
    tenant: &str,
    of: EntityId,
    all: &mut Vec<Said>,
) -> Result<bool, CatalogError> {
    let mut found = db.prepare_cached(SAID)?;
    let mut rows = found.query(params![of.0, tenant, COUNTED_MAX])?;
    let (mut left, mut looked_at) = ([SAID_MAX; 2], 0);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        let said = said::Said::read(bytes(row, 0)?)?;
        let mut by = None;
        for (stated, far, is_outgoing) in said.around(of) {
            let left = &mut left[usize::from(is_outgoing)];
            if *left == 0 {
                continue;
            }
            *left -= 1;
            let by = match &by {
                Some(by) => by,
                None => by.insert(SaidIn {
                    chunk: ChunkId(row.get(1)?),
                    document: uuid_of(&row.get::<_, Vec<u8>>(2)?)?,
                    name: row.get(3)?,
                    page: row.get(4)?,
                }),
            };
            let (source, target) = if is_outgoing { (of, far.entity) } else { (far.entity, of) };
            all.push(Said {
                source,
                target,
                kind: stated.kind.to_owned(),
                description: stated.description.to_owned(),
                weight: stated.weight,
                far_kind: far.kind.to_owned(),
                by: by.clone(),
            });
        }
        if left == [0; 2] {
            break;
        }
    }
    Ok(left.contains(&0) || looked_at >= COUNTED_MAX)
}

pub(super) const NAMES: &str = "select name, count(*) from \
     (select m.name from mentions m \
     cross join documents d on d.id = m.document and d.live = m.generation \
     where m.entity = ?1 limit ?2) group by name order by count(*) desc, name";

/// How an entity is shown; None if no live document mentions it.
fn shown(db: &Connection, tenant: &str, id: EntityId) -> Result<Option<Shown>, CatalogError> {
    let sql = "select kind from entities where id = ?1 and tenant = ?2";
    let kind = db.prepare_cached(sql)?.query_row(params![id.0, tenant], |row| row.get(0));
    let Some(kind) = kind.optional()? else { return Ok(None) };
    let mut names = db.prepare_cached(NAMES)?;
    let name = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?));
    let names: Result<Vec<_>, _> = names.query_map(params![id.0, COUNTED_MAX], name)?.collect();
    let names = names?;
    let mentions = names.iter().map(|(_, count)| count).sum();
    Ok(names.into_iter().next().map(|(name, _)| (kind, name, mentions)))
}

/// What chunks say of the documents that were added last.
pub(super) const SAMPLE: &str = "select g.said from (select c.row from \
     (select id, live from documents where tenant = ?1 order by added_at desc, id desc limit ?2) d \
     cross join chunks c on c.document = d.id and c.generation = d.live limit ?3) c \
     cross join graphs g on g.chunk = c.row";

pub(super) const SAMPLE_OF_COLLECTION: &str = "select g.said from (select c.row from \
     (select id, live from documents where tenant = ?1 and collection = ?4 \
     order by added_at desc, id desc limit ?2) d \
     cross join chunks c on c.document = d.id and c.generation = d.live limit ?3) c \
     cross join graphs g on g.chunk = c.row";

pub(super) fn sampled(db: &Connection, filter: &EntityFilter) -> Result<Prominent, CatalogError> {
    let (tenant, kind) = (&filter.tenant, filter.kind.as_deref().map(normalised));
    let (mut found, mut rows);
    match &filter.collection {
        Some(collection) => {
            found = db.prepare_cached(SAMPLE_OF_COLLECTION)?;
            let values = params![tenant, SAMPLED_DOCUMENTS, SAMPLED_MENTIONS, collection];
            rows = found.query(values)?;
        }
        None => {
            found = db.prepare_cached(SAMPLE)?;
            rows = found.query(params![tenant, SAMPLED_DOCUMENTS, SAMPLED_MENTIONS])?;
        }
    }
    let mut sample: BTreeMap<EntityId, (String, u32)> = BTreeMap::new();
    let mut left = SAMPLED_MENTIONS as usize;
    while left > 0
        && let Some(row) = rows.next()?
    {
        let said = said::Said::read(bytes(row, 0)?)?;
        for mention in said.mentions.iter().take(left) {
            let entry = sample.entry(mention.entity);
            entry.or_insert_with(|| (mention.kind.to_owned(), 0)).1 += 1;
        }
        left = left.saturating_sub(said.mentions.len());
    }
    let sample = sample.into_iter().map(|(id, (kind, count))| (id, kind, count)).collect();
    Ok(prominent(sample, kind.as_deref()))
}

/// Entities by a range of their names, of which so many are looked at.
pub(super) const NAMED: &str = "select id from \
     (select id, name, kind from entities where tenant = ?1 and collection = ?2 \
     and name >= ?3 and name < ?4 order by name limit ?5) \
     where instr(name, ?6) > 0 and (?7 is null or kind = ?7) limit ?8";

pub(super) fn named(
    db: &Connection,
    filter: &EntityFilter,
    part: &str,
    limit: u32,
) -> Result<Vec<Node>, CatalogError> {
    let collections = match &filter.collection {
        Some(collection) => vec![collection.clone()],
        None => collections(db, &filter.tenant)?,
    };
    let (part, kind) = (normalised(part), filter.kind.as_deref().map(normalised));
    if part.is_empty() {
        return Ok(Vec::new());
    }
    let looked_at = NAMES_MAX / collections.len().max(1) as u32;
    let mut ids: Vec<EntityId> = Vec::new();
    // Those that begin with it come first.
    for (from, to) in [beginning_with(&part), beginning_with("")] {
        for collection in &collections {
            let mut found = db.prepare_cached(NAMED)?;
            let values = params![filter.tenant, collection, from, to, looked_at, part, kind, limit];
            let found: Result<Vec<_>, _> =
                found.query_map(values, |row| Ok(EntityId(row.get(0)?)))?.collect();
            ids.extend(found?.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        }
        if ids.len() >= limit as usize {
            break;
        }
    }
    let mut nodes = Vec::new();
    for id in ids {
        let shown = shown(db, &filter.tenant, id)?;
        let node = |(kind, name, mentions)| Node { id, kind, name, mentions, distance: 0 };
        nodes.extend(shown.map(node));
        if nodes.len() >= limit as usize {
            break;
        }
    }
    Ok(nodes)
}

/// Collections that have entities, found by leaping from one to the next.
fn collections(db: &Connection, tenant: &str) -> Result<Vec<String>, CatalogError> {
    let sql = "select collection from entities where tenant = ?1 and collection > ?2 \
         order by collection limit 1";
    let mut next = db.prepare_cached(sql)?;
    let mut all: Vec<String> = Vec::new();
    while all.len() < COLLECTIONS_MAX {
        let last = all.last().map_or("", String::as_str);
        let found = next.query_row(params![tenant, last], |row| row.get(0)).optional()?;
        let Some(found) = found else { break };
        all.push(found);
    }
    Ok(all)
}

pub(super) const MENTIONED: &str = "select c.id, m.document, m.generation, c.page, c.ordinal, \
     d.name, m.name, c.text from mentions m \
     cross join documents d on d.id = m.document and d.live = m.generation and d.tenant = ?2 \
     cross join chunks c on c.row = m.chunk where m.entity = ?1 and m.document >= ?3 \
     and (m.document, c.page, c.ordinal) > (?3, ?4, ?5) \
     order by m.document, c.page, c.ordinal limit ?6";

pub(super) fn mentioned(
    db: &Connection,
    tenant: &str,
    of: EntityId,
    after: MentionCursor,
    limit: u32,
) -> Result<Vec<MentionedIn>, CatalogError> {
    let MentionCursor { document, page, index } = after;
    let mut found = db.prepare_cached(MENTIONED)?;
    let mut rows = found.query(params![of.0, tenant, document.as_bytes(), page, index, limit])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let document = uuid_of(&row.get::<_, Vec<u8>>(1)?)?;
        all.push(MentionedIn {
            chunk: ChunkId(row.get(0)?),
            page: PageKey { document, generation: row.get(2)?, number: row.get(3)? },
            index: row.get(4)?,
            document: row.get(5)?,
            called: row.get(6)?,
            text: row.get(7)?,
        });
    }
    Ok(all)
}
