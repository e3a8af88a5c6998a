//! The schema `windrow_vectors`: the extension, and a table for each dimension.
//!
//! Decides what is made in the database, and says what to do where that is not allowed or not
//! possible. Names of the extension are written with its schema, wherever an operator put it.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{Trouble, VectorsError};
use crate::postgres::migrate::{Schema, Step};
use crate::postgres::value::{Tx, values};

pub(super) const SCHEMA: Schema = Schema {
    name: "windrow_vectors",
    what: "store of vectors",
    lock: 0x7764_7276_6563,
    steps: &[Step { name: "points", sql: include_str!("schema/0001_points.sql") }],
};

/// The first version that goes on along an index until a filter has let enough through.
const VERSION_MIN: (u32, u32) = (0, 8);

/// An entry of an index must fit into a page of 8 KiB: pgvector indexes no more numbers than these.
const INDEXED_MAX: usize = 2_000;

/// Up to here a row fits into a page with its vector. Elsewhere vectors are kept beside the table,
/// which takes twice as long to look through.
const INLINE_MAX: usize = 1_900;

/// What the type `vector` takes.
pub(super) const DIMENSION_MAX: usize = 16_000;

/// Where the extension is, as SQL writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extension {
    schema: String,
}

impl Extension {
    /// An array of real numbers, made a vector.
    pub(super) fn vector(&self, array: &str) -> String {
        format!("({array})::{}.vector", self.schema)
    }

    /// One less the cosine of the angle between the vector of a row and another.
    pub(super) fn distance(&self, other: &str) -> String {
        format!("embedding operator({}.<=>) {other}", self.schema)
    }

    /// What makes the table of a dimension.
    fn table(&self, dimension: usize) -> String {
        let (name, schema) = (points(dimension), &self.schema);
        let mut sql = format!(
            "create table {name} (\
               chunk uuid primary key, \
               document uuid not null, \
               generation int not null, \
               page int not null, \
               tenant text collate \"C\" not null, \
               collection text collate \"C\" not null, \
               embedding {schema}.vector({dimension}) not null); \
             create index points_{dimension}_by_document on {name} (document, generation); \
             create index points_{dimension}_by_scope on {name} \
               (tenant, collection, document, generation);"
        );
        if dimension <= INLINE_MAX {
            sql += &format!("alter table {name} alter column embedding set storage plain;");
        }
        if is_indexed(dimension) {
            sql += &format!(
                "create index points_{dimension}_by_nearness on {name} \
                   using hnsw (embedding {schema}.vector_cosine_ops);"
            );
        }
        sql
    }
}

/// The table of a dimension.
pub(super) fn points(dimension: usize) -> String {
    format!("windrow_vectors.points_{dimension}")
}

pub(super) fn is_indexed(dimension: usize) -> bool {
    dimension <= INDEXED_MAX
}

/// Brings the schema up to date, the extension first.
pub(super) async fn prepare(client: &mut Client) -> Result<Extension, Trouble> {
    let extension = extend(client).await?;
    SCHEMA.migrate(client).await?;
    Ok(extension)
}

/// Makes the extension unless it is there: who may not create it may still use it.
async fn extend(client: &mut Client) -> Result<Extension, Trouble> {
    let tx = Tx(client.transaction().await?);
    tx.run("select pg_advisory_xact_lock($1)", values![SCHEMA.lock]).await?;
    let sql = "select e.extversion, quote_ident(n.nspname) from pg_extension e \
         join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'";
    let row = match tx.row(sql, &[]).await? {
        Some(row) => row,
        None => {
            let made = tx.0.batch_execute("create extension if not exists vector").await;
            made.map_err(uncreated)?;
            tx.one(sql, &[]).await?
        }
    };
    tx.commit().await?;
    new_enough(row.get(0))?;
    Ok(Extension { schema: row.get(1) })
}

/// What to do about an extension that was not created.
fn uncreated(error: tokio_postgres::Error) -> Trouble {
    let why = match error.code() {
        // Not among the files of the server; which code says so depends on its version.
        Some(&SqlState::FEATURE_NOT_SUPPORTED | &SqlState::UNDEFINED_FILE) => {
            "the database server has no extension `vector`: install pgvector 0.8 or newer there \
             (packages are called postgresql-18-pgvector and the like), or keep vectors elsewhere"
        }
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            "this role may not create the extension `vector`: let a superuser run \
             `create extension vector` in this database, once"
        }
        _ => return error.into(),
    };
    VectorsError::Bad { why: why.into() }.into()
}

fn new_enough(version: &str) -> Result<(), VectorsError> {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if (major, minor) >= VERSION_MIN {
        return Ok(());
    }
    let why = format!(
        "the extension `vector` of this database is {version}: install pgvector 0.8 or newer and \
         let a superuser run `alter extension vector update`"
    );
    Err(VectorsError::Bad { why })
}

/// Makes the table of a dimension unless it is there.
pub(super) async fn make_table(
    tx: &Tx<'_>,
    extension: &Extension,
    dimension: usize,
) -> Result<(), Trouble> {
    tx.run("select pg_advisory_xact_lock($1)", values![SCHEMA.lock]).await?;
    if tables(tx).await?.contains(&dimension) {
        return Ok(());
    }
    tx.0.batch_execute(&extension.table(dimension)).await?;
    let sql = "insert into windrow_vectors.dimensions (dimension) values ($1)";
    tx.run(sql, values![dimension as i32]).await?;
    Ok(())
}

/// The dimensions that there are tables for.
pub(super) async fn tables(tx: &Tx<'_>) -> Result<Vec<usize>, Trouble> {
    let sql = "select dimension from windrow_vectors.dimensions order by dimension";
    let rows = tx.rows(sql, &[]).await?;
    Ok(rows.iter().map(|row| row.get::<_, i32>(0).unsigned_abs() as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_extension_is_refused_with_what_to_do() {
        for version in ["0.8.0", "0.8.5", "0.10", "1.0.0-rc"] {
            assert_eq!(new_enough(version), Ok(()), "{version}");
        }
        for version in ["0.7.4", "0.4", "", "odd"] {
            let error = new_enough(version).expect_err(version).to_string();
            assert!(error.contains("alter extension vector update"), "{error}");
        }
    }

    #[test]
    fn only_what_fits_into_a_page_is_indexed_and_kept_in_the_row() {
        let extension = Extension { schema: "\"Ext\"".into() };
        for (dimension, is_indexed, is_inline) in
            [(3, true, true), (1_900, true, true), (2_000, true, false), (2_001, false, false)]
        {
            let sql = extension.table(dimension);
            assert!(sql.contains(&format!("\"Ext\".vector({dimension})")), "{sql}");
            assert_eq!(sql.contains("using hnsw"), is_indexed, "{sql}");
            assert_eq!(sql.contains("storage plain"), is_inline, "{sql}");
        }
    }
}
