//! Blobs as rows: any server can read, or go on with, what another received.
//!
//! An upload is a row and its pieces. Each append is a transaction that locks the row, so that two
//! servers cannot go on with one upload at once. Nothing holds a connection between two appends or
//! two reads.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use uuid::Uuid;
use windrow_core::Timestamp;
use windrow_core::item::BlobRef;
use windrow_core::ports::StoreError;

use super::tx::{Step, Tx, step};
use super::{Error, Postgres};
use crate::blobs::{BlobError, Blobs, NewUpload, PIECE, References, Stored, Upload, UploadId};

/// Rows that are looked at together.
const SOME: i64 = 1_000;

const BEGIN: &str =
    "insert into windrow.uploads (id, tenant, bytes, hash, since) values ($1, $2, $3, $4, $5)";
const UPLOAD: &str =
    "select tenant, bytes, hash, received, since from windrow.uploads where id = $1";
const LOCK: &str =
    "select tenant, bytes, hash, received, since from windrow.uploads where id = $1 for update";
const RECEIVED: &str = "update windrow.uploads set received = $2, since = greatest(since, $3) \
     where id = $1";
const LAST: &str = "select first, octet_length(piece) from windrow.pieces \
     where upload = $1 order by first desc limit 1";
const LONGER: &str =
    "update windrow.pieces set piece = piece || $3 where upload = $1 and first = $2";
const PUT: &str = "insert into windrow.pieces (upload, first, piece) values ($1, $2, $3)";
const SEEN: &str = "select first, piece from windrow.pieces where upload = $1 and first >= $2 \
     order by first limit 4";
/// Says whether these bytes were here already.
const NAME: &str = "insert into windrow.contents as c (tenant, hash, bytes, upload, since) \
     values ($1, $2, $3, $4, $5) \
     on conflict (tenant, hash) do update set since = greatest(c.since + 1, excluded.since) \
     returning c.upload <> $4";
const NO_UPLOAD: &str = "delete from windrow.uploads where id = $1";
const NO_PIECES: &str = "delete from windrow.pieces where upload = $1";
const FIND: &str =
    "select tenant, hash, bytes, since from windrow.contents where tenant = $1 and hash = $2";
const OLDER: &str = "select tenant, hash, bytes, since from windrow.contents c \
     where since < $1 and (tenant, hash) > ($2, $3) and not exists (select from windrow.blobs b \
       where b.tenant = c.tenant and b.hash = c.hash and b.bytes = c.bytes and b.refs > 0) \
     order by tenant, hash limit $4";
const TOUCH: &str = "update windrow.contents set since = greatest(since + 1, $4) \
     where tenant = $1 and hash = $2 and bytes = $3 returning true";
/// The pieces that a range lies in, each cut to it.
const READ: &str = "select substring(p.piece \
       from (greatest($4 - p.first, 0) + 1)::int \
       for (least($4 + $5, p.first + octet_length(p.piece)) - greatest($4, p.first))::int) \
     from windrow.contents c join windrow.pieces p on p.upload = c.upload \
     where c.tenant = $1 and c.hash = $2 and c.bytes = $3 \
       and p.first > $4 - $6 and p.first < $4 + $5 and p.first + octet_length(p.piece) > $4 \
     order by p.first";
const REMOVE: &str = "with gone as (delete from windrow.contents c \
       where c.tenant = $1 and c.hash = $2 and c.since = $3 and not exists (\
         select from windrow.blobs b \
         where b.tenant = c.tenant and b.hash = c.hash and b.bytes = c.bytes) \
       returning c.upload), \
     emptied as (delete from windrow.pieces p using gone where p.upload = gone.upload) \
     select count(*) > 0 from gone";
const IDLE: &str = "select id from windrow.uploads where since < $1 limit $2";
const REFERENCES: &str =
    "select refs from windrow.blobs where tenant = $1 and hash = $2 and bytes = $3";
const DROPPED: &str = "delete from windrow.dropped where id in (\
       select id from windrow.dropped order by id limit $1 for update skip locked) \
     returning tenant, hash, bytes";

impl Postgres {
    async fn ask(&self, step: Step) -> Result<Vec<Row>, BlobError> {
        let client = self.shared.pool.get().await?;
        Ok(client.query(step).await?)
    }

    async fn tx(&self) -> Result<Tx, BlobError> {
        Ok(Tx::new(self.shared.pool.get().await?))
    }

    /// The hash of an upload whose bytes are all here.
    async fn hash_upload(&self, id: Uuid, len: u64) -> Result<[u8; 32], BlobError> {
        let (mut sum, mut at) = (Sha256::new(), 0_i64);
        while (at as u64) < len {
            let rows = self.ask(step!(SEEN, id, at)).await?;
            if rows.is_empty() {
                return Err(BlobError::NotFound);
            }
            for row in rows {
                let piece: &[u8] = row.get(1);
                if row.get::<_, i64>(0) != at {
                    return Err(BlobError::Failed("a piece is missing".into()));
                }
                sum.update(piece);
                at += piece.len() as i64;
            }
        }
        Ok(sum.finalize().into())
    }
}

