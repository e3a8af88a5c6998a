//! Documents and generations in SQLite.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};
use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

use super::super::chunk::{hash_of, uuid_of};
use super::super::document::{Known, decide, state_of};
use super::super::error::CatalogError;
use super::super::{
    Added, Content, Counted, DOCUMENTS_COUNTED_MAX, Document, DocumentCursor, DocumentFilter,
    DocumentState, Generation, GenerationKey, GenerationState, Hash, NewDocument, OldGeneration,
    Published, Scope,
};
use super::{ms, time};

/// The columns of a generation, from 0; then those of a document.
const GENERATION: &str = "g.number, g.state, g.hash, g.media_type, g.bytes, g.place, g.pages, \
     g.failure, g.added_at, g.published_at, g.item";
const DOCUMENT: &str = "d.id, d.tenant, d.collection, d.source, d.name, d.state, d.live, \
     d.added_at, d.changed_at";

pub(super) fn add(
    db: &Connection,
    new: &NewDocument,
    now: Timestamp,
) -> Result<Added, CatalogError> {
    let sql = "select d.id, d.state = 'deleting', d.newest, g.hash, g.state from documents d \
         left join generations g on g.document = d.id and g.number = d.newest \
         where d.tenant = ?1 and d.collection = ?2 and d.source = ?3";
    let Scope { tenant, collection } = &new.scope;
    let found = db.prepare_cached(sql)?.query_row(params![tenant, collection, new.source], |row| {
        Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    });
    let Some(found) = found.optional()? else {
        let sql = "insert into documents (id, tenant, collection, source, name, folded_name, \
             state, newest, added_at, changed_at) \
             values (?1, ?2, ?3, ?4, ?5, ?6, 'building', 1, ?7, ?7)";
        let id = new.id.as_bytes();
        let folded = new.name.to_lowercase();
        db.prepare_cached(sql)?.execute(params![
            id,
            tenant,
            collection,
            new.source,
            new.name,
            folded,
            ms(now)
        ])?;
        let first = GenerationKey { document: new.id, generation: 1 };
        insert_generation(db, first, new, now)?;
        return Ok(Added::New(first));
    };
    let (id, is_deleting, newest, hash, state): (_, _, _, Option<Vec<u8>>, Option<String>) = found;
    let known = Known {
        id: uuid_of(&id)?,
        is_deleting,
        newest,
        hash: hash.map(|hash| hash_of(&hash)).transpose()?,
        state: state.map(|state| GenerationState::read(&state)).transpose()?,
    };
    let added = decide(&known, new);
    if let Added::Changed(at) = added {
        insert_generation(db, at, new, now)?;
        let sql = "update documents set newest = ?2, name = ?3, folded_name = ?4, \
             changed_at = ?5 where id = ?1";
        let folded = new.name.to_lowercase();
        db.prepare_cached(sql)?.execute(params![id, at.generation, new.name, folded, ms(now)])?;
        refresh(db, at.document)?;
    }
    Ok(added)
}

fn insert_generation(
    db: &Connection,
    at: GenerationKey,
    new: &NewDocument,
    now: Timestamp,
) -> Result<(), CatalogError> {
    let sql = "insert into generations \
         (document, number, state, hash, media_type, bytes, place, added_at) \
         values (?1, ?2, 'building', ?3, ?4, ?5, ?6, ?7)";
    let Content { hash, media_type, bytes, place } = &new.content;
    let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
    let document = at.document.as_bytes();
    db.prepare_cached(sql)?.execute(params![
        document,
        at.generation,
        hash,
        media_type,
        bytes,
        place,
        ms(now)
    ])?;
    Ok(())
}

/// Writes down what a document's generations say that it is.
fn refresh(db: &Connection, document: Uuid) -> Result<(), CatalogError> {
    let sql = "select d.live, d.newest, g.failure is not null from documents d \
         left join generations g on g.document = d.id and g.number = d.newest where d.id = ?1";
    let id = document.as_bytes();
    let (live, newest, has_failed) = db
        .prepare_cached(sql)?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let word = state_of(live, newest, has_failed).word();
    db.prepare_cached("update documents set state = ?2 where id = ?1")?
        .execute(params![id, word])?;
    Ok(())
}

/// The collection of a generation that may be written to.
pub(super) fn open(db: &Connection, at: GenerationKey) -> Result<Scope, CatalogError> {
    let sql = "select d.tenant, d.collection from generations g \
         join documents d on d.id = g.document \
         where g.document = ?1 and g.number = ?2 and g.state <> 'old'";
    let found =
        db.prepare_cached(sql)?.query_row(params![at.document.as_bytes(), at.generation], |row| {
            Ok(Scope { tenant: row.get(0)?, collection: row.get(1)? })
        });
    found.optional()?.ok_or_else(|| CatalogError::gone(at))
}

