//! Documents and generations in PostgreSQL.
//!
//! Whoever changes what a document is locks its row first. Whoever writes something of a
//! generation holds that one against becoming old meanwhile.

use tokio_postgres::Row;
use uuid::Uuid;
use windrow_core::{ItemId, Timestamp};

use super::super::chunk::hash_of;
use super::super::document::{Known, decide, state_of};
use super::super::error::CatalogError;
use super::super::{
    Added, Content, Counted, DOCUMENTS_COUNTED_MAX, Document, DocumentCursor, DocumentFilter,
    DocumentState, Generation, GenerationKey, GenerationState, Hash, NewDocument, OldGeneration,
    Published, Scope,
};
use super::value::{Built, Tx, int, nat, values};
use super::{Trouble, ms, time, vectors};

/// The columns of a generation, from 0; then those of a document.
const GENERATION: &str = "g.number, g.state, g.hash, g.media_type, g.bytes, g.place, g.pages, \
     g.failure, g.added_at, g.published_at, g.item";
const DOCUMENT: &str = "d.id, d.tenant, d.collection, d.source, d.name, d.state, d.live, \
     d.added_at, d.changed_at";

pub(super) async fn add(tx: &Tx<'_>, new: &NewDocument, now: Timestamp) -> Result<Added, Trouble> {
    // Locks the row of a known one; a new one has no generation yet.
    let sql = "insert into windrow_catalog.documents as d (id, tenant, collection, source, name, \
         folded_name, state, newest, added_at, changed_at) \
         values ($1, $2, $3, $4, $5, $6, 'building', 0, $7, $7) \
         on conflict (tenant, collection, source) do update set source = excluded.source \
         returning d.id, d.state = 'deleting', d.newest";
    let (Scope { tenant, collection }, folded) = (&new.scope, new.name.to_lowercase());
    let values = values![new.id, *tenant, *collection, new.source, new.name, folded, ms(now)];
    let row = tx.one(sql, values).await?;
    let (id, is_deleting, newest): (Uuid, bool, i32) = (row.get(0), row.get(1), row.get(2));
    if newest == 0 {
        let first = GenerationKey { document: id, generation: 1 };
        insert_generation(tx, first, new, now).await?;
        return Ok(Added::New(first));
    }
    let sql = "select hash, state from windrow_catalog.generations \
         where document = $1 and number = $2";
    let found = tx.row(sql, values![id, newest]).await?;
    let known = Known {
        id,
        is_deleting,
        newest: nat(newest),
        hash: found.as_ref().map(|row| hash_of(row.get(0))).transpose()?,
        state: found.as_ref().map(|row| GenerationState::read(row.get(1))).transpose()?,
    };
    let added = decide(&known, new);
    if let Added::Changed(at) = added {
        insert_generation(tx, at, new, now).await?;
        refresh(tx, id).await?;
    }
    Ok(added)
}

async fn insert_generation(
    tx: &Tx<'_>,
    at: GenerationKey,
    new: &NewDocument,
    now: Timestamp,
) -> Result<(), Trouble> {
    let sql = "insert into windrow_catalog.generations \
         (document, number, state, hash, media_type, bytes, place, added_at) \
         values ($1, $2, 'building', $3, $4, $5, $6, $7)";
    let Content { hash, media_type, bytes, place } = &new.content;
    let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
    let number = int(at.generation);
    let values = values![at.document, number, hash.as_slice(), *media_type, bytes, *place, ms(now)];
    tx.run(sql, values).await?;
    let sql = "update windrow_catalog.documents \
         set newest = $2, name = $3, folded_name = $4, changed_at = $5 where id = $1";
    let folded = new.name.to_lowercase();
    tx.run(sql, values![at.document, number, new.name, folded, ms(now)]).await?;
    Ok(())
}

