//! Pages in SQLite, and how far a generation is.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::error::CatalogError;
use super::super::page::{PageRow, manifest_of, outcome_of};
use super::super::{GenerationKey, ManifestLine, Page, PageChunks, PageKey, PageOutcome, Progress};
use super::{chunks, documents};

pub(super) const MANIFEST: &str = "select number, state, how, bytes, reason, chunks from pages \
     where document = ?1 and generation = ?2 and number > ?3 order by number limit ?4";

pub(super) fn begin(db: &Connection, of: GenerationKey, pages: u32) -> Result<(), CatalogError> {
    documents::open(db, of)?;
    let id = of.document.as_bytes();
    let sql = "select pages from generations where document = ?1 and number = ?2";
    let known: Option<u32> =
        db.prepare_cached(sql)?.query_row(params![id, of.generation], |row| row.get(0))?;
    match known {
        Some(known) if known == pages => return Ok(()),
        Some(known) => {
            let why = format!("{of} has {known} pages, not {pages}");
            return Err(CatalogError::Bad { why });
        }
        None => {}
    }
    let sql = "update generations set pages = ?3 where document = ?1 and number = ?2";
    db.prepare_cached(sql)?.execute(params![id, of.generation, pages])?;
    let sql = "insert into pages (document, generation, number, state) \
         values (?1, ?2, ?3, 'waiting')";
    let mut insert = db.prepare_cached(sql)?;
    for number in 1..=pages {
        insert.execute(params![id, of.generation, number])?;
    }
    Ok(())
}

pub(super) fn put(
    db: &Connection,
    page: PageKey,
    outcome: PageOutcome,
) -> Result<(), CatalogError> {
    documents::open(db, page.of())?;
    let row = PageRow::from(outcome);
    let has_text = row.state == "read";
    let bytes = row.markdown.as_ref().map(|markdown| markdown.len() as i64);
    let sql = "update pages set state = ?4, how = ?5, markdown = ?6, hash = ?7, reason = ?8, \
         bytes = ?9 where document = ?1 and generation = ?2 and number = ?3";
    let changed = db.prepare_cached(sql)?.execute(params![
        page.document.as_bytes(),
        page.generation,
        page.number,
        row.state,
        row.how,
        row.markdown,
        row.hash,
        row.reason,
        bytes
    ])?;
    if changed == 0 {
        return Err(CatalogError::bad(format!("there is no {page}")));
    }
    if !has_text {
        chunks::clear(db, page)?;
    }
    Ok(())
}

pub(super) fn one(
    db: &Connection,
    tenant: &str,
    page: PageKey,
) -> Result<Option<Page>, CatalogError> {
    let sql = "select p.state, p.how, p.markdown, p.hash, p.reason, p.chunks from pages p \
         join documents d on d.id = p.document and d.tenant = ?4 \
         where p.document = ?1 and p.generation = ?2 and p.number = ?3";
    let at = params![page.document.as_bytes(), page.generation, page.number, tenant];
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(at)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state: String = row.get(0)?;
    let outcome = outcome_of(&state, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)?;
    Ok(Some(Page { key: page, outcome, chunks: row.get(5)? }))
}

pub(super) fn manifest(
    db: &Connection,
    tenant: &str,
    of: GenerationKey,
    after: u32,
    limit: u32,
) -> Result<Vec<ManifestLine>, CatalogError> {
    if !documents::has(db, tenant, of)? {
        return Ok(Vec::new());
    }
    let mut found = db.prepare_cached(MANIFEST)?;
    let mut rows = found.query(params![of.document.as_bytes(), of.generation, after, limit])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let state: String = row.get(1)?;
        let outcome = manifest_of(&state, row.get(2)?, row.get(3)?, row.get(4)?)?;
        lines.push(ManifestLine { number: row.get(0)?, outcome, chunks: row.get(5)? });
    }
    Ok(lines)
}

pub(super) const CHUNKS_OF_PAGE: &str = "select count(*), count(embedder), \
     coalesce(sum(linked), 0) from chunks \
     where document = ?1 and generation = ?2 and page = ?3 and tenant = ?4";

pub(super) fn chunks(
    db: &Connection,
    tenant: &str,
    of: GenerationKey,
    pages: &[u32],
) -> Result<Vec<PageChunks>, CatalogError> {
    let mut counts = db.prepare_cached(CHUNKS_OF_PAGE)?;
    let counted = |row: &rusqlite::Row<'_>| {
        Ok(PageChunks { total: row.get(0)?, embedded: row.get(1)?, linked: row.get(2)? })
    };
    let all = pages.iter().map(|page| {
        counts.query_row(params![of.document.as_bytes(), of.generation, page, tenant], counted)
    });
    Ok(all.collect::<Result<_, _>>()?)
}

pub(super) const CHUNKS_DONE: &str = "select count(*), count(embedder), coalesce(sum(linked), 0) \
     from chunks where document = ?1 and generation = ?2";

pub(super) fn progress(
    db: &Connection,
    tenant: &str,
    of: GenerationKey,
) -> Result<Option<Progress>, CatalogError> {
    let sql = "select g.pages from generations g join documents d on d.id = g.document \
         where g.document = ?1 and g.number = ?2 and d.tenant = ?3";
    let id = of.document.as_bytes();
    let pages = db
        .prepare_cached(sql)?
        .query_row(params![id, of.generation, tenant], |row| row.get(0))
        .optional()?;
    let Some(pages) = pages else { return Ok(None) };
    let sql = "select count(*) filter (where state = 'read'), \
         count(*) filter (where state = 'without'), count(chunks) \
         from pages where document = ?1 and generation = ?2";
    let three = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let at = params![id, of.generation];
    let (pages_read, pages_without, pages_chunked) =
        db.prepare_cached(sql)?.query_row(at, three)?;
    let (chunks, chunks_embedded, chunks_linked) =
        db.prepare_cached(CHUNKS_DONE)?.query_row(at, three)?;
    Ok(Some(Progress {
        pages,
        pages_read,
        pages_without,
        pages_chunked,
        chunks,
        chunks_embedded,
        chunks_linked,
    }))
}
