//! The source: rows of the older table `documents`, read and never written.
//!
//! All of it is seen in one read-only transaction, as it was at one moment. Which columns there are
//! differs from one installation to the next: what is there is read, and only what nothing can be
//! said without is demanded.

use std::collections::BTreeSet;

use tokio_postgres::Client;
use windrow_store::postgres::{Address, Connector, Error};

use crate::cli::exit::{Exit, Stop};
use crate::cli::place::database;

/// Columns that must be there, and those that are read where they are; a row has all in this order.
const NEEDED: [&str; 4] = ["id", "filename", "convert_status", "index_status"];
const READ: [&str; 7] = [
    "original_filename",
    "file_path",
    "total_pages",
    "ocr_details",
    "indexing_details",
    "ocr_error",
    "vector_error",
];
/// Says of a row that it is deleted, where it is there.
const DELETED: &str = "deleted_at";

/// The columns of the table that its name leads to.
const COLUMNS: &str = "
    select a.attname::text from pg_attribute a
    where a.attrelid = to_regclass('documents') and a.attnum > 0 and not a.attisdropped";
const FETCH: &str = "fetch 50 from windrow_import";

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) filename: String,
    pub(super) convert_status: Option<String>,
    pub(super) index_status: Option<String>,
    pub(super) original_filename: Option<String>,
    pub(super) file_path: Option<String>,
    pub(super) total_pages: Option<String>,
    pub(super) ocr_details: Option<String>,
    pub(super) indexing_details: Option<String>,
    pub(super) ocr_error: Option<String>,
    pub(super) vector_error: Option<String>,
}

/// The table, open.
pub(super) struct Source {
    client: Client,
    /// What the database is called.
    pub(super) name: String,
    /// Rows that are not deleted there, and those that are.
    pub(super) total: u64,
    pub(super) deleted: u64,
    /// Columns that might say more and are not there.
    pub(super) lacking: Vec<&'static str>,
}

impl Source {
    /// Opens the table at an address.
    pub(super) async fn open(url: &str) -> anyhow::Result<Source> {
        if !Address::is_meant(url) {
            let said = "--from takes the address of the older database, such as \
                        postgres://user@host/database; nothing was written";
            return Err(Stop::usage(said).into());
        }
        let options = database(url).map_err(|error| Stop::usage(format!("--from: {error:#}")))?;
        let client = Connector::new(&options).map_err(unreached)?;
        let client = client.connect().await.map_err(unreached)?;
        let begin = "begin isolation level repeatable read read only";
        client.batch_execute(begin).await.map_err(Error::from)?;
        let found = client.query_typed(COLUMNS, &[]).await.map_err(Error::from)?;
        let found: BTreeSet<String> = found.iter().map(|row| row.get(0)).collect();
        check(&found)?;
        let has = |column: &&str| found.contains(*column);
        let there = if has(&DELETED) { format!("{DELETED} is null") } else { "true".to_owned() };
        let counted = client.query_typed_one(&count(&there), &[]).await.map_err(Error::from)?;
        client.batch_execute(&declare(&there, has)).await.map_err(Error::from)?;
        let number = |at: usize| u64::try_from(counted.get::<_, i64>(at)).unwrap_or(0);
        let (name, total, deleted) = (counted.get(0), number(1), number(2));
        let lacking = READ.into_iter().filter(|name| !has(name)).collect();
        Ok(Source { client, name, total, deleted, lacking })
    }

    /// The next rows, in the order of their ids; none at the end.
    pub(super) async fn next(&self) -> anyhow::Result<Vec<Row>> {
        let rows = self.client.query_typed(FETCH, &[]).await.map_err(Error::from)?;
        Ok(rows.iter().map(read).collect())
    }

    /// Ends the transaction: what nobody reads any more holds up nobody there.
    pub(super) async fn close(&self) -> anyhow::Result<()> {
        Ok(self.client.batch_execute("rollback").await.map_err(Error::from)?)
    }
}

fn count(there: &str) -> String {
    format!(
        "select current_database()::text, count(*) filter (where {there}), \
         count(*) filter (where not ({there})) from documents"
    )
}

fn declare(there: &str, has: impl Fn(&&str) -> bool) -> String {
    let column = |name: &&str| match has(name) {
        true => format!("{name}::text"),
        false => "null::text".to_owned(),
    };
    let columns: Vec<String> = NEEDED.iter().chain(&READ).map(column).collect();
    let columns = columns.join(", ");
    format!(
        "declare windrow_import no scroll cursor for \
         select {columns} from documents where {there} order by id"
    )
}

fn read(row: &tokio_postgres::Row) -> Row {
    let text = |at: usize| row.get::<_, Option<String>>(at);
    Row {
        id: text(0).unwrap_or_default(),
        filename: text(1).unwrap_or_default(),
        convert_status: text(2),
        index_status: text(3),
        original_filename: text(4),
        file_path: text(5),
        total_pages: text(6),
        ocr_details: text(7),
        indexing_details: text(8),
        ocr_error: text(9),
        vector_error: text(10),
    }
}

/// Whether there is a table, and what it cannot do without.
fn check(found: &BTreeSet<String>) -> Result<(), Stop> {
    if found.is_empty() {
        let said = "--from: there is no table `documents` in this database; name the database of \
                    the older pipeline, and its schema with ?options=-csearch_path%3DNAME";
        return Err(Stop::new(Exit::NotFound, said));
    }
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !found.contains(*name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (missing, needed) = (missing.join(", "), NEEDED.join(", "));
    let said = format!(
        "--from: the table `documents` has no {missing}; what is needed of it is {needed}. Is it \
         the table of another program?"
    );
    Err(Stop::new(Exit::NotFound, said))
}

fn unreached(error: Error) -> Stop {
    Stop::new(Exit::Unreachable, format!("--from: {error}; nothing was written"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_what_is_not_needed_is_not_missed() {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert!(check(&columns(&NEEDED)).is_ok());
        let none = check(&columns(&[])).unwrap_err();
        assert!(none.message.contains("no table `documents`"), "{none}");
        let some = check(&columns(&["id", "filename"])).unwrap_err();
        assert!(some.message.contains("has no convert_status, index_status;"), "{some}");
    }
}
