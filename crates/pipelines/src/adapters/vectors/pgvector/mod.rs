//! Vectors in PostgreSQL, by its extension pgvector: the schema `windrow_vectors`.
//!
//! For many servers on one database, and for more vectors than fit into memory. Points of one
//! dimension are in one table; what a collection holds is in a row that whoever puts points shares
//! and whoever changes its dimension has alone. `schema.rs` makes the tables, `find.rs` finds the
//! nearest. Leaves out which generation is live, which the catalog knows.

mod find;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use uuid::Uuid;

use self::schema::{Extension, points, tables};
use super::{ChunkId, Filter, Hit, Point, Vectors, VectorsError, checked, dimensions, misfit};
use crate::catalog::CatalogError;
use crate::postgres::pool::Pool;
use crate::postgres::value::{Tx, int, values};
use crate::postgres::{self, Connect, Said, again, said};

/// Numbers that are sent in one statement at most, unless one vector has more.
const SENT_MAX: usize = 1 << 20;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    pub database: postgres::Options,
    /// Where a filter lets through no more numbers than this, all of them are compared, which is
    /// exact; else the index is asked, which may miss some. The default takes about 60 ms.
    pub exact_max: usize,
    /// Points that the index looks at before it answers, or as many as are wanted: with more it is
    /// slower and misses less. At most a thousand.
    pub candidates: usize,
}

impl Options {
    pub fn new(connect: Connect) -> Options {
        let database = postgres::Options::new(connect);
        Options { database, exact_max: 20_000_000, candidates: 200 }
    }
}

/// Vectors in a database that many servers share.
pub struct PgVector {
    pool: Pool,
    extension: Extension,
    exact_max: usize,
    candidates: usize,
    /// Dimensions whose tables are known to be there. They are never dropped.
    made: Mutex<HashSet<usize>>,
}

type Trouble = postgres::Trouble<VectorsError>;

impl PgVector {
    /// Opens a store and brings its schema up to date. Must be called within a runtime, which then
    /// drives the connections.
    pub async fn open(options: Options) -> Result<PgVector, VectorsError> {
        let Options { database, exact_max, candidates } = options;
        let pool = Pool::new(database);
        let prepared = async {
            let mut used = pool.get().await?;
            schema::prepare(&mut used).await
        };
        let extension = prepared.await?;
        Ok(PgVector { pool, extension, exact_max, candidates, made: Mutex::default() })
    }

    /// Makes the tables that points go to.
    async fn make(&self, dimensions: impl Iterator<Item = usize>) -> Result<(), VectorsError> {
        for dimension in dimensions {
            if self.made.lock().contains(&dimension) {
                continue;
            }
            if dimension > schema::DIMENSION_MAX {
                let most = schema::DIMENSION_MAX;
                let why = format!("pgvector takes {most} dimensions, and this one has {dimension}");
                return Err(VectorsError::Bad { why });
            }
            again(|| async {
                let mut used = self.pool.get().await?;
                let tx = used.writing().await?;
                schema::make_table(&tx, &self.extension, dimension).await?;
                Ok(tx.commit().await?)
            })
            .await?;
            self.made.lock().insert(dimension);
        }
        Ok(())
    }

    async fn put_all(&self, given: &[(Point, Vec<f32>)]) -> Result<(), VectorsError> {
        for (point, vector) in given {
            checked(vector)?;
            if i32::try_from(point.generation.max(point.page)).is_err() {
                let why = "a generation or a page has a number that is too large".to_owned();
                return Err(VectorsError::Bad { why });
            }
        }
        let scopes = dimensions(given)?;
        self.make(scopes.values().copied()).await?;
        // Of two with one id the last stays. All who write go through rows in the same order.
        let last: BTreeMap<ChunkId, &(Point, Vec<f32>)> =
            given.iter().map(|one| (one.0.id, one)).collect();
        let mut by_dimension = BTreeMap::<usize, Vec<&(Point, Vec<f32>)>>::new();
        for one in last.values() {
            by_dimension.entry(one.1.len()).or_default().push(one);
        }
        again(|| async {
            let mut used = self.pool.get().await?;
            let tx = used.writing().await?;
            for ((tenant, collection), dimension) in &scopes {
                share(&tx, tenant, collection, *dimension).await?;
            }
            for (dimension, rows) in &by_dimension {
                for some in rows.chunks((SENT_MAX / dimension).max(1)) {
                    upsert(&tx, &self.extension, *dimension, some).await?;
                }
            }
            Ok(tx.commit().await?)
        })
        .await
    }