/// Writes down what a document's generations say that it is.
async fn refresh(tx: &Tx<'_>, document: Uuid) -> Result<(), Trouble> {
    let sql = "select d.live, d.newest, g.failure is not null from windrow_catalog.documents d \
         left join windrow_catalog.generations g on g.document = d.id and g.number = d.newest \
         where d.id = $1";
    let row = tx.one(sql, values![document]).await?;
    let (live, newest): (Option<i32>, i32) = (row.get(0), row.get(1));
    let state = state_of(live.map(nat), nat(newest), row.get(2)).word();
    let sql = "update windrow_catalog.documents set state = $2 where id = $1";
    tx.run(sql, values![document, state]).await?;
    Ok(())
}

/// How a generation is held while something of it is written.
#[derive(Clone, Copy)]
pub(super) enum Hold {
    /// Others may write too.
    Shared,
    /// The generation itself is changed.
    Alone,
}

/// The collection of a generation that may be written to, and is held.
pub(super) async fn open(tx: &Tx<'_>, at: GenerationKey, hold: Hold) -> Result<Scope, Trouble> {
    let sql = match hold {
        Hold::Shared => {
            "select d.tenant, d.collection from windrow_catalog.generations g \
             join windrow_catalog.documents d on d.id = g.document \
             where g.document = $1 and g.number = $2 and g.state <> 'old' for share of g"
        }
        Hold::Alone => {
            "select d.tenant, d.collection from windrow_catalog.generations g \
             join windrow_catalog.documents d on d.id = g.document \
             where g.document = $1 and g.number = $2 and g.state <> 'old' for no key update of g"
        }
    };
    let found = tx.row(sql, values![at.document, int(at.generation)]).await?;
    let row = found.ok_or_else(|| CatalogError::gone(at))?;
    Ok(Scope { tenant: row.get(0), collection: row.get(1) })
}

/// Locks a document. Gives its live generation, and whether it is being deleted.
async fn lock(tx: &Tx<'_>, id: Uuid) -> Result<Option<(Option<u32>, bool)>, Trouble> {
    let sql = "select live, state = 'deleting' from windrow_catalog.documents \
         where id = $1 for no key update";
    let row = tx.row(sql, values![id]).await?;
    Ok(row.map(|row| (row.get::<_, Option<i32>>(0).map(nat), row.get(1))))
}

/// Whether a tenant has this generation.
pub(super) async fn has(tx: &Tx<'_>, tenant: &str, at: GenerationKey) -> Result<bool, Trouble> {
    Ok(generation(tx, tenant, at).await?.is_some())
}

pub(super) async fn one(tx: &Tx<'_>, tenant: &str, id: Uuid) -> Result<Option<Document>, Trouble> {
    let sql = format!(
        "select {GENERATION}, {DOCUMENT} from windrow_catalog.documents d \
         left join windrow_catalog.generations g on g.document = d.id and g.number = d.newest \
         where d.id = $1 and d.tenant = $2"
    );
    let row = tx.row(&sql, values![id, tenant]).await?;
    row.as_ref().map(document).transpose()
}

pub(super) async fn unfinished(
    tx: &Tx<'_>,
    after: Option<Uuid>,
    limit: u32,
) -> Result<Vec<Document>, Trouble> {
    let sql = format!(
        "select {GENERATION}, {DOCUMENT} from windrow_catalog.documents d \
         left join windrow_catalog.generations g on g.document = d.id and g.number = d.newest \
         where d.id > $1 and d.state in ('building', 'updating', 'deleting') and \
         (d.state = 'deleting' or g.state = 'building' and g.failure is null) \
         order by d.id limit $2"
    );
    let rows = tx.rows(&sql, values![after.unwrap_or_default(), i64::from(limit)]).await?;
    rows.iter().map(document).collect()
}

