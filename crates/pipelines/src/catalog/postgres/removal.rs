//! Removing generations and documents from PostgreSQL, in slices.

use uuid::Uuid;
use windrow_core::Timestamp;

use super::super::GenerationKey;
use super::super::error::CatalogError;
use super::value::{Tx, int, nat, values};
use super::{Trouble, chunks, leftovers, ms, vectors};

/// Rows of one slice, so that none holds its locks for long.
const SLICE: i64 = 500;

/// Removes some of an old generation; true if there is more.
pub(super) async fn slice(tx: &Tx<'_>, at: GenerationKey) -> Result<bool, Trouble> {
    let (id, number) = (at.document, int(at.generation));
    let sql = "select state from windrow_catalog.generations \
         where document = $1 and number = $2 for update";
    let Some(row) = tx.row(sql, values![id, number]).await? else { return Ok(false) };
    let state: &str = row.get(0);
    if state != "old" {
        return Err(CatalogError::bad(format!("{at} is {state}, not old")).into());
    }
    let sql = "select id from windrow_catalog.chunks \
         where document = $1 and generation = $2 limit $3";
    let some = tx.rows(sql, values![id, number, SLICE]).await?;
    if !some.is_empty() {
        chunks::remove(tx, some.iter().map(|row| row.get(0)).collect(), false).await?;
        return Ok(true);
    }
    let sql = "delete from windrow_catalog.pages where document = $1 and generation = $2 \
         and number in (select number from windrow_catalog.pages \
         where document = $1 and generation = $2 limit $3)";
    if tx.run(sql, values![id, number, SLICE]).await? > 0 {
        return Ok(true);
    }
    let sql = "delete from windrow_catalog.dimensions where document = $1 and generation = $2";
    tx.run(sql, values![id, number]).await?;
    let sql = "delete from windrow_catalog.generations where document = $1 and number = $2";
    tx.run(sql, values![id, number]).await?;
    leftovers::note_generation(tx, at).await?;
    vectors::log(tx, "removed", &[(at, None)]).await?;
    Ok(false)
}

pub(super) async fn begin(
    tx: &Tx<'_>,
    tenant: &str,
    id: Uuid,
    sinks: &[String],
    now: Timestamp,
) -> Result<bool, Trouble> {
    let sql = "select state = 'deleting' from windrow_catalog.documents \
         where id = $1 and tenant = $2 for no key update";
    let Some(row) = tx.row(sql, values![id, tenant]).await? else { return Ok(false) };
    let sql = "insert into windrow_catalog.deletions (document, sink, confirmed) \
         select $1, sink, false from unnest($2::text[]) sink on conflict do nothing";
    let sinks: Vec<&str> = sinks.iter().map(String::as_str).collect();
    tx.run(sql, values![id, sinks]).await?;
    if row.get(0) {
        return Ok(true);
    }
    let sql = "update windrow_catalog.documents \
         set state = 'deleting', live = null, changed_at = $2 where id = $1";
    tx.run(sql, values![id, ms(now)]).await?;
    let all = generations(tx, id).await?;
    let sql = "update windrow_catalog.generations set state = 'old' where document = $1";
    tx.run(sql, values![id]).await?;
    vectors::forget_live(tx, id).await?;
    let removed: Vec<_> = all.into_iter().map(|at| (at, None)).collect();
    if !removed.is_empty() {
        vectors::log(tx, "removed", &removed).await?;
    }
    Ok(true)
}

/// The generations of a document, locked.
async fn generations(tx: &Tx<'_>, id: Uuid) -> Result<Vec<GenerationKey>, Trouble> {
    let sql = "select number from windrow_catalog.generations \
         where document = $1 order by number for no key update";
    let rows = tx.rows(sql, values![id]).await?;
    let at = |number| GenerationKey { document: id, generation: nat(number) };
    Ok(rows.iter().map(|row| at(row.get(0))).collect())
}

pub(super) async fn confirm(tx: &Tx<'_>, id: Uuid, sink: &str) -> Result<(), Trouble> {
    let sql = "update windrow_catalog.deletions set confirmed = true \
         where document = $1 and sink = $2";
    tx.run(sql, values![id, sink]).await?;
    Ok(())
}

/// What has to happen before a document is gone.
pub(super) enum Left {
    Nothing,
    Sinks(Vec<String>),
    Generations(Vec<GenerationKey>),
}

/// Removes the document's row if nothing else of it is left.
pub(super) async fn finish(tx: &Tx<'_>, id: Uuid) -> Result<Left, Trouble> {
    let sql = "select state from windrow_catalog.documents where id = $1 for update";
    let Some(row) = tx.row(sql, values![id]).await? else { return Ok(Left::Nothing) };
    let state: &str = row.get(0);
    if state != "deleting" {
        let why = format!("document {id} is {state}, not marked to be deleted");
        return Err(CatalogError::Bad { why }.into());
    }
    let sql = "select sink from windrow_catalog.deletions \
         where document = $1 and not confirmed order by sink";
    let sinks = tx.rows(sql, values![id]).await?;
    if !sinks.is_empty() {
        return Ok(Left::Sinks(sinks.iter().map(|row| row.get(0)).collect()));
    }
    let generations = generations(tx, id).await?;
    if !generations.is_empty() {
        return Ok(Left::Generations(generations));
    }
    let sql = "delete from windrow_catalog.deletions where document = $1";
    tx.run(sql, values![id]).await?;
    let sql = "delete from windrow_catalog.documents where id = $1";
    tx.run(sql, values![id]).await?;
    leftovers::note_document(tx, id).await?;
    Ok(Left::Nothing)
}
