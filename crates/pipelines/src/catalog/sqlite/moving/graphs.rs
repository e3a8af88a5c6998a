//! Mentions and relationships, as they are moved: each a row, which here is a part of what its
//! chunk says.

use rusqlite::{Connection, OptionalExtension as _};
use uuid::Uuid;

use super::super::super::error::CatalogError;
use super::super::super::moving::{Cell, Row, Table};
use super::super::super::{EntityId, GenerationKey};
use super::super::graph::{self, bytes};
use super::super::said::{Mentioned, Said, Stated};

/// Whether a table is none here.
pub(super) fn has(of: &Table) -> bool {
    [MENTIONS, RELATIONSHIPS].contains(&of.name)
}

const MENTIONS: &str = "mentions";
const RELATIONSHIPS: &str = "relationships";

macro_rules! chunks {
    ($rest:literal) => {
        concat!(
            "select c.id, c.document, c.generation, g.said from chunks c \
             join graphs g on g.chunk = c.row ",
            $rest
        )
    };
}

pub(super) fn rows(
    db: &Connection,
    of: &Table,
    after: Option<&Row>,
    limit: u32,
) -> Result<Vec<Row>, CatalogError> {
    let after = after.map(|row| of.key(row)).unwrap_or_default();
    let from = match after.first() {
        Some(Cell::Id(chunk)) => *chunk,
        _ => Uuid::nil(),
    };
    let mut found = db.prepare_cached(chunks!("where c.id >= ?1 order by c.id"))?;
    let mut chunks = found.query([from.as_bytes()])?;
    let (mut all, limit) = (Vec::new(), limit as usize);
    while all.len() < limit
        && let Some(chunk) = chunks.next()?
    {
        let behind = of_chunk(of, chunk)?.into_iter();
        all.extend(behind.filter(|row| is_behind(of.key(row), after)).take(limit - all.len()));
    }
    Ok(all)
}

pub(super) fn last(db: &Connection, of: &Table) -> Result<Option<Row>, CatalogError> {
    let mut found = db.prepare_cached(chunks!("order by c.id desc"))?;
    let mut chunks = found.query([])?;
    while let Some(chunk) = chunks.next()? {
        if let Some(last) = of_chunk(of, chunk)?.pop() {
            return Ok(Some(last));
        }
    }
    Ok(None)
}

/// The rows of a chunk, by key.
fn of_chunk(of: &Table, chunk: &rusqlite::Row<'_>) -> Result<Vec<Row>, CatalogError> {
    let id = |bytes: [u8; 16]| Cell::Id(Uuid::from_bytes(bytes));
    let text = |text: &str| Cell::Text(text.to_owned());
    let (by, document) = (id(chunk.get(0)?), id(chunk.get(1)?));
    let generation = Cell::Number(chunk.get(2)?);
    let said = Said::read(bytes(chunk, 3)?)?;
    let entity = |place: usize| id(said.mentions[place].entity.0);
    let mentioned = |(place, one): (usize, &Mentioned<'_>)| {
        let (by, document, generation) = (by.clone(), document.clone(), generation.clone());
        let (name, description) = (text(one.name), text(one.description));
        vec![by, entity(place), document, generation, name, description, Cell::Real(one.score)]
    };
    let stated = |one: &Stated<'_>| {
        let (source, target) = (entity(one.source), entity(one.target));
        let (document, generation) = (document.clone(), generation.clone());
        let (kind, description) = (text(one.kind), text(one.description));
        let weight = Cell::Real(one.weight);
        vec![by.clone(), source, target, kind, document, generation, description, weight]
    };
    Ok(match of.name {
        MENTIONS => said.mentions.iter().enumerate().map(mentioned).collect(),
        _ => said.relationships.iter().map(stated).collect(),
    })
}

/// Whether a key comes after another. Keys are of ids and texts.
fn is_behind(key: &[Cell], other: &[Cell]) -> bool {
    fn of(cell: &Cell) -> &[u8] {
        match cell {
            Cell::Id(id) => id.as_bytes(),
            Cell::Text(text) => text.as_bytes(),
            _ => &[],
        }
    }
    key.iter().map(of).gt(other.iter().map(of))
}

