//! Rows of tables, as they are moved, in SQLite.

mod graphs;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;

use super::super::chunk::uuid_of;
use super::super::error::CatalogError;
use super::super::moving::{Cell, Kind, Moving, Row, Table};
use super::super::{Answer, Hash, Scope, bounds};
use super::{Sqlite, copy, search};

impl Moving for Sqlite {
    fn rows(&self, of: &'static Table, after: Option<Row>, limit: u32) -> Answer<'_, Vec<Row>> {
        self.read(Ok(()), move |db| rows(db, of, after, bounds::rows(limit)))
    }

    fn put_rows(&self, of: &'static Table, rows: Vec<Row>) -> Answer<'_, ()> {
        self.write(Ok(()), move |db| put(db, of, rows.clone()))
    }

    fn last_row(&self, of: &'static Table) -> Answer<'_, Option<Row>> {
        self.read(Ok(()), move |db| last(db, of))
    }

    fn contents(&self) -> Answer<'_, Vec<(String, Hash, u64)>> {
        self.read(Ok(()), copy::contents)
    }
}

fn rows(
    db: &Connection,
    of: &Table,
    after: Option<Row>,
    limit: u32,
) -> Result<Vec<Row>, CatalogError> {
    if graphs::has(of) {
        return graphs::rows(db, of, after.as_ref(), limit);
    }
    let (all, keys) = (of.names(), of.key_names());
    let mut values: Vec<Value> =
        after.iter().flat_map(|row| of.key(row)).cloned().map(value).collect();
    let places: Vec<String> = (1..=values.len()).map(|at| format!("?{at}")).collect();
    let behind = match places.is_empty() {
        true => String::new(),
        false => format!("where ({keys}) > ({})", places.join(", ")),
    };
    values.push(i64::from(limit).into());
    let at = values.len();
    let sql = format!("select {all} from {} {behind} order by {keys} limit ?{at}", of.name);
    read(db, of, &sql, values)
}

fn last(db: &Connection, of: &Table) -> Result<Option<Row>, CatalogError> {
    if graphs::has(of) {
        return graphs::last(db, of);
    }
    let order = of.key_names().replace(", ", " desc, ");
    let sql = format!("select {} from {} order by {order} desc limit 1", of.names(), of.name);
    Ok(read(db, of, &sql, Vec::new())?.pop())
}

fn read(
    db: &Connection,
    of: &Table,
    sql: &str,
    values: Vec<Value>,
) -> Result<Vec<Row>, CatalogError> {
    let mut found = db.prepare_cached(sql)?;
    let mut rows = found.query(params_from_iter(values))?;
    let mut read = Vec::new();
    while let Some(row) = rows.next()? {
        let cells = of.columns.iter().enumerate();
        let cells: Result<Row, CatalogError> =
            cells.map(|(at, column)| cell(row.get_ref(at)?, column.kind)).collect();
        read.push(cells?);
    }
    Ok(read)
}

fn cell(value: ValueRef<'_>, kind: Kind) -> Result<Cell, CatalogError> {
    let text = |bytes: &[u8]| match String::from_utf8(bytes.to_vec()) {
        Ok(text) => Ok(Cell::Text(text)),
        Err(_) => Err(CatalogError::bad("a text in the catalog is none")),
    };
    match (kind, value) {
        (_, ValueRef::Null) => Ok(Cell::Null),
        (Kind::Id, ValueRef::Blob(bytes)) => Ok(Cell::Id(uuid_of(bytes)?)),
        (Kind::Bytes, ValueRef::Blob(bytes)) => Ok(Cell::Bytes(bytes.to_vec())),
        (Kind::Text, ValueRef::Text(bytes)) => text(bytes),
        (Kind::Flag, ValueRef::Integer(flag)) => Ok(Cell::Flag(flag != 0)),
        (Kind::Short | Kind::Long, ValueRef::Integer(number)) => Ok(Cell::Number(number)),
        (Kind::Real, ValueRef::Real(real)) => Ok(Cell::Real(real)),
        (kind, _) => Err(CatalogError::bad(format!("{kind:?} was looked for, and is not there"))),
    }
}

fn value(cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Id(id) => Value::Blob(id.as_bytes().to_vec()),
        Cell::Number(number) => Value::Integer(number),
        Cell::Flag(flag) => Value::Integer(flag.into()),
        Cell::Real(real) => Value::Real(real),
        Cell::Text(text) => Value::Text(text),
        Cell::Bytes(bytes) => Value::Blob(bytes),
    }
}

fn put(db: &Connection, of: &Table, rows: Vec<Row>) -> Result<(), CatalogError> {
    if graphs::has(of) {
        return graphs::put(db, of, &rows);
    }
    let places: Vec<String> = (1..=of.columns.len()).map(|at| format!("?{at}")).collect();
    let (names, places) = (of.names(), places.join(", "));
    let there = match of.is_always_there() {
        true => "on conflict do update set value = excluded.value",
        false => "on conflict do nothing",
    };
    let sql = format!("insert into {} ({names}) values ({places}) {there}", of.name);
    let mut one = db.prepare_cached(&sql)?;
    for row in rows {
        let told = told(of, &row);
        let put = one.execute(params_from_iter(row.into_iter().map(value)))?;
        if let Some((scope, document, text)) = told.filter(|_| put == 1) {
            search::index(db, db.last_insert_rowid(), &scope, document, &text)?;
        }
    }
    Ok(())
}

/// What search is told of a chunk.
fn told(of: &Table, row: &Row) -> Option<(Scope, Uuid, String)> {
    let cell = |name: &str| {
        let at = of.columns.iter().position(|column| column.name == name)?;
        row.get(at)
    };
    let text = |name: &str| match cell(name)? {
        Cell::Text(text) => Some(text.clone()),
        _ => None,
    };
    match cell("document")? {
        Cell::Id(document) if of.name == "chunks" => {
            Some((Scope::new(text("tenant")?, text("collection")?), *document, text("text")?))
        }
        _ => None,
    }
}
