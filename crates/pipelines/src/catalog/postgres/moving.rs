//! Rows of tables, as they are moved, in PostgreSQL.

use super::super::chunk::hash_of;
use super::super::error::CatalogError;
use super::super::moving::{Cell, Kind, Moving, Row, Table};
use super::super::words::folded;
use super::super::{Answer, Hash, bounds};
use super::value::{Sent, Tx, values};
use super::{Postgres, Trouble, again};

impl Moving for Postgres {
    fn rows(&self, of: &'static Table, after: Option<Row>, limit: u32) -> Answer<'_, Vec<Row>> {
        Box::pin(
            async move { read!(self, tx => rows(tx, of, after.as_ref(), bounds::rows(limit))) },
        )
    }

    fn put_rows(&self, of: &'static Table, rows: Vec<Row>) -> Answer<'_, ()> {
        Box::pin(async move { write!(self, tx => put(tx, of, &rows)) })
    }

    fn last_row(&self, of: &'static Table) -> Answer<'_, Option<Row>> {
        Box::pin(async move { read!(self, tx => last(tx, of)) })
    }

    fn contents(&self) -> Answer<'_, Vec<(String, Hash, u64)>> {
        Box::pin(async move { read!(self, tx => contents(tx)) })
    }
}

/// Where rows come from. Who counts does so in many rows here, and in one elsewhere.
fn source(of: &Table) -> String {
    match of.name {
        "memo_counts" => "(select tenant, phase, sum(hits)::bigint as hits, \
             sum(misses)::bigint as misses from windrow_catalog.memo_counts \
             group by tenant, phase) as memo_counts"
            .to_owned(),
        name => format!("windrow_catalog.{name}"),
    }
}

async fn rows(
    tx: &Tx<'_>,
    of: &Table,
    after: Option<&Row>,
    limit: u32,
) -> Result<Vec<Row>, Trouble> {
    let (all, keys, source) = (of.names(), of.key_names(), source(of));
    let mut values: Vec<Box<dyn Sent + Send>> = Vec::new();
    if let Some(after) = after {
        for (cell, kind) in of.key(after).iter().zip(of.key_kinds()) {
            values.push(one(cell, kind)?);
        }
    }
    let places: Vec<String> = (1..=values.len()).map(|at| format!("${at}")).collect();
    let behind = match places.is_empty() {
        true => String::new(),
        false => format!("where ({keys}) > ({})", places.join(", ")),
    };
    values.push(Box::new(i64::from(limit)));
    let at = values.len();
    let sql = format!("select {all} from {source} {behind} order by {keys} limit ${at}");
    let sent: Vec<&dyn Sent> = values.iter().map(|value| -> &dyn Sent { &**value }).collect();
    Ok(tx.rows(&sql, &sent).await?.iter().map(|row| cells(of, row)).collect())
}

async fn last(tx: &Tx<'_>, of: &Table) -> Result<Option<Row>, Trouble> {
    let order = of.key_names().replace(", ", " desc, ");
    let (all, source) = (of.names(), source(of));
    let sql = format!("select {all} from {source} order by {order} desc limit 1");
    Ok(tx.row(&sql, &[]).await?.map(|row| cells(of, &row)))
}

fn cells(of: &Table, row: &tokio_postgres::Row) -> Row {
    let cell = |(at, kind): (usize, Kind)| {
        let read = match kind {
            Kind::Id => row.get::<_, Option<_>>(at).map(Cell::Id),
            Kind::Short => row.get::<_, Option<i32>>(at).map(|number| Cell::Number(number.into())),
            Kind::Long => row.get::<_, Option<_>>(at).map(Cell::Number),
            Kind::Flag => row.get::<_, Option<_>>(at).map(Cell::Flag),
            Kind::Real => row.get::<_, Option<_>>(at).map(Cell::Real),
            Kind::Text => row.get::<_, Option<_>>(at).map(Cell::Text),
            Kind::Bytes => row.get::<_, Option<_>>(at).map(Cell::Bytes),
        };
        read.unwrap_or(Cell::Null)
    };
    of.columns.iter().map(|column| column.kind).enumerate().map(cell).collect()
}

/// The values of one kind of cells: `None` where there is none, an error where there is another.
macro_rules! of_kind {
    ($cells:expr, $kind:ident) => {
        $cells
            .map(|cell| match cell {
                Cell::Null => Ok(None),
                Cell::$kind(value) => Ok(Some(value.to_owned())),
                other => Err(misfit(other)),
            })
            .collect::<Result<Vec<_>, CatalogError>>()?
    };
}

fn misfit(cell: &Cell) -> CatalogError {
    CatalogError::bad(format!("a value does not fit where it goes: {cell:?}"))
}

fn short(number: Option<i64>) -> Result<Option<i32>, CatalogError> {
    let fits = number.map(i32::try_from).transpose();
    fits.map_err(|_| CatalogError::bad("a number does not fit where it goes"))
}

/// A value of a key.
fn one(cell: &Cell, kind: Kind) -> Result<Box<dyn Sent + Send>, CatalogError> {
    Ok(match (cell, kind) {
        (Cell::Id(id), _) => Box::new(*id),
        (Cell::Number(number), Kind::Short) => Box::new(short(Some(*number))?),
        (Cell::Number(number), _) => Box::new(*number),
        (Cell::Text(text), _) => Box::new(text.clone()),
        (Cell::Bytes(bytes), _) => Box::new(bytes.clone()),
        (other, _) => return Err(misfit(other)),
    })
}

/// The values of a column, and the type of one.
fn column(
    rows: &[Row],
    at: usize,
    kind: Kind,
) -> Result<(Box<dyn Sent + Send>, &'static str), CatalogError> {
    let cells = rows.iter().map(|row| row.get(at).unwrap_or(&Cell::Null));
    Ok(match kind {
        Kind::Id => (Box::new(of_kind!(cells, Id)), "uuid"),
        Kind::Short => {
            let numbers = of_kind!(cells, Number).into_iter().map(short);
            (Box::new(numbers.collect::<Result<Vec<_>, _>>()?), "int")
        }
        Kind::Long => (Box::new(of_kind!(cells, Number)), "bigint"),
        Kind::Flag => (Box::new(of_kind!(cells, Flag)), "boolean"),
        Kind::Real => (Box::new(of_kind!(cells, Real)), "float8"),
        Kind::Text => (Box::new(of_kind!(cells, Text)), "text"),
        Kind::Bytes => (Box::new(of_kind!(cells, Bytes)), "bytea"),
    })
}

async fn put(tx: &Tx<'_>, of: &Table, rows: &[Row]) -> Result<(), Trouble> {
    let (mut values, mut arrays) = (Vec::new(), Vec::new());
    for (at, of) in of.columns.iter().enumerate() {
        let (all, kind) = column(rows, at, of.kind)?;
        values.push(all);
        arrays.push(format!("${}::{kind}[]", at + 1));
    }
    let names = of.names();
    let there = match of.is_always_there() {
        true => "on conflict (name) do update set value = excluded.value",
        false => "on conflict do nothing",
    };
    // What a database keeps besides.
    let (more, made) = match of.name {
        "chunks" => {
            arrays.push(format!("${}::text[]", values.len() + 1));
            let texts = of.columns.iter().position(|column| column.name == "text");
            let texts = rows.iter().map(|row| texts.and_then(|at| row.get(at)));
            let texts = texts.map(|text| match text {
                Some(Cell::Text(text)) => folded(text),
                _ => String::new(),
            });
            values.push(Box::new(texts.collect::<Vec<String>>()));
            (", words", ", to_tsvector('english', n.folded)")
        }
        "memo_counts" => (", bucket", ", 0"),
        _ => ("", ""),
    };
    let named = if of.name == "chunks" { format!("{names}, folded") } else { names.clone() };
    let picked: Vec<String> = of.columns.iter().map(|one| format!("n.{}", one.name)).collect();
    let sql = format!(
        "insert into windrow_catalog.{} ({names}{more}) select {}{made} from unnest({}) \
         as n({named}) {there}",
        of.name,
        picked.join(", "),
        arrays.join(", "),
    );
    let sent: Vec<&dyn Sent> = values.iter().map(|value| -> &dyn Sent { &**value }).collect();
    tx.run(&sql, &sent).await?;
    Ok(())
}

async fn contents(tx: &Tx<'_>) -> Result<Vec<(String, Hash, u64)>, Trouble> {
    let sql = "select distinct d.tenant, g.hash, g.bytes from windrow_catalog.generations g \
         join windrow_catalog.documents d on d.id = g.document where g.state <> 'old'";
    let rows = tx.rows(sql, values![]).await?;
    let content = |row: &tokio_postgres::Row| -> Result<_, Trouble> {
        Ok((row.get(0), hash_of(row.get(1))?, row.get::<_, i64>(2).unsigned_abs()))
    };
    rows.iter().map(content).collect()
}
