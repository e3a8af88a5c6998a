//! The memo in SQLite.

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use windrow_core::Timestamp;

use super::super::error::CatalogError;
use super::super::{MemoKey, MemoOf, MemoStats};
use super::ms;

/// How exactly it is known when a memo was last used. Writing it down each time would cost more.
const USE_MS: i64 = 60 * 60 * 1_000;

/// What is there, and which of them were last used longer ago than is written down.
pub(super) struct Found {
    pub(super) values: Vec<Option<Vec<u8>>>,
    pub(super) stale: Vec<MemoKey>,
}

pub(super) fn get(
    db: &Connection,
    of: &MemoOf,
    keys: &[MemoKey],
    now: Timestamp,
) -> Result<Found, CatalogError> {
    let sql = "select value, used_at from memos where tenant = ?1 and key = ?2 and phase = ?3";
    let mut one = db.prepare_cached(sql)?;
    let mut found = Found { values: Vec::with_capacity(keys.len()), stale: Vec::new() };
    for key in keys {
        let at = params![of.tenant, key.0, of.phase];
        let two = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?));
        let known = one.query_row(at, two).optional()?;
        if known.as_ref().is_some_and(|(_, used_at)| used_at + USE_MS < ms(now)) {
            found.stale.push(*key);
        }
        found.values.push(known.map(|(value, _)| value));
    }
    Ok(found)
}

/// Notes what was found. Nobody waits for it.
pub(super) fn count(
    db: &Connection,
    of: &MemoOf,
    hits: usize,
    misses: usize,
    stale: &[MemoKey],
    now: Timestamp,
) -> Result<(), CatalogError> {
    let sql = "insert into memo_counts (tenant, phase, hits, misses) values (?1, ?2, ?3, ?4) \
         on conflict (tenant, phase) do update set \
         hits = hits + excluded.hits, misses = misses + excluded.misses";
    db.prepare_cached(sql)?.execute(params![of.tenant, of.phase, hits as i64, misses as i64])?;
    let sql = "update memos set used_at = max(used_at, ?3) where tenant = ?1 and key = ?2";
    let mut used = db.prepare_cached(sql)?;
    for key in stale {
        used.execute(params![of.tenant, key.0, ms(now)])?;
    }
    Ok(())
}

pub(super) fn put(
    db: &Connection,
    of: &MemoOf,
    values: &[(MemoKey, Vec<u8>)],
    now: Timestamp,
) -> Result<(), CatalogError> {
    let sql = "insert into memos (tenant, key, phase, bytes, used_at, value) \
         values (?1, ?2, ?3, ?4, ?5, ?6) on conflict (tenant, key) do nothing";
    let mut insert = db.prepare_cached(sql)?;
    for (key, value) in values {
        insert.execute(params![of.tenant, key.0, of.phase, value.len() as i64, ms(now), value])?;
    }
    Ok(())
}

pub(super) fn stats(db: &Connection, tenant: &str) -> Result<Vec<MemoStats>, CatalogError> {
    let sql = "select phase, sum(entries), sum(bytes), sum(hits), sum(misses) from (\
           select phase, count(*) as entries, sum(bytes) as bytes, 0 as hits, 0 as misses \
             from memos where tenant = ?1 group by phase \
           union all \
           select phase, 0, 0, hits, misses from memo_counts where tenant = ?1) \
         group by phase order by phase";
    let mut found = db.prepare_cached(sql)?;
    let number = |row: &Row<'_>, at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    let stats = found.query_map([tenant], |row| {
        Ok(MemoStats {
            phase: row.get(0)?,
            entries: number(row, 1)?,
            bytes: number(row, 2)?,
            hits: number(row, 3)?,
            misses: number(row, 4)?,
        })
    })?;
    Ok(stats.collect::<Result<_, rusqlite::Error>>()?)
}

pub(super) fn sweep(db: &Connection, before: Timestamp, limit: u32) -> Result<u64, CatalogError> {
    let sql = "delete from memos where (tenant, key) in \
         (select tenant, key from memos where used_at < ?1 order by used_at limit ?2)";
    Ok(db.prepare_cached(sql)?.execute(params![ms(before), limit])? as u64)
}
