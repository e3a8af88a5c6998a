//! Vectors in PostgreSQL, and the log of what else happened to them.
//!
//! Sequences come from one row, which is taken last and held until the commit. Whoever sees a
//! sequence therefore sees all below it, on whatever server.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::error::CatalogError;
use super::super::vectors::{Given, Held, change_of, vector_bytes, vector_of};
use super::super::{
    GenerationKey, NewVector, Point, Scope, VectorChange, VectorCursor, VectorsSince,
};
use super::chunks::id_of;
use super::dimensions;
use super::documents::{self, Hold};
use super::value::{Tx, int, nat, values};
use super::{Trouble, uuid};

pub(super) const SINCE: &str = "select sequence, chunk, document, generation, page, tenant, \
     collection, vector from windrow_catalog.vectors \
     where sequence > $1 order by sequence limit $2";
pub(super) const CHANGES_SINCE: &str = "select sequence, kind, document, generation, chunk \
     from windrow_catalog.changes where sequence > $1 order by sequence limit $2";

pub(super) async fn put(tx: &Tx<'_>, new: &[NewVector]) -> Result<u32, Trouble> {
    let new: HashMap<Uuid, Vec<u8>> =
        new.iter().map(|one| (uuid(one.chunk.0), vector_bytes(&one.vector))).collect();
    let there = places(tx, new.keys().copied().collect()).await?;
    let chunks: Vec<Uuid> = there.iter().map(|place| place.chunk).collect();
    let sql = "select chunk, vector from windrow_catalog.vectors where chunk = any($1)";
    let known = tx.rows(sql, values![chunks]).await?;
    // What is the same already is no news for any index.
    let same: HashSet<Uuid> = known
        .iter()
        .filter(|row| {
            new.get(&row.get::<_, Uuid>(0)).is_some_and(|bytes| *bytes == row.get::<_, &[u8]>(1))
        })
        .map(|row| row.get(0))
        .collect();
    let news: Vec<&Place> = there.iter().filter(|place| !same.contains(&place.chunk)).collect();
    if !news.is_empty() {
        write(tx, &news, &new).await?;
    }
    Ok(there.len() as u32)
}

async fn write(
    tx: &Tx<'_>,
    news: &[&Place],
    vectors: &HashMap<Uuid, Vec<u8>>,
) -> Result<(), Trouble> {
    let fresh = dimensions::unseen(tx, given(news, vectors)?).await?;
    let first = sequences(tx, news.len()).await?;
    // From here on nobody else puts vectors into any collection.
    if !fresh.is_empty() {
        dimensions::check(tx, &fresh).await?;
    }
    let sql = "insert into windrow_catalog.vectors \
         (chunk, sequence, document, generation, page, tenant, collection, vector) \
         select * from unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::int[], \
         $6::text[], $7::text[], $8::bytea[]) \
         on conflict (chunk) do update set sequence = excluded.sequence, vector = excluded.vector";
    let chunks: Vec<Uuid> = news.iter().map(|place| place.chunk).collect();
    let sequences: Vec<i64> = (first..).take(news.len()).collect();
    let documents: Vec<Uuid> = news.iter().map(|place| place.document).collect();
    let generations: Vec<i32> = news.iter().map(|place| place.generation).collect();
    let pages: Vec<i32> = news.iter().map(|place| place.page).collect();
    let tenants: Vec<&str> = news.iter().map(|place| place.tenant.as_str()).collect();
    let collections: Vec<&str> = news.iter().map(|place| place.collection.as_str()).collect();
    let bytes: Vec<&[u8]> =
        news.iter().filter_map(|place| vectors.get(&place.chunk)).map(Vec::as_slice).collect();
    let values =
        values![chunks, sequences, documents, generations, pages, tenants, collections, bytes];
    tx.run(sql, values).await?;
    Ok(())
}

/// What is put into each generation. Refuses what differs within one.
fn given(
    news: &[&Place],
    vectors: &HashMap<Uuid, Vec<u8>>,
) -> Result<BTreeMap<GenerationKey, Given>, CatalogError> {
    let mut all: BTreeMap<GenerationKey, Given> = BTreeMap::new();
    for place in news {
        let at = GenerationKey { document: place.document, generation: nat(place.generation) };
        let dimension = vectors.get(&place.chunk).map_or(0, Vec::len) / size_of::<f32>();
        let scope = Scope::new(place.tenant.as_str(), place.collection.as_str());
        let given = Given { at, scope, dimension };
        if let Some(first) = all.get(&at) {
            given.check(Held { of_generation: Some(first.dimension), ..Held::default() })?;
        }
        all.entry(at).or_insert(given);
    }
    Ok(all)
}

/// Where a chunk is.
struct Place {
    chunk: Uuid,
    document: Uuid,
    generation: i32,
    page: i32,
    tenant: String,
    collection: String,
}

