//! A catalog as a file: copied while it is used, and taken up again beside a queue that was
//! restored.
//!
//! The copy is one moment of it. It is read beside whoever writes, who waits for nothing; only the
//! file of what was written ahead cannot be folded in meanwhile, and grows.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};
use windrow_core::ItemId;

use super::super::Hash;
use super::super::chunk::hash_of;
use super::super::error::CatalogError;
use super::{Sqlite, open};

/// Between two looks whether somebody still holds the file: whoever opens it after a crash does.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes that are hashed at once.
const PIECE: usize = 256 * 1024;

/// What a catalog holds that was restored.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Restored {
    pub documents: u64,
    /// The files that documents are of: whose they are, their hashes and lengths.
    pub contents: Vec<(String, Hash, u64)>,
    /// Generations whose items the queue has not made.
    pub without_item: u64,
}

impl Sqlite {
    /// Copies a catalog as it is at one moment, used or not, into a file that does not exist yet.
    /// Says what the copy hashes to.
    pub fn copy(from: &Path, to: &Path) -> Result<Hash, CatalogError> {
        let (source, mut target) = (open::reader(from)?, open::made(to)?);
        // A copy that is not finished is thrown away, and nothing that would mend it may stay.
        target.execute_batch("pragma journal_mode = off; pragma synchronous = off")?;
        // In one step, because what is written between two would begin it again.
        Backup::new(&source, &mut target)?.run_to_completion(i32::MAX, PAUSE, None)?;
        target.close().map_err(|(_, error)| error)?;
        Sqlite::hash(to).map_err(CatalogError::transient)
    }

    /// What the file of a catalog hashes to that nobody has open.
    pub fn hash(path: &Path) -> io::Result<Hash> {
        let (mut file, mut sum, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE]);
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(sum.finalize().into()),
                read => sum.update(&piece[..read]),
            }
        }
    }

    /// Takes a copy up beside a queue that is older than it. An item that the queue `has_made` not
    /// is forgotten: nobody will do its work, so that whoever starts builds it anew.
    pub fn restored(
        path: &Path,
        has_made: impl Fn(ItemId) -> bool,
    ) -> Result<Restored, CatalogError> {
        let mut db = open::writer(path)?;
        let said: String = db.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
        if said != "ok" {
            return Err(CatalogError::bad(format!("{}: {said}", path.display())));
        }
        let tx = db.transaction()?;
        let without_item = forget(&tx, has_made)?;
        let count = "select count(*) from documents";
        let documents = tx.query_row(count, [], |row| row.get::<_, i64>(0))?.unsigned_abs();
        let contents = contents(&tx)?;
        tx.commit()?;
        db.close().map_err(|(_, error)| error)?;
        Ok(Restored { documents, contents, without_item })
    }
}

fn forget(db: &Connection, has_made: impl Fn(ItemId) -> bool) -> Result<u64, CatalogError> {
    let sql = "select document, number, item from generations where item is not null";
    let mut noted = db.prepare(sql)?;
    let mut rows = noted.query([])?;
    let mut unknown = Vec::new();
    while let Some(row) = rows.next()? {
        let item: String = row.get(2)?;
        if !item.parse::<ItemId>().is_ok_and(&has_made) {
            unknown.push((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?));
        }
    }
    let sql = "update generations set item = null where document = ?1 and number = ?2";
    let mut one = db.prepare(sql)?;
    for (document, number) in &unknown {
        one.execute(params![document, number])?;
    }
    Ok(unknown.len() as u64)
}

pub(super) fn contents(db: &Connection) -> Result<Vec<(String, Hash, u64)>, CatalogError> {
    let sql = "select distinct d.tenant, g.hash, g.bytes from generations g \
         join documents d on d.id = g.document where g.state <> 'old'";
    let mut found = db.prepare(sql)?;
    let mut rows = found.query([])?;
    let mut contents = Vec::new();
    while let Some(row) = rows.next()? {
        let hash = hash_of(&row.get::<_, Vec<u8>>(1)?)?;
        contents.push((row.get(0)?, hash, row.get::<_, i64>(2)?.unsigned_abs()));
    }
    Ok(contents)
}