impl Blobs for Postgres {
    async fn begin(&self, new: NewUpload, now: Timestamp) -> Result<UploadId, BlobError> {
        let id = UploadId::random();
        let (tenant, hash) = (new.tenant.to_string(), new.hash.map(|hash| hash.to_vec()));
        let (len, now) = (new.len as i64, now.0 as i64);
        self.ask(step!(BEGIN, Uuid::from_u128(id.0), tenant, len, hash, now)).await?;
        Ok(id)
    }

    async fn upload(&self, id: UploadId) -> Result<Upload, BlobError> {
        one_upload(&self.ask(step!(UPLOAD, Uuid::from_u128(id.0))).await?)
    }

    async fn append(
        &self,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<u64, BlobError> {
        let (uuid, mut tx) = (Uuid::from_u128(id.0), self.tx().await?);
        let rows = tx.run(vec![step!(LOCK, uuid), step!(LAST, uuid)]).await?;
        let upload = match one_upload(&rows[0]) {
            Ok(upload) => upload,
            Err(error) => {
                tx.roll_back().await;
                return Err(error);
            }
        };
        let end = offset + bytes.len() as u64;
        if offset != upload.offset || end > upload.new.len {
            tx.roll_back().await;
            return Err(match offset == upload.offset {
                true => BlobError::TooLong { len: upload.new.len },
                false => BlobError::WrongOffset { offset: upload.offset },
            });
        }
        let (mut steps, mut rest, mut at) = (Vec::new(), bytes, offset);
        // Many small appends make no more rows than a few large ones.
        if let Some(last) = rows[1].first() {
            let room = PIECE.saturating_sub(last.get::<_, i32>(1) as usize).min(rest.len());
            if room > 0 {
                let (more, other) = rest.split_at(room);
                steps.push(step!(LONGER, uuid, last.get::<_, i64>(0), more.to_vec()));
                (rest, at) = (other, at + room as u64);
            }
        }
        for piece in rest.chunks(PIECE) {
            steps.push(step!(PUT, uuid, at as i64, piece.to_vec()));
            at += piece.len() as u64;
        }
        steps.push(step!(RECEIVED, uuid, end as i64, now.0 as i64));
        tx.commit(steps).await.map_err(super::tx::Failed::into_inner)?;
        Ok(end)
    }

    async fn finish(&self, id: UploadId, now: Timestamp) -> Result<BlobRef, BlobError> {
        let Upload { new, offset, .. } = Blobs::upload(self, id).await?;
        if offset != new.len {
            return Err(BlobError::Incomplete { missing: new.len - offset });
        }
        let (uuid, len) = (Uuid::from_u128(id.0), new.len);
        let is = self.hash_upload(uuid, len).await?;
        if new.hash.is_some_and(|hash| hash != is) {
            self.abandon(id).await?;
            return Err(BlobError::WrongHash { is });
        }
        let (tenant, hash) = (new.tenant.to_string(), is.to_vec());
        let mut tx = self.tx().await?;
        // Two that finish it at once: the second one finds no upload any more.
        let name = step!(NAME, tenant, hash, len as i64, uuid, now.0 as i64);
        let locked = tx.query(step!(LOCK, uuid)).await?;
        if locked.is_empty() {
            tx.roll_back().await;
            return Err(BlobError::NotFound);
        }
        let known: bool = tx.query(name).await?.first().is_some_and(|row| row.get(0));
        let mut steps = vec![step!(NO_UPLOAD, uuid)];
        if known {
            steps.push(step!(NO_PIECES, uuid));
        }
        tx.commit(steps).await.map_err(super::tx::Failed::into_inner)?;
        Ok(BlobRef { hash: is, len })
    }

    async fn abandon(&self, id: UploadId) -> Result<(), BlobError> {
        let uuid = Uuid::from_u128(id.0);
        let sql = "with gone as (delete from windrow.uploads where id = $1 returning id) \
             delete from windrow.pieces p using gone where p.upload = gone.id";
        self.ask(step!(sql, uuid)).await.map(drop)
    }

    async fn find(&self, tenant: &str, hash: [u8; 32]) -> Result<Option<Stored>, BlobError> {
        let rows = self.ask(step!(FIND, tenant.to_owned(), hash.to_vec())).await?;
        rows.first().map(stored).transpose()
    }

    async fn touch(&self, tenant: &str, blob: BlobRef, now: Timestamp) -> Result<(), BlobError> {
        let (hash, len) = (blob.hash.to_vec(), blob.len as i64);
        let rows = self.ask(step!(TOUCH, tenant.to_owned(), hash, len, now.0 as i64)).await?;
        if rows.is_empty() { Err(BlobError::NotFound) } else { Ok(()) }
    }

    async fn read(
        &self,
        tenant: &str,
        blob: BlobRef,
        from: u64,
        len: usize,
    ) -> Result<Vec<u8>, BlobError> {
        let (tenant, hash, bytes) = (tenant.to_owned(), blob.hash.to_vec(), blob.len as i64);
        let len = (len as u64).min(blob.len.saturating_sub(from)) as usize;
        let (from, asked, piece) = (from as i64, len as i64, PIECE as i64);
        let rows = self.ask(step!(READ, tenant, hash, bytes, from, asked, piece)).await?;
        let pieces: Vec<&[u8]> = rows.iter().map(|row| row.get(0)).collect();
        let bytes = pieces.concat();
        if bytes.len() == len { Ok(bytes) } else { Err(BlobError::NotFound) }
    }

    async fn remove(&self, seen: &Stored) -> Result<bool, BlobError> {
        let (tenant, hash) = (seen.tenant.to_string(), seen.blob.hash.to_vec());
        let rows = self.ask(step!(REMOVE, tenant, hash, seen.since.0 as i64)).await?;
        Ok(rows.first().is_some_and(|row| row.get(0)))
    }

    async fn older(
        &self,
        than: Timestamp,
        after: Option<&Stored>,
    ) -> Result<Vec<Stored>, BlobError> {
        // No hash is empty, so that everything comes after this.
        let begin = || (String::new(), Vec::new());
        let after = after.map(|last| (last.tenant.to_string(), last.blob.hash.to_vec()));
        let (tenant, hash) = after.unwrap_or_else(begin);
        let rows = self.ask(step!(OLDER, than.0 as i64, tenant, hash, SOME)).await?;
        rows.iter().map(stored).collect()
    }

    async fn idle(&self, since: Timestamp) -> Result<Vec<UploadId>, BlobError> {
        let rows = self.ask(step!(IDLE, since.0 as i64, SOME)).await?;
        Ok(rows.iter().map(|row| UploadId(row.get::<_, Uuid>(0).as_u128())).collect())
    }
}

impl References for Postgres {
    async fn references(&self, tenant: &str, blob: BlobRef) -> Result<Option<u32>, StoreError> {
        let client = self.shared.pool.get().await?;
        let (hash, len) = (blob.hash.to_vec(), blob.len as i64);
        let rows = client.query(step!(REFERENCES, tenant.to_owned(), hash, len)).await?;
        Ok(rows.first().map(|row| row.get::<_, i32>(0) as u32))
    }

