//! Leftovers in PostgreSQL.

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::error::CatalogError;
use super::super::{ChunkId, GenerationKey, Leftover, PageKey, Removed};
use super::Trouble;
use super::value::{Tx, int, nat, values};

pub(super) async fn note_document(tx: &Tx<'_>, id: Uuid) -> Result<(), Trouble> {
    let sql = "insert into windrow_catalog.leftovers (document, taken) values ($1, false)";
    tx.run(sql, values![id]).await?;
    Ok(())
}

pub(super) async fn note_generation(tx: &Tx<'_>, at: GenerationKey) -> Result<(), Trouble> {
    let sql = "insert into windrow_catalog.leftovers (document, generation, taken) \
         values ($1, $2, false)";
    tx.run(sql, values![at.document, int(at.generation)]).await?;
    Ok(())
}

pub(super) async fn note_chunks(
    tx: &Tx<'_>,
    page: PageKey,
    chunks: &[Uuid],
) -> Result<(), Trouble> {
    if chunks.is_empty() {
        return Ok(());
    }
    let sql = "insert into windrow_catalog.leftovers (document, generation, chunk, taken) \
         select $1, $2, chunk, false from unnest($3::uuid[]) chunk";
    tx.run(sql, values![page.document, int(page.generation), chunks.to_vec()]).await?;
    Ok(())
}

/// Chunks are there again, unless somebody is just removing one elsewhere.
pub(super) async fn are_back(tx: &Tx<'_>, chunks: &[Uuid]) -> Result<(), Trouble> {
    let chunks = chunks.to_vec();
    let sql = "delete from windrow_catalog.leftovers where chunk = any($1) and not taken";
    tx.run(sql, values![chunks]).await?;
    let sql = "select chunk from windrow_catalog.leftovers where chunk = any($1) limit 1";
    match tx.row(sql, values![chunks]).await? {
        None => Ok(()),
        Some(row) => {
            let id = ChunkId(row.get::<_, Uuid>(0).into_bytes());
            Err(CatalogError::still_going(id).into())
        }
    }
}

pub(super) async fn last(tx: &Tx<'_>) -> Result<u64, Trouble> {
    let sql = "select coalesce(max(number), 0) from windrow_catalog.leftovers";
    let row = tx.row(sql, values![]).await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

pub(super) async fn take(tx: &Tx<'_>, until: u64, limit: u32) -> Result<Vec<Leftover>, Trouble> {
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let sql = "update windrow_catalog.leftovers set taken = true where number in \
         (select number from windrow_catalog.leftovers where number <= $1 \
         order by number limit $2 for update) \
         returning number, document, generation, chunk";
    let rows = tx.rows(sql, values![until, i64::from(limit)]).await?;
    let mut leftovers: Vec<Leftover> = rows.iter().map(leftover).collect();
    leftovers.sort_unstable_by_key(|leftover| leftover.number);
    Ok(leftovers)
}

fn leftover(row: &Row) -> Leftover {
    let generation = row.get::<_, Option<i32>>(2).map(nat);
    let chunk = row.get::<_, Option<Uuid>>(3).map(Uuid::into_bytes);
    let number = row.get::<_, i64>(0).unsigned_abs();
    Leftover { number, of: Removed::of_row(row.get(1), generation, chunk) }
}

pub(super) async fn forget(tx: &Tx<'_>, numbers: &[u64]) -> Result<(), Trouble> {
    let number = |number: &u64| i64::try_from(*number).unwrap_or(i64::MAX);
    let numbers: Vec<i64> = numbers.iter().map(number).collect();
    let sql = "delete from windrow_catalog.leftovers where number = any($1)";
    tx.run(sql, values![numbers]).await?;
    Ok(())
}