pub(super) fn put(db: &Connection, of: &Table, rows: &[Row]) -> Result<(), CatalogError> {
    for rows in rows.chunk_by(|one, two| one[0] == two[0]) {
        let Some(Cell::Id(chunk)) = rows[0].first() else { return Err(odd(of)) };
        let sql = "select row, document, generation from chunks where id = ?1";
        let found = db.prepare_cached(sql)?.query_row([chunk.as_bytes()], |row| {
            let (document, generation) = (Uuid::from_bytes(row.get(1)?), row.get(2)?);
            Ok((row.get::<_, i64>(0)?, GenerationKey { document, generation }))
        });
        let (row, at) = found.optional()?.ok_or_else(|| odd(of))?;
        let sql = "select said from graphs where chunk = ?1";
        let before = db.prepare_cached(sql)?.query_row([row], |row| row.get::<_, Vec<u8>>(0));
        let before = before.optional()?.unwrap_or_else(|| Said::default().written());
        let mut said = Said::read(&before)?;
        let kinds = match of.name {
            MENTIONS => kinds(db, rows)?,
            _ => Vec::new(),
        };
        for (nth, row) in rows.iter().enumerate() {
            let added = match of.name {
                MENTIONS => mention(&mut said, row, &kinds[nth]),
                _ => relationship(&mut said, row),
            };
            added.ok_or_else(|| odd(of))?;
        }
        graph::forget(db, row, at)?;
        graph::keep(db, row, at, &said)?;
    }
    Ok(())
}

fn odd(of: &Table) -> CatalogError {
    CatalogError::bad(format!("a row of {} does not fit what it belongs to", of.name))
}

/// The kinds of the entities that are mentioned.
fn kinds(db: &Connection, rows: &[Row]) -> Result<Vec<String>, CatalogError> {
    let mut kind = db.prepare_cached("select kind from entities where id = ?1")?;
    let mut kinds = Vec::with_capacity(rows.len());
    for row in rows {
        let Cell::Id(entity) = &row[1] else { continue };
        kinds.push(kind.query_row([entity.as_bytes()], |row| row.get(0))?);
    }
    Ok(kinds)
}

/// Adds a mention that is not there yet; None if the row is none.
fn mention<'a>(said: &mut Said<'a>, row: &'a Row, kind: &'a str) -> Option<()> {
    let [_, Cell::Id(entity), _, _, Cell::Text(name), Cell::Text(description), Cell::Real(score)] =
        &row[..]
    else {
        return None;
    };
    let entity = EntityId(*entity.as_bytes());
    let place = said.mentions.partition_point(|one| one.entity < entity);
    if said.mentions.get(place).is_some_and(|one| one.entity == entity) {
        return Some(());
    }
    said.mentions.insert(place, Mentioned { entity, kind, name, description, score: *score });
    for stated in &mut said.relationships {
        for end in [&mut stated.source, &mut stated.target] {
            *end += usize::from(*end >= place);
        }
    }
    Some(())
}

/// Adds a relationship that is not there yet; None if the row is none, or its ends are not
/// mentioned.
fn relationship<'a>(said: &mut Said<'a>, row: &'a Row) -> Option<()> {
    let [_, Cell::Id(source), Cell::Id(target), Cell::Text(kind), _, _, description, weight] =
        &row[..]
    else {
        return None;
    };
    let (Cell::Text(description), Cell::Real(weight)) = (description, weight) else { return None };
    let end = |id: &Uuid| said.place(EntityId(*id.as_bytes()));
    let (source, target) = (end(source)?, end(target)?);
    let key = (source, target, kind.as_str());
    let known =
        said.relationships.binary_search_by_key(&key, |one| (one.source, one.target, one.kind));
    if let Err(place) = known {
        let stated = Stated { source, target, kind, description, weight: *weight };
        said.relationships.insert(place, stated);
    }
    Some(())
}
