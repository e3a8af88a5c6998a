//! What a role may do with the catalog of a database, and whether there is anything in it. Changes
//! nothing, and opens no catalog.

use tokio_postgres::Client;

use super::super::error::CatalogError;
use super::super::moving::TABLES;
use super::Trouble;

/// What the role of a connection may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    /// As SQL writes it.
    pub role: String,
    /// Whether there is a catalog.
    pub is_there: bool,
    /// Whether it may make one.
    pub may_make: bool,
    /// Whether it may read and write all of the one that is there.
    pub may_use: bool,
}

const RIGHTS: &str = "select quote_ident(current_user), \
       exists (select from pg_class \
         where relnamespace = to_regnamespace('windrow_catalog') and relname = 'migrations'), \
       coalesce(has_schema_privilege(to_regnamespace('windrow_catalog'), 'create'), \
         has_database_privilege(current_database(), 'create')), \
       coalesce(has_schema_privilege(to_regnamespace('windrow_catalog'), 'usage'), false) \
         and not exists (select from pg_class \
           where relnamespace = to_regnamespace('windrow_catalog') and relkind = 'r' \
             and not (has_table_privilege(oid, 'select') and (relname = 'migrations' \
               or (has_table_privilege(oid, 'insert') and has_table_privilege(oid, 'update') \
                 and has_table_privilege(oid, 'delete')))))";

/// What the role of a connection may do.
pub async fn rights(client: &Client) -> Result<Rights, CatalogError> {
    let row = client.query_typed_one(RIGHTS, &[]).await.map_err(Trouble::Theirs)?;
    let (role, is_there, may_make, may_use) = (row.get(0), row.get(1), row.get(2), row.get(3));
    Ok(Rights { role, is_there, may_make, may_use })
}

/// Whether anything was put into a catalog that is there: `windrow migrate` makes an empty one.
pub async fn is_begun(client: &Client) -> Result<bool, CatalogError> {
    let there = "select relname::text from pg_class \
         where relnamespace = to_regnamespace('windrow_catalog') and relkind = 'r'";
    let there = client.query_typed(there, &[]).await.map_err(Trouble::Theirs)?;
    let there: Vec<&str> = there.iter().map(|row| row.get(0)).collect();
    let moved = TABLES.iter().filter(|table| !table.is_always_there()).map(|table| table.name);
    // One that an older version made lacks some. What is left over is still to be removed from
    // stores outside.
    let tables = moved.chain(["leftovers"]).filter(|name| there.contains(name));
    let holds = tables.map(|name| format!("exists (select from windrow_catalog.{name})"));
    let sql =
        format!("select {}", holds.chain(["false".to_owned()]).collect::<Vec<_>>().join(" or "));
    Ok(client.query_typed_one(&sql, &[]).await.map_err(Trouble::Theirs)?.get(0))
}