    /// Deletes rows of every table by a condition.
    async fn delete(&self, gone: &Gone<'_>) -> Result<(), VectorsError> {
        again(|| async {
            let mut used = self.pool.get().await?;
            let tx = used.writing().await?;
            for dimension in tables(&tx).await? {
                delete(&tx, dimension, gone).await?;
            }
            Ok(tx.commit().await?)
        })
        .await
    }
}

/// Keeps a collection's dimension from changing until the end, if it holds what is given.
async fn share(tx: &Tx<'_>, tenant: &str, collection: &str, given: usize) -> Result<(), Trouble> {
    let sql = "insert into windrow_vectors.collections (tenant, collection, dimension) \
         values ($1, $2, $3) on conflict do nothing";
    tx.run(sql, values![tenant, collection, given as i32]).await?;
    let sql = "select dimension from windrow_vectors.collections \
         where tenant = $1 and collection = $2";
    let holds = async |hold: &str| -> Result<usize, Trouble> {
        let row = tx.one(&format!("{sql} {hold}"), values![tenant, collection]).await?;
        Ok(row.get::<_, i32>(0).unsigned_abs() as usize)
    };
    // Looked at first: two who share it and then each want it alone would wait for each other.
    if holds("").await? == given && holds("for share").await? == given {
        return Ok(());
    }
    // From here on nobody puts anything into it, so that what is seen stays as it is.
    let held = holds("for update").await?;
    let table = points(held);
    let sql = format!("select 1 from {table} where tenant = $1 and collection = $2 limit 1");
    if held != given && tx.row(&sql, values![tenant, collection]).await?.is_some() {
        return Err(misfit(tenant, collection, held, given).into());
    }
    let sql = "update windrow_vectors.collections set dimension = $3 \
         where tenant = $1 and collection = $2";
    tx.run(sql, values![tenant, collection, given as i32]).await?;
    Ok(())
}

/// Puts rows into the table of their dimension, and out of all others. One that is the same already
/// is left as it is: to write it again would put it into the index once more.
async fn upsert(
    tx: &Tx<'_>,
    extension: &Extension,
    dimension: usize,
    rows: &[&(Point, Vec<f32>)],
) -> Result<(), Trouble> {
    let ids: Vec<Uuid> = rows.iter().map(|(point, _)| Uuid::from_bytes(point.id)).collect();
    for other in tables(tx).await?.into_iter().filter(|other| *other != dimension) {
        let table = points(other);
        tx.run(&format!("delete from {table} where chunk = any($1)"), values![ids]).await?;
    }
    let vector = extension.vector("($7::real[])[(n.nth - 1) * $8 + 1 : n.nth * $8]");
    let sql = format!(
        "insert into {table} as p \
           (chunk, document, generation, page, tenant, collection, embedding) \
         select n.chunk, n.document, n.generation, n.page, n.tenant, n.collection, {vector} \
         from (select chunk, document, generation, page, tenant, collection, nth::int \
           from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[]) \
           with ordinality as u(chunk, document, generation, page, tenant, collection, nth)) n \
         on conflict (chunk) do update set document = excluded.document, \
           generation = excluded.generation, page = excluded.page, tenant = excluded.tenant, \
           collection = excluded.collection, embedding = excluded.embedding \
         where (p.document, p.generation, p.page, p.tenant, p.collection, p.embedding::real[]) \
           is distinct from (excluded.document, excluded.generation, excluded.page, \
           excluded.tenant, excluded.collection, excluded.embedding::real[])",
        table = points(dimension),
    );
    fn all<'a, T>(rows: &[&'a (Point, Vec<f32>)], part: impl Fn(&'a Point) -> T) -> Vec<T> {
        rows.iter().map(|(point, _)| part(point)).collect()
    }
    let numbers: Vec<f32> = rows.iter().flat_map(|(_, vector)| vector.iter().copied()).collect();
    tx.run(
        &sql,
        values![
            ids,
            all(rows, |point| point.document),
            all(rows, |point| int(point.generation)),
            all(rows, |point| int(point.page)),
            all(rows, |point| &*point.tenant),
            all(rows, |point| &*point.collection),
            numbers,
            dimension as i32,
        ],
    )
    .await?;
    Ok(())
}