/// The statement of a list.
pub(super) fn list_sql(
    filter: &DocumentFilter,
    after: Option<DocumentCursor>,
    limit: u32,
) -> Built {
    let mut built = Built::default();
    built.sql = format!(
        "select {GENERATION}, {DOCUMENT} from windrow_catalog.documents d \
         left join windrow_catalog.generations g on g.document = d.id and g.number = d.newest"
    );
    built.with(" where d.tenant = ?", filter.tenant.clone());
    if let Some(collection) = &filter.collection {
        built.with(" and d.collection = ?", collection.clone());
    }
    if let Some(state) = filter.state {
        built.with(" and d.state = ?", state.word());
    }
    if let Some(name) = &filter.name {
        built.with(" and position(? in d.folded_name) > 0", name.to_lowercase());
    }
    if let Some(DocumentCursor { added_at, id }) = after {
        built.with(" and (d.added_at, d.id) < (?, ", ms(added_at));
        built.with("?)", id);
    }
    built.with(" order by d.added_at desc, d.id desc limit ?", i64::from(limit));
    built
}

pub(super) async fn list(
    tx: &Tx<'_>,
    filter: &DocumentFilter,
    after: Option<DocumentCursor>,
    limit: u32,
) -> Result<Vec<Document>, Trouble> {
    let built = list_sql(filter, after, limit);
    let rows = tx.rows(&built.sql, &built.values()).await?;
    rows.iter().map(document).collect()
}

pub(super) const COUNT: &str = "select c.found from \
     unnest($2::text[]) with ordinality as a(state, place) cross join lateral \
     (select count(*) as found from (select from windrow_catalog.documents d \
     where d.tenant = $1 and d.state = a.state order by d.added_at, d.id limit $3) d) c \
     order by a.place";

pub(super) async fn count(tx: &Tx<'_>, tenant: &str) -> Result<Vec<Counted>, Trouble> {
    let states = DocumentState::ALL.map(DocumentState::word).to_vec();
    let most = i64::from(DOCUMENTS_COUNTED_MAX) + 1;
    let rows = tx.rows(COUNT, values![tenant, states, most]).await?;
    let found = rows.iter().map(|row| u32::try_from(row.get::<_, i64>(0)).unwrap_or(u32::MAX));
    Ok(DocumentState::ALL
        .into_iter()
        .zip(found)
        .map(|(of, found)| Counted::of(of, found))
        .collect())
}

pub(super) async fn generation(
    tx: &Tx<'_>,
    tenant: &str,
    at: GenerationKey,
) -> Result<Option<Generation>, Trouble> {
    let sql = format!(
        "select {GENERATION} from windrow_catalog.generations g \
         join windrow_catalog.documents d on d.id = g.document \
         where g.document = $1 and g.number = $2 and d.tenant = $3"
    );
    let values = values![at.document, int(at.generation), tenant];
    let row = tx.row(&sql, values).await?;
    Ok(row.as_ref().map(generation_of).transpose()?.flatten())
}

pub(super) async fn owner(tx: &Tx<'_>, id: Uuid) -> Result<Option<String>, Trouble> {
    let sql = "select tenant from windrow_catalog.documents where id = $1";
    Ok(tx.row(sql, values![id]).await?.map(|row| row.get(0)))
}

pub(super) async fn has_content(tx: &Tx<'_>, tenant: &str, hash: &Hash) -> Result<bool, Trouble> {
    let sql = "select exists (select from windrow_catalog.generations g \
               join windrow_catalog.documents d on d.id = g.document \
               where g.hash = $1 and d.tenant = $2)";
    let row = tx.row(sql, values![&hash[..], tenant]).await?;
    Ok(row.is_some_and(|row| row.get(0)))
}

fn generation_of(row: &Row) -> Result<Option<Generation>, Trouble> {
    let Some(number) = row.get::<_, Option<i32>>(0) else { return Ok(None) };
    let content = Content {
        hash: hash_of(row.get(2))?,
        media_type: row.get(3),
        bytes: row.get::<_, i64>(4).unsigned_abs(),
        place: row.get(5),
    };
    Ok(Some(Generation {
        number: nat(number),
        state: GenerationState::read(row.get(1))?,
        content,
        pages: row.get::<_, Option<i32>>(6).map(nat),
        failure: row.get(7),
        added_at: time(row.get(8)),
        published_at: row.get::<_, Option<i64>>(9).map(time),
        item: row.get::<_, Option<&str>>(10).and_then(|item| item.parse().ok()),
    }))
}

