//! The mark of a move: a table of its own, there from before anything arrives until all of it has.
//!
//! It comes in the transaction that makes the schema and looks whether the database is empty. So
//! there is no moment at which somebody else could open what is to be filled.

use tokio_postgres::{Client, Transaction};
use windrow_core::id::StoreTag;
use windrow_core::note::OWN;

use super::pool::{Pool, Used};
use super::tx::step;
use super::{Error, migrate};
use crate::moving::MoveError;

/// What a store holds, in words. What every store makes for itself is not among it.
const HOLDS: &str = "select 'items' where exists (select from windrow.items) \
       or exists (select from windrow.history) \
     union all select 'settings of queues' where exists (select from windrow.settings) \
     union all select 'pauses' where exists (select from windrow.pauses) \
     union all select 'resources' where exists (select from windrow.gates) \
     union all select 'blobs' where exists (select from windrow.blobs) \
     union all select 'leases' where exists (select from windrow.leases) \
     union all select 'trees that are being cancelled' where exists (select from windrow.orphans) \
     union all (select distinct shelf from windrow.notes where (shelf, name) <> ($1, $2) \
       order by shelf)";

/// Whether a move into this database was not finished.
pub(super) async fn is_half_moved(client: &Used) -> Result<bool, Error> {
    let sql = "select to_regclass('windrow.moving') is not null";
    Ok(client.query_one(step!(sql)).await?.get(0))
}

/// Refuses a database into which a move was not finished.
pub(super) async fn ensure_whole(client: &Used, pool: &Pool) -> Result<(), Error> {
    if is_half_moved(client).await? {
        return Err(Error::HalfMoved { address: pool.address().shown() });
    }
    Ok(())
}

/// What a mark was written over: the tag of the store and the secret that its ids are mixed with,
/// as far as there were any.
#[derive(Debug)]
pub(super) struct Before {
    tag: Option<i64>,
    own: Option<(i64, Vec<u8>)>,
}

/// Makes a database ready for the store of that tag, or finds that a move of it was begun there:
/// all of it at once, or nothing. Says what was there before, if it is a new mark.
pub(super) async fn make(
    client: &mut Client,
    place: &str,
    tag: StoreTag,
) -> Result<Option<Before>, MoveError> {
    let failed = |error: Error| MoveError::Place(error.to_string());
    let tx = client.transaction().await.map_err(|error| failed(error.into()))?;
    migrate::apply(&tx).await.map_err(failed)?;
    let before = match begun(&tx).await.map_err(failed)? {
        Some(theirs) if theirs != tag => {
            return Err(MoveError::OtherMove { place: place.to_owned() });
        }
        Some(_) => None,
        None => {
            let holds = holds(&tx).await.map_err(failed)?;
            if !holds.is_empty() {
                return Err(MoveError::NotEmpty { place: place.to_owned(), holds });
            }
            Some(write(&tx, tag).await.map_err(failed)?)
        }
    };
    tx.commit().await.map_err(|error| failed(error.into()))?;
    Ok(before)
}

/// Takes a mark back that was just made and under which nothing has arrived.
pub(super) async fn take_back(client: &mut Client, before: Before) -> Result<(), Error> {
    let tx = client.transaction().await?;
    tx.batch_execute("drop table windrow.moving").await?;
    match before.tag {
        Some(tag) => tx.execute("update windrow.store set tag = $1", &[&tag]).await?,
        None => tx.execute("delete from windrow.store", &[]).await?,
    };
    if let Some((version, body)) = before.own {
        let (shelf, name) = OWN;
        // A server that came meanwhile may have made one, and goes by that.
        let own = "insert into windrow.notes (shelf, name, version, body) values ($1, $2, $3, $4) \
             on conflict (shelf, name) do nothing";
        tx.execute(own, &[&shelf, &name, &version, &body]).await?;
    }
    Ok(tx.commit().await?)
}

/// Whose move was begun here, if one was.
async fn begun(tx: &Transaction<'_>) -> Result<Option<StoreTag>, Error> {
    let is_there = "select to_regclass('windrow.moving') is not null";
    if !tx.query_one(is_there, &[]).await?.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = tx.query_one("select tag from windrow.moving", &[]).await?;
    Ok(Some(StoreTag::new(row.get::<_, i64>(0) as u64)))
}

async fn holds(tx: &Transaction<'_>) -> Result<String, Error> {
    let (shelf, name) = OWN;
    let rows = tx.query(HOLDS, &[&shelf, &name]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect::<Vec<&str>>().join(", "))
}

/// From now on the store is the one that comes. Says what was there before.
async fn write(tx: &Transaction<'_>, tag: StoreTag) -> Result<Before, Error> {
    let tag = tag.bits() as i64;
    tx.batch_execute("create table windrow.moving (tag bigint not null, whole boolean not null)")
        .await?;
    tx.execute("insert into windrow.moving values ($1, false)", &[&tag]).await?;
    let known = tx.query_opt("select tag from windrow.store", &[]).await?;
    let store = "insert into windrow.store (tag) values ($1) \
                 on conflict (one) do update set tag = excluded.tag";
    tx.execute(store, &[&tag]).await?;
    let (shelf, name) = OWN;
    let own = "delete from windrow.notes where shelf = $1 and name = $2 returning version, body";
    let own = tx.query_opt(own, &[&shelf, &name]).await?;
    Ok(Before { tag: known.map(|row| row.get(0)), own: own.map(|row| (row.get(0), row.get(1))) })
}