/// What is to be removed.
enum Gone<'a> {
    Generation(Uuid, u32),
    Document(Uuid),
    Chunks(&'a [ChunkId]),
}

async fn delete(tx: &Tx<'_>, dimension: usize, gone: &Gone<'_>) -> Result<(), Trouble> {
    let sql = format!("delete from {} where", points(dimension));
    match gone {
        Gone::Generation(document, generation) => {
            let sql = format!("{sql} document = $1 and generation = $2");
            tx.run(&sql, values![*document, int(*generation)]).await?;
        }
        Gone::Document(document) => {
            tx.run(&format!("{sql} document = $1"), values![*document]).await?;
        }
        Gone::Chunks(chunks) => {
            let ids: Vec<Uuid> = chunks.iter().copied().map(Uuid::from_bytes).collect();
            tx.run(&format!("{sql} chunk = any($1)"), values![ids]).await?;
        }
    }
    Ok(())
}

impl Vectors for PgVector {
    fn name(&self) -> &str {
        "pgvector"
    }

    fn put<'a>(
        &'a self,
        points: &'a [(Point, Vec<f32>)],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(self.put_all(points))
    }

    fn remove_generation(
        &self,
        document: Uuid,
        generation: u32,
    ) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move { self.delete(&Gone::Generation(document, generation)).await })
    }

    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(async move { self.delete(&Gone::Document(document)).await })
    }

    fn remove_chunks<'a>(
        &'a self,
        chunks: &'a [ChunkId],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(async move { self.delete(&Gone::Chunks(chunks)).await })
    }

    fn search<'a>(
        &'a self,
        query: &'a [f32],
        filter: &'a Filter,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Hit>, VectorsError>> {
        Box::pin(async move {
            checked(query)?;
            let ask = find::Ask { extension: &self.extension, query, filter, limit };
            again(|| async {
                let mut used = self.pool.get().await?;
                let tx = used.reading().await?;
                ask.find(&tx, self.exact_max / query.len(), self.candidates).await
            })
            .await
        })
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<u64, VectorsError>> {
        Box::pin(again(move || async move {
            let mut used = self.pool.get().await?;
            let tx = used.reading().await?;
            find::count(&tx, filter).await
        }))
    }
}

impl fmt::Debug for PgVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgVector").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl From<VectorsError> for Trouble {
    fn from(error: VectorsError) -> Trouble {
        Trouble::Ours(error)
    }
}

/// The pool and the migrations speak as the catalog does.
impl From<postgres::Trouble> for Trouble {
    fn from(trouble: postgres::Trouble) -> Trouble {
        match trouble {
            postgres::Trouble::Theirs(error) => Trouble::Theirs(error),
            postgres::Trouble::Ours(CatalogError::Transient { why, retry_after_ms }) => {
                Trouble::Ours(VectorsError::Transient { why: passing(&why), retry_after_ms })
            }
            postgres::Trouble::Ours(error) => {
                Trouble::Ours(VectorsError::Bad { why: error.to_string() })
            }
        }
    }
}

impl From<Trouble> for VectorsError {
    fn from(trouble: Trouble) -> VectorsError {
        match trouble {
            Trouble::Ours(error) => error,
            Trouble::Theirs(error) => match said(&error) {
                Said::Passing(why) => {
                    VectorsError::Transient { why: passing(&why), retry_after_ms: None }
                }
                Said::Refused(why) => {
                    VectorsError::Bad { why: format!("pgvector refuses it: {why}") }
                }
            },
        }
    }
}

fn passing(why: &str) -> String {
    format!("pgvector cannot do it now: {why}")
}
