//! Blobs as files, in a directory of their own beside the log.
//!
//! A file begins with a header of one sector and goes on with the bytes. While it is uploaded it
//! is called `ID.part`, afterwards by its tenant and hash. The header says how many bytes
//! are durable: it is written after they were synced, and what lies behind is not believed. Every
//! change of a header lies within one sector, which arrives whole or not at all.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use windrow_core::Timestamp;
use windrow_core::item::BlobRef;
use windrow_core::ports::StoreError;

use super::Embedded;
use super::disk::{Disk, DiskFile};
use crate::blobs::{BlobError, Blobs, Hex, NewUpload, PIECE, References, Stored, Upload, UploadId};

/// The directory, below that of the store.
pub const DIRECTORY: &str = "blobs";

const HEADER: usize = 512;
const MAGIC: &[u8; 8] = b"windblob";
const PART: &str = ".part";
const WHOLE: &str = ".blob";

/// Blobs in a directory.
#[derive(Debug)]
pub struct Files {
    disk: Arc<dyn Disk>,
    /// Uploads that somebody goes on with right now.
    busy: Mutex<HashSet<UploadId>>,
    /// Held while a whole file is named, touched or removed. Counts those for whom none is removed.
    naming: Mutex<u32>,
}

/// What stands at the beginning of a file.
struct Header(Upload);

