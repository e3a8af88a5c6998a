//! Files of documents, as files of this machine.
//!
//! What reads a file wants a path. The bytes are a blob of the queue, wherever the queue keeps
//! those; a copy is made when a file is first read and stays while it is used and there is room.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use rand::RngExt as _;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use windrow_core::item::BlobRef;
use windrow_pipelines::documents::Files;
use windrow_store::blobs::{Blobs as _, Hex, PIECE};

use crate::store::Queue;

/// The directory below the store's.
const DIRECTORY: &str = "cache";
/// What directories begin with that go with a process, and what says in one that it has not ended.
const APART: &str = "windrow-files-";
const LOCK: &str = "lock";
/// Bytes of copies that are kept.
const ROOM: u64 = 1 << 30;
/// What was used so shortly ago may be in use, and what was not for so long goes anyway: its
/// document may be gone.
const IN_USE: Duration = Duration::from_secs(600);
const UNUSED: Duration = Duration::from_secs(24 * 3_600);

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
    /// Held while a copy is made; has what says that the process has not ended.
    making: Mutex<Option<File>>,
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
        Copies { source, dir: dir.unwrap_or_else(apart), is_ours, making: Mutex::default() }
    }

    async fn copy(&self, tenant: &str, file: BlobRef) -> Result<PathBuf, String> {
        let (path, len) = (self.dir.join(name(tenant, file.hash)), file.len);
        let is_there = || {
            let path = path.clone();
            self.on_disk(move || Ok(is_whole(&path, len)))
        };
        if is_there().await? {
            return Ok(path);
        }
        let mut making = self.making.lock().await;
        if is_there().await? {
            return Ok(path);
        }
        let (dir, is_ours, held) = (self.dir.clone(), self.is_ours, making.take());
        // Another process may make the same one.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let (at, whole) = (part.clone(), path.clone());
        let begin = move || {
            let lock = opened(&dir, is_ours, held)?;
            make_room(&dir, len)?;
            Ok((lock, begun(&at)?))
        };
        let (lock, copy) = self.on_disk(begin).await?;
        *making = lock;
        if let Err(why) = self.fill(copy, tenant, file).await {
            // If it stays, the next one takes its place.
            let _removed = self.on_disk(move || std::fs::remove_file(part)).await;
            return Err(why);
        }
        // From here on it has its name, and all of it.
        self.on_disk(move || std::fs::rename(part, whole)).await?;
        Ok(path)
    }

    /// Writes the bytes of a blob.
    async fn fill(&self, mut copy: File, tenant: &str, file: BlobRef) -> Result<(), String> {
        let (mut at, mut hash) = (0, Sha256::new());
        while at < file.len {
            let piece = self.source.piece(tenant, file, at).await;
            let piece = piece.map_err(|error| format!("the file cannot be read: {error}"))?;
            if piece.is_empty() {
                return Err("the file ends too early".to_owned());
            }
            at += piece.len() as u64;
            hash.update(&piece);
            copy = self.on_disk(move || copy.write_all(&piece).map(|()| copy)).await?;
        }
        if at != file.len || <[u8; 32]>::from(hash.finalize()) != file.hash {
            return Err("the bytes that came are not those of the file".to_owned());
        }
        Ok(())
    }

    /// Does what may take a while on a thread that may wait.
    async fn on_disk<T: Send + 'static>(
        &self,
        what: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, String> {
        let done = spawn_blocking(what).await.map_err(|_| "it was given up".to_owned())?;
        done.map_err(|error| format!("{}: {error}", self.dir.display()))
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

/// Where copies are that go with the process. Nobody can know it before.
pub(super) fn apart() -> PathBuf {
    static APART_HERE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let random: [u8; 8] = rand::make_rng::<rand::rngs::StdRng>().random();
        let name = format!("{APART}{}-{}", std::process::id(), Hex(&random));
        std::env::temp_dir().join(name)
    };
    APART_HERE.get_or_init(make).clone()
}

/// The name of a copy: no tenant finds another's.
fn name(tenant: &str, hash: [u8; 32]) -> String {
    let of = Sha256::digest(tenant.as_bytes());
    format!("{}-{}", Hex(&of[..8]), Hex(&hash))
}

/// Makes the directory, if it is not there, and sees that it is nobody else's. One that goes with
/// the process is held by a lock, which is given back.
fn opened(dir: &Path, is_ours: bool, held: Option<File>) -> io::Result<Option<File>> {
    if !is_ours {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        return Ok(None);
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        // Whoever else made it could read what is in it, or lead out of it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && held.is_some() => {
            return if is_private(dir) { Ok(held) } else { Err(error) };
        }
        Err(error) => return Err(error),
    }
    let lock = begun(&dir.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    remove_stale(dir);
    Ok(Some(lock))
}

/// Whether a directory is ours alone.
fn is_private(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|about| {
        about.is_dir() && about.uid() == geteuid().as_raw() && about.mode() & 0o077 == 0
    })
}

