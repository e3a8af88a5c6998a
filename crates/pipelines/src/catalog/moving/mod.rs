//! Moving: everything that a catalog holds, row by row, from one database into another.
//!
//! Both know the same tables (`tables.rs`), though one may keep the rows of some in another way.
//! They are moved in the order of their keys and in slices, each of which is there whole or not at
//! all. So whoever goes on after an interruption
//! goes on behind the last row that arrived. Ids stay as they are, and vectors and sequences with
//! them: what stores of vectors and graphs outside know of chunks stays true. Words are not
//! moved: each database makes its own of the chunks that arrive. Leaves out what nobody may do
//! meanwhile, which is to open either side; that is for whoever moves the queue.

mod tables;

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(super) use tables::Kind;
pub use tables::{TABLES, Table};

use super::{Answer, Catalog, CatalogError, Hash, Scope};

/// One value of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    Null,
    Id(Uuid),
    Number(i64),
    Flag(bool),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of its table's columns.
pub type Row = Vec<Cell>;

/// A catalog that is moved out of, or into.
pub trait Moving: Catalog {
    /// Rows after one, by key. Only the key of that one is looked at.
    fn rows(&self, of: &'static Table, after: Option<Row>, limit: u32) -> Answer<'_, Vec<Row>>;

    /// Takes rows, all or none of them. What is there already stays, but for counters.
    fn put_rows(&self, of: &'static Table, rows: Vec<Row>) -> Answer<'_, ()>;

    /// The row with the highest key.
    fn last_row(&self, of: &'static Table) -> Answer<'_, Option<Row>>;

    /// The files that documents are of: whose they are, their hashes and lengths.
    fn contents(&self) -> Answer<'_, Vec<(String, Hash, u64)>>;
}

/// What was moved, and found to be the same.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Moved {
    pub documents: u64,
    /// Of all tables.
    pub rows: u64,
    /// Over all rows, in order.
    pub checksum: Hash,
}

/// Why a catalog did not arrive.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotMoved {
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error("what arrived of the catalog is not what was sent: {0}")]
    Differs(String),
}

/// Whether nothing was ever written to a catalog.
pub async fn is_empty(catalog: &dyn Moving) -> Result<bool, CatalogError> {
    for table in TABLES.iter().filter(|table| !table.is_always_there()) {
        if catalog.last_row(table).await?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies what the target does not have yet, reads both sides again, and compares them.
pub async fn move_all(from: &dyn Moving, to: &dyn Moving) -> Result<Moved, NotMoved> {
    for table in &TABLES {
        copy(from, to, table).await?;
    }
    let mut compared = Compared::default();
    for table in &TABLES {
        compared.rows(from, to, table).await?;
    }
    // As those see it who ask it, and not only row by row.
    for scope in &compared.scopes {
        if from.fingerprint(scope).await? != to.fingerprint(scope).await? {
            let Scope { tenant, collection } = scope;
            let what =
                format!("collection {collection} of tenant {tenant} has another fingerprint");
            return Err(NotMoved::Differs(what));
        }
    }
    Ok(Moved { checksum: compared.sum.finalize().into(), ..compared.moved })
}

async fn copy(
    from: &dyn Moving,
    to: &dyn Moving,
    table: &'static Table,
) -> Result<(), CatalogError> {
    let mut after = match table.is_always_there() {
        true => None,
        false => to.last_row(table).await?,
    };
    loop {
        let rows = from.rows(table, after, table.slice).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = Some(last.clone());
        to.put_rows(table, rows).await?;
    }
}

#[derive(Default)]
struct Compared {
    moved: Moved,
    sum: Sha256,
    scopes: BTreeSet<Scope>,
}

impl Compared {
    async fn rows(
        &mut self,
        from: &dyn Moving,
        to: &dyn Moving,
        table: &'static Table,
    ) -> Result<(), NotMoved> {
        let mut after = None;
        loop {
            let ours = from.rows(table, after.clone(), table.slice).await?;
            let theirs = to.rows(table, after, table.slice).await?;
            let wrong = ours.iter().zip(&theirs).position(|(ours, theirs)| !is_same(ours, theirs));
            if let Some(at) = wrong {
                return Err(NotMoved::Differs(format!(
                    "{} {:?}",
                    table.name,
                    table.key(&ours[at])
                )));
            }
            if ours.len() != theirs.len() {
                let (name, ours, theirs) = (table.name, ours.len(), theirs.len());
                let what = format!("{theirs} rows of {name} follow where {ours} should");
                return Err(NotMoved::Differs(what));
            }
            let Some(last) = ours.last() else { return Ok(()) };
            after = Some(last.clone());
            self.moved.rows += ours.len() as u64;
            ours.iter().for_each(|row| self.add(table, row));
        }
    }

    fn add(&mut self, table: &Table, row: &Row) {
        if table.name == "documents" {
            self.moved.documents += 1;
            if let [_, Cell::Text(tenant), Cell::Text(collection), ..] = &row[..] {
                self.scopes.insert(Scope::new(tenant, collection));
            }
        }
        self.sum.update(table.name);
        row.iter().for_each(|cell| cell.sum(&mut self.sum));
    }
}

/// Bit by bit: a score that is no number is the same as itself.
fn is_same(ours: &Row, theirs: &Row) -> bool {
    let sum = |row: &Row| {
        let mut sum = Sha256::new();
        row.iter().for_each(|cell| cell.sum(&mut sum));
        sum.finalize()
    };
    ours.len() == theirs.len() && sum(ours) == sum(theirs)
}

impl Cell {
    /// With its kind and its length, so that no two rows read alike.
    fn sum(&self, sum: &mut Sha256) {
        let mut put = |kind: u8, bytes: &[u8]| {
            sum.update([kind]);
            sum.update((bytes.len() as u64).to_be_bytes());
            sum.update(bytes);
        };
        match self {
            Cell::Null => put(0, &[]),
            Cell::Id(id) => put(1, id.as_bytes()),
            Cell::Number(number) => put(2, &number.to_be_bytes()),
            Cell::Flag(flag) => put(3, &[u8::from(*flag)]),
            Cell::Real(real) => put(4, &real.to_be_bytes()),
            Cell::Text(text) => put(5, text.as_bytes()),
            Cell::Bytes(bytes) => put(6, bytes),
        }
    }
}