fn document(row: &Row) -> Result<Document, Trouble> {
    Ok(Document {
        id: row.get(11),
        scope: Scope { tenant: row.get(12), collection: row.get(13) },
        source: row.get(14),
        name: row.get(15),
        state: DocumentState::read(row.get(16))?,
        live: row.get::<_, Option<i32>>(17).map(nat),
        newest: generation_of(row)?,
        added_at: time(row.get(18)),
        changed_at: time(row.get(19)),
    })
}

pub(super) async fn fail(tx: &Tx<'_>, at: GenerationKey, why: Option<&str>) -> Result<(), Trouble> {
    lock(tx, at.document).await?;
    open(tx, at, Hold::Alone).await?;
    let sql = "update windrow_catalog.generations set failure = $3 \
         where document = $1 and number = $2";
    tx.run(sql, values![at.document, int(at.generation), why]).await?;
    refresh(tx, at.document).await
}

pub(super) async fn note_item(tx: &Tx<'_>, at: GenerationKey, item: ItemId) -> Result<(), Trouble> {
    let sql = "update windrow_catalog.generations set item = $3 \
         where document = $1 and number = $2";
    tx.run(sql, values![at.document, int(at.generation), item.to_string()]).await?;
    Ok(())
}

pub(super) async fn publish(
    tx: &Tx<'_>,
    at: GenerationKey,
    now: Timestamp,
) -> Result<Published, Trouble> {
    let (id, number) = (at.document, int(at.generation));
    let Some((live, false)) = lock(tx, id).await? else {
        return Err(CatalogError::gone(at).into());
    };
    let sql = "select number from windrow_catalog.generations \
         where document = $1 order by number for no key update";
    let numbers = tx.rows(sql, values![id]).await?;
    if !numbers.iter().any(|row| row.get::<_, i32>(0) == number) {
        return Err(CatalogError::gone(at).into());
    }
    let below = live.map_or(at.generation, |live| live.max(at.generation));
    let sql = "update windrow_catalog.generations set state = 'old' \
         where document = $1 and number < $2 and state <> 'old'";
    tx.run(sql, values![id, int(below)]).await?;
    if let Some(live) = live.filter(|live| *live > at.generation) {
        return Ok(Published::Superseded { live });
    }
    if live != Some(at.generation) {
        let sql = "update windrow_catalog.generations \
             set state = 'live', failure = null, published_at = $3 \
             where document = $1 and number = $2";
        tx.run(sql, values![id, number, ms(now)]).await?;
        let sql = "update windrow_catalog.documents set live = $2, changed_at = $3 where id = $1";
        tx.run(sql, values![id, number, ms(now)]).await?;
        refresh(tx, id).await?;
        vectors::forget_live(tx, id).await?;
        vectors::log(tx, "live", &[(at, None)]).await?;
    }
    let sql = "select number from windrow_catalog.generations \
         where document = $1 and state = 'old' order by number";
    let old = tx.rows(sql, values![id]).await?;
    Ok(Published::Live { old: old.iter().map(|row| nat(row.get(0))).collect() })
}

pub(super) async fn old(tx: &Tx<'_>, limit: u32) -> Result<Vec<OldGeneration>, Trouble> {
    let sql = "select g.document, g.number, d.tenant, d.collection \
         from windrow_catalog.generations g \
         join windrow_catalog.documents d on d.id = g.document where g.state = 'old' \
         order by g.document, g.number limit $1";
    let rows = tx.rows(sql, values![i64::from(limit)]).await?;
    let old = rows.iter().map(|row| OldGeneration {
        at: GenerationKey { document: row.get(0), generation: nat(row.get(1)) },
        scope: Scope { tenant: row.get(2), collection: row.get(3) },
    });
    Ok(old.collect())
}