    async fn dropped(&self) -> Result<Vec<(Arc<str>, BlobRef)>, StoreError> {
        let client = self.shared.pool.get().await?;
        let rows = client.query(step!(DROPPED, SOME)).await?;
        let each = rows.iter().map(|row| {
            let hash: &[u8] = row.get(1);
            let hash = hash.try_into().map_err(|_| Error::Malformed)?;
            let len = row.get::<_, i64>(2) as u64;
            Ok((Arc::from(row.get::<_, &str>(0)), BlobRef { hash, len }))
        });
        each.collect()
    }
}

fn one_upload(rows: &[Row]) -> Result<Upload, BlobError> {
    let row = rows.first().ok_or(BlobError::NotFound)?;
    let hash = row.get::<_, Option<&[u8]>>(2).map(<[u8; 32]>::try_from).transpose();
    let hash = hash.map_err(|_| Error::Malformed)?;
    let new = NewUpload { tenant: row.get::<_, &str>(0).into(), len: unsigned(row, 1), hash };
    Ok(Upload { new, offset: unsigned(row, 3), since: Timestamp(unsigned(row, 4)) })
}

fn stored(row: &Row) -> Result<Stored, BlobError> {
    let hash = row.get::<_, &[u8]>(1).try_into().map_err(|_| Error::Malformed)?;
    let blob = BlobRef { hash, len: unsigned(row, 2) };
    let since = Timestamp(unsigned(row, 3));
    Ok(Stored { tenant: row.get::<_, &str>(0).into(), blob, since })
}

fn unsigned(row: &Row, at: usize) -> u64 {
    row.get::<_, i64>(at) as u64
}

impl From<Error> for BlobError {
    fn from(error: Error) -> BlobError {
        let full = [SqlState::DISK_FULL, SqlState::OUT_OF_MEMORY];
        match &error {
            Error::Database(said) if said.code().is_some_and(|code| full.contains(code)) => {
                BlobError::Full
            }
            _ => BlobError::Failed(error.to_string()),
        }
    }
}