/// Whether a tenant has this generation.
pub(super) fn has(db: &Connection, tenant: &str, at: GenerationKey) -> Result<bool, CatalogError> {
    let sql = "select 1 from generations g join documents d on d.id = g.document \
         where g.document = ?1 and g.number = ?2 and d.tenant = ?3";
    let at = params![at.document.as_bytes(), at.generation, tenant];
    Ok(db.prepare_cached(sql)?.exists(at)?)
}

pub(super) fn one(
    db: &Connection,
    tenant: &str,
    id: Uuid,
) -> Result<Option<Document>, CatalogError> {
    let sql = format!(
        "select {GENERATION}, {DOCUMENT} from documents d \
         left join generations g on g.document = d.id and g.number = d.newest \
         where d.id = ?1 and d.tenant = ?2"
    );
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params![id.as_bytes(), tenant])?;
    rows.next()?.map(document).transpose()
}

/// The statement of a list, and its values.
pub(super) fn list_sql(
    filter: &DocumentFilter,
    after: Option<DocumentCursor>,
    limit: u32,
) -> (String, Vec<Value>) {
    let mut values = vec![Value::from(filter.tenant.clone())];
    let mut sql = format!(
        "select {GENERATION}, {DOCUMENT} from documents d \
         left join generations g on g.document = d.id and g.number = d.newest where d.tenant = ?1"
    );
    let mut and = |condition: &str, given: Vec<Value>| {
        let mut condition = condition.to_owned();
        for value in given {
            values.push(value);
            condition = condition.replacen('$', &format!("?{}", values.len()), 1);
        }
        sql += &condition;
    };
    if let Some(collection) = &filter.collection {
        and(" and d.collection = $", vec![collection.clone().into()]);
    }
    if let Some(state) = filter.state {
        and(" and d.state = $", vec![state.word().to_owned().into()]);
    }
    if let Some(name) = &filter.name {
        and(" and instr(d.folded_name, $) > 0", vec![name.to_lowercase().into()]);
    }
    if let Some(DocumentCursor { added_at, id }) = after {
        let cursor = vec![ms(added_at).into(), id.as_bytes().to_vec().into()];
        and(" and (d.added_at, d.id) < ($, $)", cursor);
    }
    and(" order by d.added_at desc, d.id desc limit $", vec![i64::from(limit).into()]);
    (sql, values)
}

pub(super) fn list(
    db: &Connection,
    filter: &DocumentFilter,
    after: Option<DocumentCursor>,
    limit: u32,
) -> Result<Vec<Document>, CatalogError> {
    let (sql, values) = list_sql(filter, after, limit);
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params_from_iter(values))?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        documents.push(document(row)?);
    }
    Ok(documents)
}

pub(super) const COUNT: &str = "select count(*) from \
     (select 1 from documents where tenant = ?1 and state = ?2 limit ?3)";

pub(super) fn count(db: &Connection, tenant: &str) -> Result<Vec<Counted>, CatalogError> {
    let mut count = db.prepare_cached(COUNT)?;
    let all = DocumentState::ALL.into_iter().map(|state| {
        let values = params![tenant, state.word(), DOCUMENTS_COUNTED_MAX + 1];
        Ok(Counted::of(state, count.query_row(values, |row| row.get(0))?))
    });
    all.collect()
}

pub(super) fn generation(
    db: &Connection,
    tenant: &str,
    at: GenerationKey,
) -> Result<Option<Generation>, CatalogError> {
    let sql = format!(
        "select {GENERATION} from generations g join documents d on d.id = g.document \
         where g.document = ?1 and g.number = ?2 and d.tenant = ?3"
    );
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params![at.document.as_bytes(), at.generation, tenant])?;
    Ok(rows.next()?.map(generation_of).transpose()?.flatten())
}

