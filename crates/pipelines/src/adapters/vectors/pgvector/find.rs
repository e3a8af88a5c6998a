//! Finding: the nearest points, by comparing all that a filter lets through or along the index.
//!
//! The index knows nothing of filters: it gives one near point after another, and those that do not
//! pass are thrown away. Where few pass, that is slower than to compare them all, and misses many.
//! So it is counted first, up to a limit, how many do.

use futures_util::future::try_join;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{Filter, Hit, Point, by_nearness, misfit};
use super::Trouble;
use super::schema::{Extension, is_indexed, points, tables};
use crate::postgres::value::{Built, Tx, int, nat, values};

/// So few are always compared one by one.
const FEW: u64 = 2_000;

/// The index takes no more candidates at once. If these are not enough, it looks on.
const CANDIDATES_MAX: usize = 1_000;

/// How the nearest are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// All that pass are compared.
    Exact,
    /// By the index; it may miss some.
    Index,
}

impl Way {
    /// By how many pass, how many there are in all (None if nobody has counted yet), how many are
    /// wanted and how many may be compared. Where most pass, the index throws little away.
    fn of(passing: u64, total: Option<f64>, wanted: u64, exact_max: u64) -> Way {
        let is_part = total.is_none_or(|total| (passing as f64) < total / 2.0);
        let is_small = is_part || passing <= wanted.max(FEW);
        if passing <= exact_max && is_small { Way::Exact } else { Way::Index }
    }
}

/// What is looked for.
pub(super) struct Ask<'a> {
    pub(super) extension: &'a Extension,
    pub(super) query: &'a [f32],
    pub(super) filter: &'a Filter,
    pub(super) limit: usize,
}

impl Ask<'_> {
    /// Finds the nearest, comparing so many points at most unless the index fails, which is asked
    /// for so many at least.
    pub(super) async fn find(
        &self,
        tx: &Tx<'_>,
        exact_max: usize,
        candidates: usize,
    ) -> Result<Vec<Hit>, Trouble> {
        let dimension = self.query.len();
        let tables = tables(tx).await?;
        for other in tables.iter().filter(|other| **other != dimension) {
            self.comparable(tx, *other).await?;
        }
        if self.limit == 0 || !tables.contains(&dimension) {
            return Ok(Vec::new());
        }
        if self.way(tx, exact_max as u64).await? == Way::Exact {
            return self.hits(tx, Way::Exact).await;
        }
        let width = candidates.max(self.limit).clamp(1, CANDIDATES_MAX).to_string();
        let set = "select set_config('hnsw.iterative_scan', 'relaxed_order', true), \
             set_config('hnsw.ef_search', $1, true)";
        let settings = values![width];
        let set = async { Ok(tx.run(set, settings).await?) };
        // Both are under way at once, and the database does one after the other.
        let (_, hits) = try_join(set, self.hits(tx, Way::Index)).await?;
        // Where hardly any pass it gives up before there are enough.
        match hits.len() < self.limit {
            true => self.hits(tx, Way::Exact).await,
            false => Ok(hits),
        }
    }

    /// Refuses a query that some of what it is to be compared with was not made for.
    async fn comparable(&self, tx: &Tx<'_>, other: usize) -> Result<(), Trouble> {
        let mut one =
            Built::of(format!("select tenant, collection from {} where true", points(other)));
        admitted(&mut one, self.filter, Way::Exact);
        one.sql += " limit 1";
        match tx.row(&one.sql, &one.values()).await? {
            Some(row) => Err(misfit(row.get(0), row.get(1), other, self.query.len()).into()),
            None => Ok(()),
        }
    }

    async fn way(&self, tx: &Tx<'_>, exact_max: u64) -> Result<Way, Trouble> {
        if !is_indexed(self.query.len()) {
            return Ok(Way::Exact);
        }
        let table = points(self.query.len());
        let mut few = Built::of(format!(
            "select count(*), (select reltuples from pg_class where oid = '{table}'::regclass) \
             from (select 1 from {table} where true"
        ));
        admitted(&mut few, self.filter, Way::Exact);
        few.with(" limit ?) few", i64::try_from(exact_max.saturating_add(1)).unwrap_or(i64::MAX));
        let row = tx.one(&few.sql, &few.values()).await?;
        let (passing, total): (i64, f32) = (row.get(0), row.get(1));
        let total = Some(f64::from(total)).filter(|total| *total >= 0.0);
        Ok(Way::of(passing.unsigned_abs(), total, self.limit as u64, exact_max))
    }

    pub(super) async fn hits(&self, tx: &Tx<'_>, way: Way) -> Result<Vec<Hit>, Trouble> {
        let built = self.statement(way);
        let rows = tx.rows(&built.sql, &built.values()).await?;
        let mut hits: Vec<Hit> = rows.iter().map(hit).collect();
        hits.sort_by(by_nearness);
        Ok(hits)
    }

    /// The statement that finds. By its order the database knows whether the index will do.
    pub(super) fn statement(&self, way: Way) -> Built {
        let distance = self.extension.distance(&self.extension.vector("$1::real[]"));
        let mut built = Built::of("select chunk, document, generation, page, tenant, collection, ");
        built.with(&format!("{} as distance", distance.replace("$1", "?")), self.query.to_vec());
        built.sql += &format!(" from {} where true", points(self.query.len()));
        admitted(&mut built, self.filter, way);
        built.sql += &match way {
            Way::Exact => format!(" order by 1 - ({distance}) desc, chunk"),
            Way::Index => format!(" order by {distance}"),
        };
        built.with(" limit ?", i64::try_from(self.limit).unwrap_or(i64::MAX));
        built
    }
}