impl Header {
    fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        let Upload { new, offset, since } = &self.0;
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&new.len.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        bytes.extend_from_slice(&since.0.to_le_bytes());
        bytes.push(u8::from(new.hash.is_some()));
        bytes.extend_from_slice(&new.hash.unwrap_or_default());
        bytes.extend_from_slice(&(new.tenant.len() as u16).to_le_bytes());
        bytes.extend_from_slice(new.tenant.as_bytes());
        bytes.resize(HEADER - 4, 0);
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        file.write_at(&bytes, 0)?;
        file.sync()
    }

    /// The header, if there is a whole one.
    fn read(file: &dyn DiskFile) -> io::Result<Option<Header>> {
        let mut bytes = [0; HEADER];
        match file.read_at(&mut bytes, 0) {
            Ok(()) => Ok(Header::parse(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(bytes: &[u8; HEADER]) -> Option<Header> {
        let (text, sum) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(text) != u32::from_le_bytes(*sum) {
            return None;
        }
        let text = text.strip_prefix(MAGIC)?;
        let (len, text) = text.split_first_chunk()?;
        let (offset, text) = text.split_first_chunk()?;
        let (since, text) = text.split_first_chunk()?;
        let (has_hash, text) = text.split_first()?;
        let (hash, text) = text.split_first_chunk()?;
        let (tenant_len, text) = text.split_first_chunk()?;
        let tenant = text.get(..usize::from(u16::from_le_bytes(*tenant_len)))?;
        let tenant = std::str::from_utf8(tenant).ok()?.into();
        let hash = (*has_hash == 1).then_some(*hash);
        let new = NewUpload { tenant, len: u64::from_le_bytes(*len), hash };
        let (offset, since) = (u64::from_le_bytes(*offset), u64::from_le_bytes(*since));
        Some(Header(Upload { new, offset, since: Timestamp(since) }))
    }
}

impl Files {
    /// The blobs on a disk of their own.
    pub fn on(disk: Arc<dyn Disk>) -> Files {
        Files { disk, busy: Mutex::default(), naming: Mutex::default() }
    }

    fn open(&self, name: &str) -> Result<(Box<dyn DiskFile>, Upload), BlobError> {
        let file = self.disk.open(name).map_err(failed)?;
        match Header::read(&*file).map_err(failed)? {
            Some(Header(upload)) => Ok((file, upload)),
            // The upload was being made when the process or the machine died.
            None if name.ends_with(PART) => Err(BlobError::NotFound),
            None => Err(BlobError::Failed(format!("{name}: its header is damaged"))),
        }
    }

    fn begin_now(&self, new: NewUpload, now: Timestamp) -> Result<UploadId, BlobError> {
        let id = UploadId::random();
        // Without a header it would be taken for one whose maker died.
        let _alone = self.alone(id)?;
        let name = part(id);
        let file = self.disk.create(&name).map_err(failed)?;
        let header = Header(Upload { new, offset: 0, since: now });
        let begun = header.write(&*file).and_then(|()| self.disk.sync_dir());
        begun.map_err(|error| self.give_up(&name, error))?;
        Ok(id)
    }

    /// Throws a file away after something went wrong with it.
    fn give_up(&self, name: &str, error: io::Error) -> BlobError {
        // If it stays, it is found after a day.
        let _gone = self.disk.remove(name);
        failed(error)
    }

    fn append_now(
        &self,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<u64, BlobError> {
        let _alone = self.alone(id)?;
        let name = part(id);
        let (file, mut upload) = self.open(&name)?;
        if offset != upload.offset {
            return Err(BlobError::WrongOffset { offset: upload.offset });
        }
        let end = offset + bytes.len() as u64;
        if end > upload.new.len {
            return Err(BlobError::TooLong { len: upload.new.len });
        }
        if let Err(error) = file.write_at(bytes, HEADER as u64 + offset) {
            // What arrived of it gives its room back; it would be written over anyway.
            let _smaller = file.set_len(HEADER as u64 + offset);
            return Err(failed(error));
        }
        // After a sync that failed nobody knows what is there.
        file.sync().map_err(|error| self.give_up(&name, error))?;
        (upload.offset, upload.since) = (end, now.max(upload.since));
        Header(upload).write(&*file).map_err(|error| self.give_up(&name, error))?;
        Ok(end)
    }

    fn finish_now(&self, id: UploadId, now: Timestamp) -> Result<BlobRef, BlobError> {
        let _alone = self.alone(id)?;
        let name = part(id);
        let (file, mut upload) = self.open(&name)?;
        let len = upload.new.len;
        if upload.offset != len {
            return Err(BlobError::Incomplete { missing: len - upload.offset });
        }
        let is = hashed(&*file, len).map_err(failed)?;
        if upload.new.hash.is_some_and(|hash| hash != is) {
            self.disk.remove(&name).map_err(failed)?;
            return Err(BlobError::WrongHash { is });
        }
        let blob = BlobRef { hash: is, len };
        let to = whole(&upload.new.tenant, is);
        let _naming = self.naming.lock();
        match self.touch_named(&to, now) {
            Ok(()) => {
                self.disk.remove(&name).map_err(failed)?;
                return Ok(blob);
            }
            Err(BlobError::NotFound) => {}
            Err(error) => return Err(error),
        }
        (upload.new.hash, upload.since) = (Some(is), now.max(upload.since));
        Header(upload).write(&*file).map_err(|error| self.give_up(&name, error))?;
        self.disk.rename(&name, &to).map_err(failed)?;
        self.disk.sync_dir().map_err(failed)?;
        Ok(blob)
    }

    /// Lets every whole file stay until what this gives is dropped.
    pub(super) fn hold(self: &Arc<Files>) -> HeldBlobs {
        *self.naming.lock() += 1;
        HeldBlobs(Arc::clone(self))
    }

    fn touch_named(&self, name: &str, now: Timestamp) -> Result<(), BlobError> {
        let (file, mut upload) = self.open(name)?;
        upload.since = now.max(upload.since.plus(1));
        Header(upload).write(&*file).map_err(failed)?;
        // It may have been renamed a moment before the power went.
        self.disk.sync_dir().map_err(failed)
    }

    fn find_now(&self, tenant: &str, hash: [u8; 32]) -> Result<Option<Stored>, BlobError> {
        self.stored(&whole(tenant, hash))
    }

    /// What is in a file; nothing if it went meanwhile, or is no blob.
    fn stored(&self, name: &str) -> Result<Option<Stored>, BlobError> {
        if !name.ends_with(WHOLE) {
            return Ok(None);
        }
        match self.open(name) {
            Ok((_, Upload { new, since, .. })) => {
                let blob = BlobRef { hash: new.hash.unwrap_or_default(), len: new.len };
                Ok(Some(Stored { tenant: new.tenant, blob, since }))
            }
            Err(BlobError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove_now(&self, seen: &Stored) -> Result<bool, BlobError> {
        let name = whole(&seen.tenant, seen.blob.hash);
        let holders = self.naming.lock();
        if *holders > 0 {
            // It is garbage then, which is found after a day.
            return Ok(false);
        }
        match self.stored(&name)? {
            Some(now) if now == *seen => {
                self.disk.remove(&name).map_err(failed)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn read_now(
        &self,
        tenant: &str,
        blob: BlobRef,
        from: u64,
        len: usize,
    ) -> Result<Vec<u8>, BlobError> {
        let file = self.disk.open(&whole(tenant, blob.hash)).map_err(failed)?;
        let len = (len as u64).min(blob.len.saturating_sub(from)) as usize;
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, HEADER as u64 + from).map_err(failed)?;
        Ok(bytes)
    }

    fn idle_now(&self, since: Timestamp) -> Result<Vec<UploadId>, BlobError> {
        let mut idle = Vec::new();
        for name in self.disk.list().map_err(failed)? {
            let Some(Ok(id)) = name.strip_suffix(PART).map(str::parse) else { continue };
            // Whoever is at it may be writing its header.
            let Ok(_alone) = self.alone(id) else { continue };
            match self.open(&name) {
                Ok((_, upload)) if upload.since >= since => {}
                // One without a header was never answered for.
                Ok(_) | Err(BlobError::NotFound) => idle.push(id),
                Err(error) => return Err(error),
            }
        }
        Ok(idle)
    }

    fn alone(&self, id: UploadId) -> Result<Alone<'_>, BlobError> {
        let is_first = self.busy.lock().insert(id);
        if is_first { Ok(Alone(self, id)) } else { Err(BlobError::Busy) }
    }
}

/// Blobs of which none goes meanwhile.
#[derive(Debug)]
pub(super) struct HeldBlobs(Arc<Files>);

impl HeldBlobs {
    /// The names and lengths of the files.
    pub(super) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut names = self.0.disk.list()?;
        names.retain(|name| name.ends_with(WHOLE));
        let with_length = |name: String| Ok((self.0.disk.open(&name)?.len()?, name));
        names.into_iter().map(with_length).map(|file| file.map(|(len, name)| (name, len))).collect()
    }

    pub(super) fn read(&self, name: &str, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        // Headers are written anew when a blob is stored again.
        let naming = (offset < HEADER as u64).then(|| self.0.naming.lock());
        let read = self.0.disk.open(name)?.read_at(bytes, offset);
        drop(naming);
        read
    }
}

impl Drop for HeldBlobs {
    fn drop(&mut self) {
        *self.0.naming.lock() -= 1;
    }
}

/// Nobody else goes on with an upload meanwhile.
struct Alone<'a>(&'a Files, UploadId);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.busy.lock().remove(&self.1);
    }
}

fn part(id: UploadId) -> String {
    format!("{id}{PART}")
}

/// The name of whole bytes. A tenant may have any name, a file not.
fn whole(tenant: &str, hash: [u8; 32]) -> String {
    let of = Sha256::digest(tenant.as_bytes());
    format!("{}-{}{WHOLE}", Hex(&of[..8]), Hex(&hash))
}

fn hashed(file: &dyn DiskFile, len: u64) -> io::Result<[u8; 32]> {
    let (mut sum, mut bytes, mut at) = (Sha256::new(), vec![0; PIECE], 0);
    while at < len {
        let some = (len - at).min(PIECE as u64) as usize;
        file.read_at(&mut bytes[..some], HEADER as u64 + at)?;
        sum.update(&bytes[..some]);
        at += some as u64;
    }
    Ok(sum.finalize().into())
}

fn failed(error: io::Error) -> BlobError {
    match error.kind() {
        io::ErrorKind::NotFound => BlobError::NotFound,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full,
        _ => BlobError::Failed(error.to_string()),
    }
}

impl Blobs for Files {
    async fn begin(&self, new: NewUpload, now: Timestamp) -> Result<UploadId, BlobError> {
        self.begin_now(new, now)
    }

    async fn upload(&self, id: UploadId) -> Result<Upload, BlobError> {
        self.open(&part(id)).map(|(_, upload)| upload)
    }

    async fn append(
        &self,
        id: UploadId,
        offset: u64,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<u64, BlobError> {
        self.append_now(id, offset, bytes, now)
    }

    async fn finish(&self, id: UploadId, now: Timestamp) -> Result<BlobRef, BlobError> {
        self.finish_now(id, now)
    }

    async fn abandon(&self, id: UploadId) -> Result<(), BlobError> {
        let _alone = self.alone(id)?;
        match self.disk.remove(&part(id)).map_err(failed) {
            Ok(()) | Err(BlobError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn find(&self, tenant: &str, hash: [u8; 32]) -> Result<Option<Stored>, BlobError> {
        self.find_now(tenant, hash)
    }

    async fn touch(&self, tenant: &str, blob: BlobRef, now: Timestamp) -> Result<(), BlobError> {
        let _naming = self.naming.lock();
        self.touch_named(&whole(tenant, blob.hash), now)
    }

    async fn read(
        &self,
        tenant: &str,
        blob: BlobRef,
        from: u64,
        len: usize,
    ) -> Result<Vec<u8>, BlobError> {
        self.read_now(tenant, blob, from, len)
    }

    async fn remove(&self, seen: &Stored) -> Result<bool, BlobError> {
        self.remove_now(seen)
    }

    async fn older(
        &self,
        than: Timestamp,
        after: Option<&Stored>,
    ) -> Result<Vec<Stored>, BlobError> {
        let mut older = Vec::new();
        // All of it was given.
        if after.is_some() {
            return Ok(older);
        }
        for name in self.disk.list().map_err(failed)? {
            older.extend(self.stored(&name)?.filter(|stored| stored.since < than));
        }
        Ok(older)
    }

    async fn idle(&self, since: Timestamp) -> Result<Vec<UploadId>, BlobError> {
        self.idle_now(since)
    }
}

impl References for Embedded {
    async fn references(&self, tenant: &str, blob: BlobRef) -> Result<Option<u32>, StoreError> {
        use windrow_core::ledger::Ledger as _;
        self.look(|tables| Ok(tables.blob(tenant, &blob))).await
    }

    async fn dropped(&self) -> Result<Vec<(Arc<str>, BlobRef)>, StoreError> {
        let mut tables = self.shared.tables.lock();
        let dropped = std::mem::take(&mut tables.dropped);
        let names = self.shared.names.read();
        Ok(dropped.into_iter().map(|(no, blob)| (Arc::clone(names.text(no)), blob)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::disk::RealDisk;

    /// A server that was just started took an upload that was being made for one whose maker died.
    #[test]
    fn an_upload_that_somebody_is_at_is_not_idle() {
        let dir = std::env::temp_dir().join(format!("windrow-uploads-{}", std::process::id()));
        let files = Files::on(Arc::new(RealDisk::open(&dir).unwrap()));
        let id = UploadId::random();
        let alone = files.alone(id).unwrap();
        files.disk.create(&part(id)).unwrap();
        assert_eq!(files.idle_now(Timestamp::NEVER), Ok(Vec::new()));
        drop(alone);
        assert_eq!(files.idle_now(Timestamp::ZERO), Ok(vec![id]), "it has no header");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
