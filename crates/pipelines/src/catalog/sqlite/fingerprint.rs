//! The fingerprint of a collection in SQLite.

use rusqlite::{Connection, Params, Row, params};

use super::super::digest::{
    ChunkLine, LiveDocument, MentionLine, PageLine, Print, RelationshipLine,
};
use super::super::error::CatalogError;
use super::super::{Hash, Scope};
use super::graph::bytes;
use super::said::Said;

pub(super) fn fingerprint(db: &Connection, scope: &Scope) -> Result<Hash, CatalogError> {
    let sql = "select d.id, d.live, d.source, g.hash from documents d \
         join generations g on g.document = d.id and g.number = d.live \
         where d.tenant = ?1 and d.collection = ?2 order by d.source";
    let live: Vec<(Vec<u8>, i64, String, Vec<u8>)> =
        all(db, sql, params![scope.tenant, scope.collection], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?;
    let mut print = Print::default();
    for (id, generation, source, hash) in live {
        let mut document = LiveDocument { source, hash, ..LiveDocument::default() };
        text(db, &mut document, &id, generation)?;
        graph(db, &mut document, &id, generation)?;
        print.add(&document);
    }
    Ok(print.end())
}

fn all<T>(
    db: &Connection,
    sql: &str,
    values: impl Params,
    line: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, CatalogError> {
    let mut found = db.prepare_cached(sql)?;
    let lines: Result<Vec<T>, _> = found.query_map(values, line)?.collect();
    Ok(lines?)
}

fn text(
    db: &Connection,
    document: &mut LiveDocument,
    id: &[u8],
    generation: i64,
) -> Result<(), CatalogError> {
    let sql = "select number, state, how, markdown, reason from pages \
         where document = ?1 and generation = ?2 order by number";
    document.pages = all(db, sql, params![id, generation], |row| {
        Ok(PageLine {
            number: row.get(0)?,
            state: row.get(1)?,
            how: row.get(2)?,
            markdown: row.get(3)?,
            reason: row.get(4)?,
        })
    })?;
    let sql = "select c.page, c.ordinal, c.kind, c.text, c.metadata, c.embedder, v.vector \
         from chunks c left join vectors v on v.chunk = c.id \
         where c.document = ?1 and c.generation = ?2 order by c.page, c.ordinal";
    document.chunks = all(db, sql, params![id, generation], |row| {
        Ok(ChunkLine {
            page: row.get(0)?,
            index: row.get(1)?,
            kind: row.get(2)?,
            text: row.get(3)?,
            metadata: row.get(4)?,
            embedder: row.get(5)?,
            vector: row.get(6)?,
        })
    })?;
    Ok(())
}

fn graph(
    db: &Connection,
    document: &mut LiveDocument,
    id: &[u8],
    generation: i64,
) -> Result<(), CatalogError> {
    let sql = "select c.page, c.ordinal, g.said from chunks c join graphs g on g.chunk = c.row \
         where c.document = ?1 and c.generation = ?2 order by c.page, c.ordinal";
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(params![id, generation])?;
    while let Some(row) = rows.next()? {
        let (page, index) = (row.get(0)?, row.get(1)?);
        let said = Said::read(bytes(row, 2)?)?;
        let entity = |place: usize| said.mentions[place].entity.0.to_vec();
        for (place, mention) in said.mentions.iter().enumerate() {
            document.mentions.push(MentionLine {
                page,
                index,
                entity: entity(place),
                name: mention.name.to_owned(),
                description: mention.description.to_owned(),
                score: mention.score,
            });
        }
        for stated in &said.relationships {
            document.relationships.push(RelationshipLine {
                page,
                index,
                source: entity(stated.source),
                target: entity(stated.target),
                kind: stated.kind.to_owned(),
                description: stated.description.to_owned(),
                weight: stated.weight,
            });
        }
    }
    Ok(())
}