pub(super) fn unfinished(
    db: &Connection,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<Document>, CatalogError> {
    let sql = format!(
        "select {GENERATION}, {DOCUMENT} from documents d \
         left join generations g on g.document = d.id and g.number = d.newest \
         where d.id > ?1 and d.state in ('building', 'updating', 'deleting') and \
         (d.state = 'deleting' or g.state = 'building' and g.failure is null) \
         order by d.id limit ?2"
    );
    let mut found = db.prepare_cached(&sql)?;
    let mut rows = found.query(params![after.unwrap_or_default().as_bytes(), limit])?;
    let mut documents = Vec::new();
    while let Some(row) = rows.next()? {
        documents.push(document(row)?);
    }
    Ok(documents)
}

pub(super) fn owner(db: &Connection, id: Uuid) -> Result<Option<String>, CatalogError> {
    let mut found = db.prepare_cached("select tenant from documents where id = ?1")?;
    Ok(found.query_row([id.as_bytes()], |row| row.get(0)).optional()?)
}

pub(super) fn has_content(
    db: &Connection,
    tenant: &str,
    hash: &Hash,
) -> Result<bool, CatalogError> {
    let sql = "select exists (select 1 from generations g join documents d on d.id = g.document \
               where g.hash = ?1 and d.tenant = ?2)";
    let mut found = db.prepare_cached(sql)?;
    Ok(found.query_row(params![&hash[..], tenant], |row| row.get(0))?)
}

fn generation_of(row: &Row<'_>) -> Result<Option<Generation>, CatalogError> {
    let Some(number) = row.get(0)? else { return Ok(None) };
    let hash: Vec<u8> = row.get(2)?;
    let content = Content {
        hash: hash_of(&hash)?,
        media_type: row.get(3)?,
        bytes: row.get::<_, i64>(4)?.unsigned_abs(),
        place: row.get(5)?,
    };
    Ok(Some(Generation {
        number,
        state: GenerationState::read(&row.get::<_, String>(1)?)?,
        content,
        pages: row.get(6)?,
        failure: row.get(7)?,
        added_at: time(row.get(8)?),
        published_at: row.get::<_, Option<i64>>(9)?.map(time),
        item: row.get::<_, Option<String>>(10)?.and_then(|item| item.parse().ok()),
    }))
}

fn document(row: &Row<'_>) -> Result<Document, CatalogError> {
    let id: Vec<u8> = row.get(11)?;
    Ok(Document {
        id: uuid_of(&id)?,
        scope: Scope { tenant: row.get(12)?, collection: row.get(13)? },
        source: row.get(14)?,
        name: row.get(15)?,
        state: DocumentState::read(&row.get::<_, String>(16)?)?,
        live: row.get(17)?,
        newest: generation_of(row)?,
        added_at: time(row.get(18)?),
        changed_at: time(row.get(19)?),
    })
}

pub(super) fn fail(
    db: &Connection,
    at: GenerationKey,
    why: Option<&str>,
) -> Result<(), CatalogError> {
    open(db, at)?;
    let sql = "update generations set failure = ?3 where document = ?1 and number = ?2";
    db.prepare_cached(sql)?.execute(params![at.document.as_bytes(), at.generation, why])?;
    refresh(db, at.document)
}

pub(super) fn note_item(
    db: &Connection,
    at: GenerationKey,
    item: ItemId,
) -> Result<(), CatalogError> {
    let sql = "update generations set item = ?3 where document = ?1 and number = ?2";
    let values = params![at.document.as_bytes(), at.generation, item.to_string()];
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn publish(
    db: &Connection,
    at: GenerationKey,
    now: Timestamp,
) -> Result<Published, CatalogError> {
    let sql = "select d.live, d.state = 'deleting' from generations g \
         join documents d on d.id = g.document where g.document = ?1 and g.number = ?2";
    let id = at.document.as_bytes();
    let found = db
        .prepare_cached(sql)?
        .query_row(params![id, at.generation], |row| Ok((row.get(0)?, row.get(1)?)));
    let (live, is_deleting): (Option<u32>, bool) =
        found.optional()?.ok_or_else(|| CatalogError::gone(at))?;
    if is_deleting {
        return Err(CatalogError::gone(at));
    }
    let below = live.map_or(at.generation, |live| live.max(at.generation));
    let sql = "update generations set state = 'old' \
         where document = ?1 and number < ?2 and state <> 'old'";
    db.prepare_cached(sql)?.execute(params![id, below])?;
    if let Some(live) = live.filter(|live| *live > at.generation) {
        return Ok(Published::Superseded { live });
    }
    if live != Some(at.generation) {
        let sql = "update generations set state = 'live', failure = null, published_at = ?3 \
             where document = ?1 and number = ?2";
        db.prepare_cached(sql)?.execute(params![id, at.generation, ms(now)])?;
        let sql = "update documents set live = ?2, changed_at = ?3 where id = ?1";
        db.prepare_cached(sql)?.execute(params![id, at.generation, ms(now)])?;
        refresh(db, at.document)?;
        super::vectors::log_live(db, at)?;
    }
    let sql =
        "select number from generations where document = ?1 and state = 'old' order by number";
    let mut old = db.prepare_cached(sql)?;
    let old: Result<Vec<u32>, _> = old.query_map([id], |row| row.get(0))?.collect();
    Ok(Published::Live { old: old? })
}

pub(super) fn old(db: &Connection, limit: u32) -> Result<Vec<OldGeneration>, CatalogError> {
    let sql = "select g.document, g.number, d.tenant, d.collection from generations g \
         join documents d on d.id = g.document where g.state = 'old' \
         order by g.document, g.number limit ?1";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query([limit])?;
    let mut old = Vec::new();
    while let Some(row) = rows.next()? {
        let document = uuid_of(&row.get::<_, Vec<u8>>(0)?)?;
        old.push(OldGeneration {
            at: GenerationKey { document, generation: row.get(1)? },
            scope: Scope { tenant: row.get(2)?, collection: row.get(3)? },
        });
    }
    Ok(old)
}
