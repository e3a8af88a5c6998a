//! Files of documents, as files of this machine.
//!
//! What reads a file wants a path. The bytes are a blob of the queue, wherever the queue keeps
//! those; a copy is made when a file is first read and stays while it is used and there is room.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use windrow_core::item::BlobRef;
use windrow_pipelines::documents::Files;
use windrow_store::blobs::{Blobs as _, Hex, PIECE};

use crate::store::Queue;

/// The directory below the store's.
const DIRECTORY: &str = "cache";
/// Bytes of copies that are kept.
const ROOM: u64 = 1 << 30;
/// What was used so shortly ago may be in use.
const IN_USE: Duration = Duration::from_secs(600);

/// Where the bytes of blobs come from.
pub(crate) trait Source: fmt::Debug + Send + Sync {
    /// The next bytes of a blob from one of them on, as many as come at once.
    fn piece<'a>(
        &'a self,
        tenant: &'a str,
        file: BlobRef,
        at: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>>;
}

/// Copies of blobs.
#[derive(Debug)]
pub(crate) struct Copies {
    source: Arc<dyn Source>,
    dir: PathBuf,
    /// Whether it goes with the process.
    is_ours: bool,
    /// Held while a copy is made.
    making: Mutex<()>,
}

impl Copies {
    /// Copies of a store's blobs below its directory, or where the system keeps what goes with a
    /// process.
    pub(super) fn of_store(queue: Arc<Queue>, beside: Option<&Path>) -> Copies {
        let dir = beside.map(|beside| beside.join(DIRECTORY));
        Copies::new(Arc::new(Stored(queue)), dir)
    }

    /// Copies in a directory, or where the system keeps what goes with a process.
    pub(crate) fn new(source: Arc<dyn Source>, dir: Option<PathBuf>) -> Copies {
        let is_ours = dir.is_none();
        Copies { source, dir: dir.unwrap_or_else(apart), is_ours, making: Mutex::new(()) }
    }

    async fn copy(&self, tenant: &str, file: BlobRef) -> Result<PathBuf, String> {
        let path = self.dir.join(Hex(&file.hash).to_string());
        if is_whole(&path, file.len) {
            return Ok(path);
        }
        let _alone = self.making.lock().await;
        if is_whole(&path, file.len) {
            return Ok(path);
        }
        let said = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).map_err(said)?;
        make_room(&self.dir, file.len).map_err(said)?;
        // Another process may make the same one.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let mut copy = std::fs::File::create(&part).map_err(said)?;
        let (mut at, mut hash) = (0, Sha256::new());
        while at < file.len {
            let piece = self.source.piece(tenant, file, at).await;
            let piece = piece.map_err(|error| format!("the file cannot be read: {error}"))?;
            if piece.is_empty() {
                return Err("the file ends too early".to_owned());
            }
            at += piece.len() as u64;
            hash.update(&piece);
            copy.write_all(&piece).map_err(said)?;
        }
        if at != file.len || <[u8; 32]>::from(hash.finalize()) != file.hash {
            let _removed = std::fs::remove_file(&part);
            return Err("the bytes that came are not those of the file".to_owned());
        }
        // From here on it has its name, and all of it.
        std::fs::rename(&part, &path).map_err(said)?;
        Ok(path)
    }
}

/// Blobs of a store.
#[derive(Debug)]
struct Stored(Arc<Queue>);

impl Source for Stored {
    fn piece<'a>(
        &'a self,
        tenant: &'a str,
        file: BlobRef,
        at: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
        Box::pin(async move {
            let piece = self.0.store().read(tenant, file, at, PIECE).await;
            piece.map_err(|error| error.to_string())
        })
    }
}

/// Where copies are that go with the process.
pub(super) fn apart() -> PathBuf {
    std::env::temp_dir().join(format!("windrow-files-{}", std::process::id()))
}

/// Whether a copy is there. It counts as used now.
fn is_whole(path: &Path, len: u64) -> bool {
    let Ok(found) = std::fs::File::open(path) else { return false };
    let is_whole = found.metadata().is_ok_and(|about| about.len() == len);
    // A copy that looks old may go too early, and is made again then.
    let _used = found.set_modified(SystemTime::now());
    is_whole
}

/// Removes copies that nobody has used for a while, the oldest first, until there is room.
fn make_room(dir: &Path, wanted: u64) -> std::io::Result<()> {
    let mut copies = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(about) = entry.metadata() else { continue };
        copies.push((about.modified()?, about.len(), entry.path()));
    }
    let mut held: u64 = copies.iter().map(|(_, len, _)| len).sum();
    copies.sort_unstable();
    for (used, len, path) in copies {
        let is_in_use = used.elapsed().is_ok_and(|since| since < IN_USE);
        if held + wanted <= ROOM || is_in_use {
            break;
        }
        match std::fs::remove_file(path) {
            // Another process made room too.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => held -= len,
        }
    }
    Ok(())
}

impl Files for Copies {
    fn open<'a>(
        &'a self,
        tenant: &'a str,
        file: BlobRef,
    ) -> BoxFuture<'a, Result<PathBuf, String>> {
        Box::pin(self.copy(tenant, file))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        if self.is_ours {
            let _removed = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;

    /// Gives out what it was made with, whatever it is asked for.
    #[derive(Debug)]
    struct Given(&'static [u8]);

    impl Source for Given {
        fn piece<'a>(
            &'a self,
            _: &'a str,
            _: BlobRef,
            at: u64,
        ) -> BoxFuture<'a, Result<Vec<u8>, String>> {
            let rest = &self.0[at as usize..];
            Box::pin(std::future::ready(Ok(rest[..rest.len().min(3)].to_vec())))
        }
    }

    #[tokio::test]
    async fn bytes_that_are_not_those_of_the_file_are_not_kept() {
        let file = BlobRef { hash: Sha256::digest(b"some words").into(), len: 10 };
        let copies = Copies::new(Arc::new(Given(b"some wards")), None);
        let refused = copies.copy("t", file).await.unwrap_err();
        assert!(refused.contains("not those of the file"), "{refused}");
        assert_eq!(std::fs::read_dir(&copies.dir).unwrap().count(), 0, "nothing is left");
        let dir = std::env::temp_dir().join(format!("windrow-copied-{}", std::process::id()));
        let copies = Copies::new(Arc::new(Given(b"some words")), Some(dir.clone()));
        let path = copies.copy("t", file).await.unwrap();
        assert_eq!(std::fs::read(path).unwrap(), b"some words");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_was_not_used_for_long_makes_room_and_what_is_in_use_stays() {
        let dir = std::env::temp_dir().join(format!("windrow-room-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let long_ago = SystemTime::now() - 2 * IN_USE;
        for (name, used) in [("old", long_ago), ("new", SystemTime::now())] {
            let file = std::fs::File::create(dir.join(name)).unwrap();
            file.set_len(ROOM / 2).unwrap();
            file.set_modified(used).unwrap();
        }
        make_room(&dir, 0).unwrap();
        assert!(is_whole(&dir.join("new"), ROOM / 2) && dir.join("old").exists());
        make_room(&dir, 1).unwrap();
        assert!(dir.join("new").exists() && !dir.join("old").exists());
        make_room(&dir, ROOM).unwrap();
        assert!(dir.join("new").exists(), "somebody may read it");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
