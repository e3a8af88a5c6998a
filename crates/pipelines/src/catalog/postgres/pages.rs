//! Pages in PostgreSQL, and how far a generation is.

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::error::CatalogError;
use super::super::page::{PageRow, manifest_of, outcome_of};
use super::super::{GenerationKey, ManifestLine, Page, PageChunks, PageKey, PageOutcome, Progress};
use super::documents::{self, Hold};
use super::value::{Tx, int, nat, values};
use super::{Trouble, chunks};

pub(super) const MANIFEST: &str = "select number, state, how, bytes, reason, chunks \
     from windrow_catalog.pages where document = $1 and generation = $2 and number > $3 \
     order by number limit $4";

pub(super) async fn begin(tx: &Tx<'_>, of: GenerationKey, pages: u32) -> Result<(), Trouble> {
    documents::open(tx, of, Hold::Alone).await?;
    let sql = "select pages from windrow_catalog.generations where document = $1 and number = $2";
    let at = values![of.document, int(of.generation)];
    let known: Option<i32> = tx.one(sql, at).await?.get(0);
    match known.map(nat) {
        Some(known) if known == pages => return Ok(()),
        Some(known) => {
            let why = format!("{of} has {known} pages, not {pages}");
            return Err(CatalogError::Bad { why }.into());
        }
        None => {}
    }
    let sql = "update windrow_catalog.generations set pages = $3 \
         where document = $1 and number = $2";
    let values = values![of.document, int(of.generation), int(pages)];
    tx.run(sql, values).await?;
    let sql = "insert into windrow_catalog.pages (document, generation, number, state) \
         select $1, $2, number, 'waiting' from generate_series(1, $3) number";
    tx.run(sql, values).await?;
    Ok(())
}

pub(super) async fn put(tx: &Tx<'_>, page: PageKey, outcome: &PageOutcome) -> Result<(), Trouble> {
    documents::open(tx, page.of(), Hold::Shared).await?;
    let row = PageRow::from(outcome.clone());
    let bytes = row.markdown.as_ref().map(|markdown| markdown.len() as i64);
    let sql = "update windrow_catalog.pages set state = $4, how = $5, markdown = $6, hash = $7, \
         reason = $8, bytes = $9 where document = $1 and generation = $2 and number = $3";
    let values = values![
        page.document,
        int(page.generation),
        int(page.number),
        row.state,
        row.how,
        row.markdown,
        row.hash,
        row.reason,
        bytes
    ];
    if tx.run(sql, values).await? == 0 {
        return Err(CatalogError::bad(format!("there is no {page}")).into());
    }
    if row.state != "read" {
        chunks::clear(tx, page).await?;
    }
    Ok(())
}

pub(super) async fn one(tx: &Tx<'_>, tenant: &str, page: PageKey) -> Result<Option<Page>, Trouble> {
    let sql = "select p.state, p.how, p.markdown, p.hash, p.reason, p.chunks \
         from windrow_catalog.pages p \
         join windrow_catalog.documents d on d.id = p.document and d.tenant = $4 \
         where p.document = $1 and p.generation = $2 and p.number = $3";
    let values = values![page.document, int(page.generation), int(page.number), tenant];
    let Some(row) = tx.row(sql, values).await? else { return Ok(None) };
    let outcome = outcome_of(row.get(0), row.get(1), row.get(2), row.get(3), row.get(4))?;
    let chunks = row.get::<_, Option<i32>>(5).map(nat);
    Ok(Some(Page { key: page, outcome, chunks }))
}

pub(super) async fn manifest(
    tx: &Tx<'_>,
    tenant: &str,
    of: GenerationKey,
    after: u32,
    limit: u32,
) -> Result<Vec<ManifestLine>, Trouble> {
    if !documents::has(tx, tenant, of).await? {
        return Ok(Vec::new());
    }
    let values = values![of.document, int(of.generation), int(after), i64::from(limit)];
    let rows = tx.rows(MANIFEST, values).await?;
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let outcome = manifest_of(row.get(1), row.get(2), row.get(3), row.get(4))?;
        let chunks = row.get::<_, Option<i32>>(5).map(nat);
        lines.push(ManifestLine { number: nat(row.get(0)), outcome, chunks });
    }
    Ok(lines)
}

pub(super) const CHUNKS_OF_PAGES: &str = "select c.total, c.embedded, c.linked \
     from unnest($3::int[]) with ordinality as a(page, place) \
     cross join lateral (select count(*) as total, count(embedder) as embedded, \
     count(*) filter (where linked) as linked from windrow_catalog.chunks \
     where document = $1 and generation = $2 and page = a.page and tenant = $4) c order by a.place";

pub(super) async fn chunks(
    tx: &Tx<'_>,
    tenant: &str,
    of: GenerationKey,
    pages: &[u32],
) -> Result<Vec<PageChunks>, Trouble> {
    let pages: Vec<i32> = pages.iter().copied().map(int).collect();
    let values = values![of.document, int(of.generation), pages, tenant];
    let rows = tx.rows(CHUNKS_OF_PAGES, values).await?;
    let one = |row: &Row| PageChunks {
        total: number(row, 0),
        embedded: number(row, 1),
        linked: number(row, 2),
    };
    Ok(rows.iter().map(one).collect())
}

fn number(row: &Row, at: usize) -> u32 {
    u32::try_from(row.get::<_, i64>(at)).unwrap_or(u32::MAX)
}

pub(super) async fn progress(
    tx: &Tx<'_>,
    tenant: &str,
    of: GenerationKey,
) -> Result<Option<Progress>, Trouble> {
    Ok(progress_of(tx, tenant, &[of]).await?.pop().flatten())
}

pub(super) const PROGRESS: &str = "select g.number is not null, g.pages, p.read, p.without, \
     p.chunked, c.total, c.embedded, c.linked \
     from unnest($1::uuid[], $2::int[]) with ordinality as a(document, generation, place) \
     left join (windrow_catalog.generations g \
     join windrow_catalog.documents d on d.id = g.document and d.tenant = $3) \
     on g.document = a.document and g.number = a.generation \
     cross join lateral (select count(*) filter (where state = 'read') as read, \
     count(*) filter (where state = 'without') as without, count(chunks) as chunked \
     from windrow_catalog.pages where document = g.document and generation = g.number) p \
     cross join lateral (select count(*) as total, count(embedder) as embedded, \
     count(*) filter (where linked) as linked from windrow_catalog.chunks \
     where document = g.document and generation = g.number) c order by a.place";

pub(super) async fn progress_of(
    tx: &Tx<'_>,
    tenant: &str,
    of: &[GenerationKey],
) -> Result<Vec<Option<Progress>>, Trouble> {
    let documents: Vec<Uuid> = of.iter().map(|of| of.document).collect();
    let generations: Vec<i32> = of.iter().map(|of| int(of.generation)).collect();
    let rows = tx.rows(PROGRESS, values![documents, generations, tenant]).await?;
    let one = |row: &Row| {
        row.get::<_, bool>(0).then(|| Progress {
            pages: row.get::<_, Option<i32>>(1).map(nat),
            pages_read: number(row, 2),
            pages_without: number(row, 3),
            pages_chunked: number(row, 4),
            chunks: number(row, 5),
            chunks_embedded: number(row, 6),
            chunks_linked: number(row, 7),
        })
    };
    Ok(rows.iter().map(one).collect())
}
