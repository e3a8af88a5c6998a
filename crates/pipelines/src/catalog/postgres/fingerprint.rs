//! The fingerprint of a collection in PostgreSQL.

use tokio_postgres::Row;
use uuid::Uuid;

use super::super::digest::{
    ChunkLine, LiveDocument, MentionLine, PageLine, Print, RelationshipLine,
};
use super::super::{Hash, Scope};
use super::Trouble;
use super::value::{Tx, values};

pub(super) async fn fingerprint(tx: &Tx<'_>, scope: &Scope) -> Result<Hash, Trouble> {
    let sql = "select d.id, d.live, d.source, g.hash from windrow_catalog.documents d \
         join windrow_catalog.generations g on g.document = d.id and g.number = d.live \
         where d.tenant = $1 and d.collection = $2 order by d.source";
    let live = tx.rows(sql, values![scope.tenant, scope.collection]).await?;
    let mut print = Print::default();
    for row in live {
        let (id, generation): (Uuid, i32) = (row.get(0), row.get(1));
        let (source, hash) = (row.get(2), row.get(3));
        let mut document = LiveDocument { source, hash, ..LiveDocument::default() };
        text(tx, &mut document, id, generation).await?;
        graph(tx, &mut document, id, generation).await?;
        print.add(&document);
    }
    Ok(print.end())
}

async fn text(
    tx: &Tx<'_>,
    document: &mut LiveDocument,
    id: Uuid,
    generation: i32,
) -> Result<(), Trouble> {
    let sql = "select number, state, how, markdown, reason from windrow_catalog.pages \
         where document = $1 and generation = $2 order by number";
    let page = |row: &Row| PageLine {
        number: row.get::<_, i32>(0).into(),
        state: row.get(1),
        how: row.get(2),
        markdown: row.get(3),
        reason: row.get(4),
    };
    let at = values![id, generation];
    document.pages = tx.rows(sql, at).await?.iter().map(page).collect();
    let sql = "select c.page, c.ordinal, c.kind, c.text, c.metadata, c.embedder, v.vector \
         from windrow_catalog.chunks c left join windrow_catalog.vectors v on v.chunk = c.id \
         where c.document = $1 and c.generation = $2 order by c.page, c.ordinal";
    let chunk = |row: &Row| ChunkLine {
        page: row.get::<_, i32>(0).into(),
        index: row.get::<_, i32>(1).into(),
        kind: row.get(2),
        text: row.get(3),
        metadata: row.get(4),
        embedder: row.get(5),
        vector: row.get(6),
    };
    document.chunks = tx.rows(sql, at).await?.iter().map(chunk).collect();
    Ok(())
}

async fn graph(
    tx: &Tx<'_>,
    document: &mut LiveDocument,
    id: Uuid,
    generation: i32,
) -> Result<(), Trouble> {
    let bytes = |row: &Row, at: usize| row.get::<_, Uuid>(at).into_bytes().to_vec();
    let sql = "select c.page, c.ordinal, m.entity, m.name, m.description, m.score \
         from windrow_catalog.mentions m join windrow_catalog.chunks c on c.id = m.chunk \
         where m.document = $1 and m.generation = $2 order by c.page, c.ordinal, m.entity";
    let mention = |row: &Row| MentionLine {
        page: row.get::<_, i32>(0).into(),
        index: row.get::<_, i32>(1).into(),
        entity: bytes(row, 2),
        name: row.get(3),
        description: row.get(4),
        score: row.get(5),
    };
    let at = values![id, generation];
    document.mentions = tx.rows(sql, at).await?.iter().map(mention).collect();
    let sql = "select c.page, c.ordinal, r.source, r.target, r.kind, r.description, r.weight \
         from windrow_catalog.relationships r join windrow_catalog.chunks c on c.id = r.chunk \
         where r.document = $1 and r.generation = $2 \
         order by c.page, c.ordinal, r.source, r.target, r.kind";
    let relationship = |row: &Row| RelationshipLine {
        page: row.get::<_, i32>(0).into(),
        index: row.get::<_, i32>(1).into(),
        source: bytes(row, 2),
        target: bytes(row, 3),
        kind: row.get(4),
        description: row.get(5),
        weight: row.get(6),
    };
    document.relationships = tx.rows(sql, at).await?.iter().map(relationship).collect();
    Ok(())
}