/// What a filter demands of a row.
fn admitted(built: &mut Built, filter: &Filter, way: Way) {
    if let Some(tenant) = &filter.tenant {
        built.with(" and tenant = ?", tenant.to_string());
    }
    if let Some(collection) = &filter.collection {
        built.with(" and collection = ?", collection.to_string());
    }
    if let Some(document) = filter.document {
        built.with(" and document = ?", document);
    }
    let Some(live) = &filter.live else { return };
    let (documents, generations): (Vec<Uuid>, Vec<i32>) =
        live.iter().map(|(document, generation)| (*document, int(*generation))).unzip();
    // A join would lose the order of the index, which a condition within another keeps.
    let (begins, ends) = match way {
        Way::Exact => ("", ""),
        Way::Index => ("case when ", " then true else false end"),
    };
    built.with(
        &format!(" and {begins}(document, generation) in (select * from unnest(?::uuid[]"),
        documents,
    );
    built.with(&format!(", ?::int[])){ends}"), generations);
}

fn hit(row: &Row) -> Hit {
    let point = Point {
        id: row.get::<_, Uuid>(0).into_bytes(),
        document: row.get(1),
        generation: nat(row.get(2)),
        page: nat(row.get(3)),
        tenant: row.get::<_, &str>(4).into(),
        collection: row.get::<_, &str>(5).into(),
    };
    Hit { point, score: (1.0 - row.get::<_, f64>(6)) as f32 }
}

pub(super) async fn count(tx: &Tx<'_>, filter: &Filter) -> Result<u64, Trouble> {
    let mut sum = 0;
    for dimension in tables(tx).await? {
        let mut all = Built::of(format!("select count(*) from {} where true", points(dimension)));
        admitted(&mut all, filter, Way::Exact);
        let count: i64 = tx.one(&all.sql, &all.values()).await?.get(0);
        sum += count.unsigned_abs();
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_asked_where_it_throws_little_away_and_where_too_many_pass() {
        for (passing, total, wanted, expected) in [
            (0, Some(0.0), 10, Way::Exact),
            (2_000, Some(2_000.0), 10, Way::Exact),
            (2_001, Some(2_001.0), 10, Way::Index),
            (2_001, Some(2_001.0), 9_999, Way::Exact),
            (10_000, Some(100_000.0), 10, Way::Exact),
            (10_000, None, 10, Way::Exact),
            (40_000, Some(60_000.0), 10, Way::Index),
            (50_001, Some(9e9), 10, Way::Index),
            (50_001, None, 10, Way::Index),
        ] {
            assert_eq!(Way::of(passing, total, wanted, 50_000), expected, "{passing} of {total:?}");
        }
    }
}