/// Removes directories beside this one whose processes have ended without that: nobody holds their
/// lock. What cannot be removed stays.
fn remove_stale(own: &Path) {
    let Some(Ok(beside)) = own.parent().map(std::fs::read_dir) else { return };
    let is_apart = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        path != own && name.is_some_and(|name| name.starts_with(APART)) && is_private(path)
    };
    for dir in beside.flatten().map(|entry| entry.path()).filter(is_apart) {
        let Ok(lock) = File::open(dir.join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _removed = std::fs::remove_dir_all(&dir);
        }
    }
}

/// A new file for us alone, in the place of one that was not finished.
fn begun(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path),
    }
}

/// Whether a copy is there. It counts as used now.
fn is_whole(path: &Path, len: u64) -> bool {
    let Ok(found) = File::open(path) else { return false };
    let is_whole = found.metadata().is_ok_and(|about| about.len() == len);
    // A copy that looks old may go too early, and is made again then.
    let _used = found.set_modified(SystemTime::now());
    is_whole
}

/// Removes copies that nobody has used for long, and further ones that nobody has for a while, the
/// oldest first, until there is room.
fn make_room(dir: &Path, wanted: u64) -> io::Result<()> {
    let mut copies = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(about) = entry.metadata() else { continue };
        if entry.file_name() != LOCK {
            copies.push((about.modified()?, about.len(), entry.path()));
        }
    }
    let mut held: u64 = copies.iter().map(|(_, len, _)| len).sum();
    copies.sort_unstable();
    for (used, len, path) in copies {
        let unused = used.elapsed().unwrap_or_default();
        if unused < UNUSED && (held + wanted <= ROOM || unused < IN_USE) {
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

    use windrow_store::blobs::put;

    use super::*;
    use crate::cli::place::Place;
    use crate::store::Open;

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
        let left = std::fs::read_dir(&copies.dir).unwrap().flatten();
        assert_eq!(left.filter(|entry| entry.file_name() != LOCK).count(), 0, "nothing is left");
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
            let file = File::create(dir.join(name)).unwrap();
            file.set_len(ROOM / 2).unwrap();
            file.set_modified(used).unwrap();
        }
        make_room(&dir, 0).unwrap();
        assert!(is_whole(&dir.join("new"), ROOM / 2) && dir.join("old").exists());
        make_room(&dir, 1).unwrap();
        assert!(dir.join("new").exists() && !dir.join("old").exists());
        make_room(&dir, ROOM).unwrap();
        assert!(dir.join("new").exists(), "somebody may read it");
        let ages = File::create(dir.join("ages")).unwrap();
        ages.set_modified(SystemTime::now() - 2 * UNUSED).unwrap();
        make_room(&dir, 0).unwrap();
        assert!(!dir.join("ages").exists(), "its document may be gone");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// A place for directories that go with processes.
    fn place(test: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("windrow-{test}-{}", std::process::id()));
        let _left = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        place
    }

    #[test]
    fn what_goes_with_a_process_is_its_own_and_what_a_dead_one_left_goes() {
        let place = place("apart");
        let (dead, other) =
            (place.join("windrow-files-1-dead"), place.join("windrow-files-2-live"));
        drop(opened(&dead, true, None).unwrap());
        let live = opened(&other, true, None).unwrap();
        assert!(!dead.exists(), "nobody holds it any more");
        let ours = place.join("windrow-files-3-ours");
        let lock = opened(&ours, true, None).unwrap();
        assert!(lock.is_some() && other.exists(), "somebody holds it");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        let copy = ours.join("copy");
        begun(&copy).unwrap();
        assert_eq!((mode(&ours), mode(&copy)), (0o700, 0o600));
        let again = opened(&ours, true, lock).unwrap();
        assert!(again.is_some(), "it is ours still");
        drop(live);
        std::fs::remove_dir_all(&place).unwrap();
    }

    /// Whoever guessed its name could read what was copied, or say where it goes.
    #[test]
    fn a_directory_that_somebody_else_made_is_refused() {
        let place = place("guessed");
        let (dir, elsewhere) = (place.join("windrow-files-4-guessed"), place.join("elsewhere"));
        std::fs::create_dir(&dir).unwrap();
        let refused = opened(&dir, true, None).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        std::fs::remove_dir(&dir).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
        assert!(opened(&dir, true, None).is_err());
        assert_ne!(apart(), place, "and nobody guesses");
        assert_eq!(apart(), apart());
        std::fs::remove_dir_all(&place).unwrap();
    }

    /// It was found by its hash alone, by whomever.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_tenant_does_not_get_the_copy_of_another() {
        let place = place("tenants");
        let open = Open::at(Place::Directory(place.join("store"))).await.unwrap();
        let (store, now) = (open.queue.store(), windrow_core::Timestamp(1));
        let blob = put(store, &"one".into(), b"what one knows", now).await.unwrap();
        let copies = Copies::of_store(Arc::clone(&open.queue), Some(&place));
        let path = copies.copy("one", blob).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"what one knows");
        assert_eq!(copies.copy("one", blob).await, Ok(path));
        let other = copies.copy("other", blob).await.unwrap_err();
        assert!(other.contains("cannot be read"), "{other}");
        let left = std::fs::read_dir(place.join(DIRECTORY)).unwrap().count();
        assert_eq!(left, 1, "what was not made is not left behind");
        drop((copies, open));
        std::fs::remove_dir_all(&place).unwrap();
    }
}