/// Those of the chunks that are there, held with their generations until the end.
async fn places(tx: &Tx<'_>, chunks: Vec<Uuid>) -> Result<Vec<Place>, Trouble> {
    let sql = "select distinct document, generation from windrow_catalog.chunks \
         where id = any($1) order by document, generation";
    let mut open: HashSet<(Uuid, i32)> = HashSet::new();
    for row in tx.rows(sql, values![chunks]).await? {
        let (document, number): (Uuid, i32) = (row.get(0), row.get(1));
        let at = GenerationKey { document, generation: nat(number) };
        match documents::open(tx, at, Hold::Shared).await {
            Ok(_) => _ = open.insert((document, number)),
            Err(Trouble::Ours(CatalogError::Gone { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    let sql = "select id, document, generation, page, tenant, collection \
         from windrow_catalog.chunks where id = any($1) order by id for share";
    let rows = tx.rows(sql, values![chunks]).await?;
    let place = |row: &Row| Place {
        chunk: row.get(0),
        document: row.get(1),
        generation: row.get(2),
        page: row.get(3),
        tenant: row.get(4),
        collection: row.get(5),
    };
    let places = rows.iter().map(place);
    Ok(places.filter(|place| open.contains(&(place.document, place.generation))).collect())
}

/// The first of so many sequences. From here on nobody else gets one until the commit.
async fn sequences(tx: &Tx<'_>, count: usize) -> Result<i64, Trouble> {
    let sql = "update windrow_catalog.counters set value = value + $1 where name = 'sequence' \
         returning value";
    let count = count as i64;
    let last: i64 = tx.one(sql, values![count]).await?.get(0);
    Ok(last - count + 1)
}

/// The vectors of chunks go.
pub(super) async fn remove(tx: &Tx<'_>, chunks: &Vec<Uuid>, tell: bool) -> Result<(), Trouble> {
    let sql = "delete from windrow_catalog.vectors where chunk = any($1) \
         returning document, generation, chunk";
    let gone = tx.rows(sql, values![*chunks]).await?;
    if !tell || gone.is_empty() {
        return Ok(());
    }
    let removed = gone.iter().map(|row| {
        let at = GenerationKey { document: row.get(0), generation: nat(row.get(1)) };
        (at, Some(row.get(2)))
    });
    log(tx, "removed", &removed.collect::<Vec<_>>()).await
}

/// Nothing of a document is live.
pub(super) async fn forget_live(tx: &Tx<'_>, document: Uuid) -> Result<(), Trouble> {
    let sql = "delete from windrow_catalog.changes where document = $1 and kind = 'live'";
    tx.run(sql, values![document]).await?;
    Ok(())
}

/// What happened, each with a chunk if it happened to one only.
pub(super) async fn log(
    tx: &Tx<'_>,
    kind: &str,
    what: &[(GenerationKey, Option<Uuid>)],
) -> Result<(), Trouble> {
    let first = sequences(tx, what.len()).await?;
    // At once: everybody else who writes vectors waits.
    let sql = "insert into windrow_catalog.changes (sequence, kind, document, generation, chunk) \
         select n.sequence, $1, n.document, n.generation, n.chunk \
         from unnest($2::bigint[], $3::uuid[], $4::int[], $5::uuid[]) \
         as n(sequence, document, generation, chunk)";
    let sequences: Vec<i64> = (first..).take(what.len()).collect();
    let documents: Vec<Uuid> = what.iter().map(|(at, _)| at.document).collect();
    let generations: Vec<i32> = what.iter().map(|(at, _)| int(at.generation)).collect();
    let chunks: Vec<Option<Uuid>> = what.iter().map(|(_, chunk)| *chunk).collect();
    tx.run(sql, values![kind, sequences, documents, generations, chunks]).await?;
    Ok(())
}

pub(super) async fn newest(tx: &Tx<'_>) -> Result<u64, Trouble> {
    let sql = "select value from windrow_catalog.counters where name = 'sequence'";
    Ok(tx.one(sql, &[]).await?.get::<_, i64>(0).unsigned_abs())
}

pub(super) async fn since(
    tx: &Tx<'_>,
    after: VectorCursor,
    limit: u32,
) -> Result<VectorsSince, Trouble> {
    let sql = "select value from windrow_catalog.counters where name = 'forgotten'";
    let forgotten: i64 = tx.one(sql, &[]).await?.get(0);
    let Some(after) = after.go_on(forgotten.unsigned_abs()) else {
        return Ok(VectorsSince::BeginAgain);
    };
    let from = i64::try_from(after.sequence).unwrap_or(i64::MAX);
    let values = values![from, i64::from(limit)];
    let mut changes = Vec::new();
    for row in tx.rows(SINCE, values).await? {
        let point = Point {
            chunk: id_of(&row, 1),
            document: row.get(2),
            generation: nat(row.get(3)),
            page: nat(row.get(4)),
            scope: Scope { tenant: row.get(5), collection: row.get(6) },
        };
        let vector = vector_of(row.get(7))?;
        changes.push((row.get::<_, i64>(0).unsigned_abs(), VectorChange::Put { point, vector }));
    }
    for row in tx.rows(CHANGES_SINCE, values).await? {
        let chunk = row.get::<_, Option<Uuid>>(4).map(|chunk| chunk.into_bytes().to_vec());
        let change = change_of(row.get(1), row.get(2), nat(row.get(3)), chunk)?;
        changes.push((row.get::<_, i64>(0).unsigned_abs(), change));
    }
    Ok(VectorsSince::new(after, changes, limit as usize))
}

pub(super) async fn sweep(tx: &Tx<'_>, before: u64, limit: u32) -> Result<u64, Trouble> {
    let before = i64::try_from(before).unwrap_or(i64::MAX);
    let sql = "delete from windrow_catalog.changes where sequence in \
         (select sequence from windrow_catalog.changes \
         where kind = 'removed' and sequence < $1 order by sequence limit $2) returning sequence";
    let gone = tx.rows(sql, values![before, i64::from(limit)]).await?;
    let last: Option<i64> = gone.iter().map(|row| row.get(0)).max();
    if let Some(last) = last {
        let sql = "update windrow_catalog.counters set value = greatest(value, $1) \
             where name = 'forgotten'";
        tx.run(sql, values![last]).await?;
    }
    Ok(gone.len() as u64)
}
