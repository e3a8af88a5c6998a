//! Opening: the file, its settings, and the steps that bring its schema up to date.
//!
//! Texts of documents are nobody else's business: the files are their owner's alone, whatever the
//! umask, as those of the store beside them.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::super::error::CatalogError;

/// All steps, in order. One that has landed never changes.
const STEPS: [&str; 1] = [include_str!("schema/0001_catalog.sql")];

/// What says that a file is a catalog: "wdrc".
const APPLICATION: i32 = 0x7764_7263;

/// How long to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(10);

/// The mode of its files: what is read and written by their owner.
const MODE: u32 = 0o600;

/// The connection that writes. Makes the file if there is none.
pub(super) fn writer(path: &Path) -> Result<Connection, CatalogError> {
    let mut connection = made(path)?;
    connection.busy_timeout(BUSY)?;
    refuse_foreign(&connection, path)?;
    narrow(path).map_err(CatalogError::transient)?;
    let mode: String = connection.query_row("pragma journal_mode = wal", [], |row| row.get(0))?;
    if mode != "wal" {
        let why = format!("{} cannot be written ahead; is it on a network?", path.display());
        return Err(CatalogError::Bad { why });
    }
    // An answer means that it is on the disk. What was written is moved to its place by 64 MiB,
    // because the same pages are written many times; after a crash as much is read again.
    connection.execute_batch(
        "pragma synchronous = full; pragma temp_store = memory; pragma cache_size = -65536; \
         pragma wal_autocheckpoint = 16384; pragma journal_size_limit = 134217728;",
    )?;
    // A plan does not depend on what is bound. Else some statements are prepared again each time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(128);
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// A connection to a file that is made if there is none. SQLite would make it with what the umask
/// leaves, and the files beside it with the mode that it has.
pub(super) fn made(path: &Path) -> Result<Connection, CatalogError> {
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(CatalogError::transient(format!("{}: {error}", path.display())))
        }
        _ => Ok(Connection::open(path)?),
    }
}

/// Takes from others what earlier versions let them read, of the file and of those beside it. By
/// name: whoever closes a file lets go of all locks that this process has on it, SQLite's too.
fn narrow(path: &Path) -> io::Result<()> {
    for beside in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        let mode = match fs::metadata(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?.permissions().mode() & 0o777,
        };
        if mode & !MODE == 0 {
            continue;
        }
        match fs::set_permissions(&name, Permissions::from_mode(MODE)).map_err(|error| error.kind())
        {
            // Who may read what belongs to somebody else is theirs to say, and what another process
            // has just removed nobody reads.
            Ok(()) | Err(io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound) => {}
            Err(kind) => return Err(kind.into()),
        }
    }
    Ok(())
}

/// A connection that reads.
pub(super) fn reader(path: &Path) -> Result<Connection, CatalogError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch("pragma temp_store = memory; pragma cache_size = -16384;")?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), CatalogError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
    let application = number("pragma application_id")?;
    let tables = number("select count(*) from sqlite_schema")?;
    if application != APPLICATION && (application != 0 || tables > 0) {
        let why = format!("{} is a database of something else", path.display());
        return Err(CatalogError::Bad { why });
    }
    let newest = STEPS.len() as i32;
    let version = number("pragma user_version")?;
    if version > newest {
        let why = format!(
            "{} has schema {version}, and this program knows up to {newest}: use a newer one",
            path.display()
        );
        return Err(CatalogError::Bad { why });
    }
    Ok(())
}

/// Applies the steps that are missing. Looks again once it may write: another process may have been
/// first.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), CatalogError> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    refuse_foreign(&tx, path)?;
    let version: u32 = tx.query_row("pragma user_version", [], |row| row.get(0))?;
    for (at, step) in STEPS.iter().enumerate().skip(version as usize) {
        tx.execute_batch(step)?;
        tx.pragma_update(None, "user_version", at as i32 + 1)?;
        tx.pragma_update(None, "application_id", APPLICATION)?;
    }
    Ok(tx.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_file(name: &str, test: impl FnOnce(&Path)) {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("windrow-open-{name}-{id}"));
        std::fs::create_dir_all(&folder).unwrap();
        test(&folder.join("catalog.db"));
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn refused(path: &Path) -> String {
        match writer(path) {
            Err(CatalogError::Bad { why }) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_catalog_opens_again_with_its_settings() {
        in_file("again", |path| {
            drop(writer(path).unwrap());
            let again = writer(path).unwrap();
            let number = |sql: &str| again.query_row(sql, [], |row| row.get::<_, i32>(0)).unwrap();
            assert_eq!(number("pragma user_version"), STEPS.len() as i32);
            assert_eq!(number("pragma synchronous"), 2);
            let changed = reader(path).unwrap().execute("delete from counters", []);
            assert!(changed.is_err(), "a reader writes");
        });
    }

    fn modes(path: &Path) -> Vec<u32> {
        let beside = ["", "-wal", "-shm"].map(|end| format!("{}{end}", path.display()));
        let mode = |file: String| std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        beside.map(mode).to_vec()
    }

    #[test]
    fn nobody_but_its_owner_reads_a_catalog() {
        in_file("modes", |path| {
            let open = writer(path).unwrap();
            assert_eq!(modes(path), [0o600; 3]);
            // As versions before this one left them.
            for beside in ["", "-wal", "-shm"] {
                let file = format!("{}{beside}", path.display());
                std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
            }
            let again = writer(path).unwrap();
            assert_eq!(modes(path), [0o600; 3]);
            drop((open, again));
            let copy = path.with_file_name("copy.db");
            super::super::Sqlite::copy(path, &copy).unwrap();
            assert_eq!(std::fs::metadata(copy).unwrap().permissions().mode() & 0o777, 0o600);
        });
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_as_it_is() {
        in_file("newer", |path| {
            writer(path).unwrap().pragma_update(None, "user_version", 99).unwrap();
            let why = refused(path);
            assert!(why.contains("has schema 99, and this program knows up to 1"), "{why}");
            let version: i32 = Connection::open(path)
                .unwrap()
                .query_row("pragma user_version", [], |row| row.get(0))
                .unwrap();
            assert_eq!(version, 99);
        });
    }

    #[test]
    fn what_is_no_catalog_is_refused_and_left_as_it_is() {
        in_file("foreign", |path| {
            Connection::open(path).unwrap().execute_batch("create table notes (n)").unwrap();
            assert!(refused(path).contains("of something else"));
            std::fs::remove_file(path).unwrap();
            std::fs::write(
                path,
                "# Just a text that is long enough to be no header at all\n".repeat(40),
            )
            .unwrap();
            assert!(refused(path).contains("not a database"), "{}", refused(path));
        });
    }
}
