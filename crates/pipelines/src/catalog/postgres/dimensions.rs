//! Of which dimension vectors in PostgreSQL are. Which of them belong together, `Given` decides.
//!
//! A generation is looked at when its first vectors come, all of one call in one statement: whoever
//! looks holds the sequences, and everybody else who puts vectors waits.

use std::collections::{BTreeMap, HashMap};

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::GenerationKey;
use super::super::vectors::{Given, Held};
use super::Trouble;
use super::value::{Tx, int, nat, values};

/// Another dimension that another document of each collection has. In two ranges of an index: what
/// lies between them may be the whole collection. In their order: the planner takes a range whose
/// ends it does not know for a third of everything, and would read it all.
pub(super) const OTHERS: &str = "select n.nth, o.dimension \
     from unnest($1::int[], $2::text[], $3::text[], $4::int[], $5::uuid[]) \
     as n(nth, tenant, collection, dimension, document) cross join lateral (\
     (select o.dimension from windrow_catalog.dimensions o \
     join windrow_catalog.generations g on g.document = o.document and g.number = o.generation \
     where o.tenant = n.tenant and o.collection = n.collection and o.dimension < n.dimension \
     and o.document <> n.document and g.state <> 'old' order by o.dimension limit 1) \
     union all (select o.dimension from windrow_catalog.dimensions o \
     join windrow_catalog.generations g on g.document = o.document and g.number = o.generation \
     where o.tenant = n.tenant and o.collection = n.collection and o.dimension > n.dimension \
     and o.document <> n.document and g.state <> 'old' order by o.dimension limit 1) limit 1) o";

/// Those of which no vector has come yet. Refuses what differs from those that have.
pub(super) async fn unseen(
    tx: &Tx<'_>,
    mut all: BTreeMap<GenerationKey, Given>,
) -> Result<BTreeMap<GenerationKey, Given>, Trouble> {
    for (at, dimension) in dimensions(tx, &all).await? {
        if let Some(given) = all.remove(&at) {
            given.check(Held { of_generation: Some(dimension), ..Held::default() })?;
        }
    }
    Ok(all)
}

/// The dimensions of all generations of these documents that are not old.
async fn dimensions(
    tx: &Tx<'_>,
    of: &BTreeMap<GenerationKey, Given>,
) -> Result<Vec<(GenerationKey, usize)>, Trouble> {
    let sql = "select o.document, o.generation, o.dimension from windrow_catalog.dimensions o \
         join windrow_catalog.generations g on g.document = o.document and g.number = o.generation \
         where o.document = any($1) and g.state <> 'old'";
    let documents: Vec<Uuid> = of.keys().map(|at| at.document).collect();
    let rows = tx.rows(sql, values![documents]).await?;
    let dimension = |row: &Row| {
        let at = GenerationKey { document: row.get(0), generation: nat(row.get(1)) };
        (at, nat(row.get(2)) as usize)
    };
    Ok(rows.iter().map(dimension).collect())
}

/// Whether the first vectors of generations belong where they are put. Whoever asks holds the
/// sequences: nobody else answers at the same time.
pub(super) async fn check(
    tx: &Tx<'_>,
    fresh: &BTreeMap<GenerationKey, Given>,
) -> Result<(), Trouble> {
    let known = dimensions(tx, fresh).await?;
    let all: Vec<&Given> = fresh.values().collect();
    let numbers: Vec<i32> = (0..).take(all.len()).collect();
    let documents: Vec<Uuid> = all.iter().map(|one| one.at.document).collect();
    let generations: Vec<i32> = all.iter().map(|one| int(one.at.generation)).collect();
    let tenants: Vec<&str> = all.iter().map(|one| one.scope.tenant.as_str()).collect();
    let collections: Vec<&str> = all.iter().map(|one| one.scope.collection.as_str()).collect();
    let given: Vec<i32> = all.iter().map(|one| one.dimension as i32).collect();
    let others = tx.rows(OTHERS, values![numbers, tenants, collections, given, documents]).await?;
    let others: HashMap<i32, i32> = others.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut beside: HashMap<(&str, &str), usize> = HashMap::new();
    for (nth, one) in (0..).zip(&all) {
        let scope = (one.scope.tenant.as_str(), one.scope.collection.as_str());
        let first = *beside.entry(scope).or_insert(one.dimension);
        let beside = (first != one.dimension).then_some(first);
        let own = |is_it: fn(u32, u32) -> bool| {
            let mut known = known.iter().filter(|(at, _)| at.document == one.at.document);
            known.find(|(at, _)| is_it(at.generation, one.at.generation)).map(|found| found.1)
        };
        one.check(Held {
            of_generation: own(|known, given| known == given),
            has_older: own(|known, given| known < given).is_some(),
            of_others: others.get(&nth).map(|dimension| nat(*dimension) as usize).or(beside),
        })?;
    }
    let sql = "insert into windrow_catalog.dimensions \
         (document, generation, tenant, collection, dimension) \
         select * from unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::int[]) \
         on conflict do nothing";
    tx.run(sql, values![documents, generations, tenants, collections, given]).await?;
    Ok(())
}
