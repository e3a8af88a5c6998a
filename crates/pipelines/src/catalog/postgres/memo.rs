//! The memo in PostgreSQL.

use windrow_core::Timestamp;

use super::super::{MemoKey, MemoOf, MemoStats};
use super::value::{Tx, values};
use super::{Trouble, ms};

/// How exactly it is known when a memo was last used. Writing it down each time would cost more.
const USE_MS: i64 = 60 * 60 * 1_000;

pub(super) async fn get(
    tx: &Tx<'_>,
    of: &MemoOf,
    keys: &[MemoKey],
    now: Timestamp,
) -> Result<Vec<Option<Vec<u8>>>, Trouble> {
    // A count need not survive a crash, so that nobody waits for the disk.
    tx.0.batch_execute("set local synchronous_commit = off").await?;
    let asked: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    let sql = "select m.value, m.used_at + $4 < $5 \
         from unnest($3::bytea[]) with ordinality as n(key, place) \
         left join windrow_catalog.memos m on m.tenant = $1 and m.key = n.key and m.phase = $2 \
         order by n.place";
    let values = values![of.tenant, of.phase, asked, USE_MS, ms(now)];
    let rows = tx.rows(sql, values).await?;
    let found: Vec<Option<Vec<u8>>> = rows.iter().map(|row| row.get(0)).collect();
    let Some(first) = keys.first() else { return Ok(found) };
    let hits = found.iter().flatten().count();
    let sql = "insert into windrow_catalog.memo_counts as c (tenant, phase, bucket, hits, misses) \
         values ($1, $2, $3, $4, $5) on conflict (tenant, phase, bucket) do update \
         set hits = c.hits + excluded.hits, misses = c.misses + excluded.misses";
    let (hits, misses) = (hits as i64, (found.len() - hits) as i64);
    let counted = values![of.tenant, of.phase, first.bucket(), hits, misses];
    let stale =
        rows.iter().zip(&asked).filter(|(row, _)| row.get::<_, Option<bool>>(1) == Some(true));
    let stale: Vec<&[u8]> = stale.map(|(_, key)| *key).collect();
    if !stale.is_empty() {
        let sql = "update windrow_catalog.memos set used_at = $3 where (tenant, key) in \
             (select tenant, key from windrow_catalog.memos \
             where tenant = $1 and key = any($2) and used_at < $3 \
             order by key for no key update skip locked)";
        tx.run(sql, values![of.tenant, stale, ms(now)]).await?;
    }
    tx.run(sql, counted).await?;
    Ok(found)
}

pub(super) async fn put(
    tx: &Tx<'_>,
    of: &MemoOf,
    values: &[(MemoKey, Vec<u8>)],
    now: Timestamp,
) -> Result<(), Trouble> {
    let mut sorted: Vec<&(MemoKey, Vec<u8>)> = values.iter().collect();
    sorted.sort_by_key(|(key, _)| *key);
    let keys: Vec<&[u8]> = sorted.iter().map(|(key, _)| key.0.as_slice()).collect();
    let bytes: Vec<i64> = sorted.iter().map(|(_, value)| value.len() as i64).collect();
    let results: Vec<&[u8]> = sorted.iter().map(|(_, value)| value.as_slice()).collect();
    let sql = "insert into windrow_catalog.memos (tenant, key, phase, bytes, used_at, value) \
         select $1, n.key, $2, n.bytes, $3, n.value \
         from unnest($4::bytea[], $5::bigint[], $6::bytea[]) as n(key, bytes, value) \
         on conflict (tenant, key) do nothing";
    let values = values![of.tenant, of.phase, ms(now), keys, bytes, results];
    tx.run(sql, values).await?;
    Ok(())
}

pub(super) async fn stats(tx: &Tx<'_>, tenant: &str) -> Result<Vec<MemoStats>, Trouble> {
    let sql = "select phase, sum(entries)::bigint, sum(bytes)::bigint, sum(hits)::bigint, \
         sum(misses)::bigint from (\
           select phase, count(*) as entries, sum(bytes) as bytes, 0 as hits, 0 as misses \
             from windrow_catalog.memos where tenant = $1 group by phase \
           union all \
           select phase, 0, 0, hits, misses from windrow_catalog.memo_counts \
             where tenant = $1) as both_of_them \
         group by phase order by phase";
    let rows = tx.rows(sql, values![tenant]).await?;
    let stats = rows.iter().map(|row| {
        let number = |at: usize| row.get::<_, i64>(at).unsigned_abs();
        let [entries, bytes, hits, misses] = [number(1), number(2), number(3), number(4)];
        MemoStats { phase: row.get(0), entries, bytes, hits, misses }
    });
    Ok(stats.collect())
}

pub(super) async fn sweep(tx: &Tx<'_>, before: Timestamp, limit: u32) -> Result<u64, Trouble> {
    let sql = "delete from windrow_catalog.memos where (tenant, key) in \
         (select tenant, key from windrow_catalog.memos where used_at < $1 \
         order by used_at limit $2 for update skip locked)";
    Ok(tx.run(sql, values![ms(before), i64::from(limit)]).await?)
}
