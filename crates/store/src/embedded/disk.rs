//! The disk as the embedded store sees it: one flat directory of files.
//!
//! Decides nothing. Writes what it is told, and says when it is durable: a file's bytes after
//! [`DiskFile::sync`], a file's name (create, rename, remove) after [`Disk::sync_dir`], and neither
//! one through the other. Leaves out buffering, retries and any knowledge of what the files hold.
//!
//! There are three implementations: [`RealDisk`] over a directory, `Overlay` over another disk, to
//! look at it without changing it, and `SimDisk` of the testkit, which forgets what was not synced,
//! tears, fills up, fails and lies from a seed.

use std::fmt;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windrow_core::vitals::DiskSpace;

/// The file that carries the single-instance lock. It is never removed: removing it would let two
/// processes lock two files of that name.
pub const LOCK_FILE: &str = "LOCK";

const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// One data directory. Names are plain file names, without a separator.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Makes an empty file; fails with `AlreadyExists` when the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file to read and write; fails with `NotFound` when there is none.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// The names of all files, sorted.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Renames, atomically replacing what had the new name. Open handles follow the file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name. Open handles keep the file readable until they are dropped.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes every create, rename and remove before this call durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// How much room there is, if that can be told.
    fn space(&self) -> Option<DiskSpace> {
        None
    }

    /// Whether the directory is where it was when it was opened. One that somebody removes while it
    /// is in use takes everything that is written, and nobody will ever find it.
    fn is_there(&self) -> bool {
        true
    }

    /// Takes the single-instance lock, which is held until the guard is dropped.
    fn lock(&self) -> Result<DiskLock, LockError>;
}

/// One open file. All methods take `&self`, so that a reader never waits for a writer.
pub trait DiskFile: fmt::Debug + Send + Sync {
    /// Fills `bytes` from `offset`; fails with `UnexpectedEof` when the file ends before.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, growing the file if it must.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes every write before this call durable, with the length needed to read it back.
    fn sync(&self) -> io::Result<()>;

    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file holds nothing.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or grows it by a hole that owns no blocks.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
}

/// The held single-instance lock; dropping it releases the directory.
pub struct DiskLock {
    _held: Box<dyn Send + Sync>,
}

impl DiskLock {
    /// Wraps whatever releases the lock when dropped.
    pub fn new(held: impl Send + Sync + 'static) -> DiskLock {
        DiskLock { _held: Box::new(held) }
    }
}

impl fmt::Debug for DiskLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskLock")
    }
}

/// Why the single-instance lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it. `by` is what the holder wrote about itself, such as `pid 4711`.
    #[error("the data directory is in use by {by}")]
    Held { by: String },
    /// The lock file could not be opened, locked or written.
    #[error("the data directory could not be locked: {0}")]
    Io(#[from] io::Error),
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
    /// The directory itself, kept open because a directory is synced through a handle.
    dir: File,
    /// Whether files are opened to be written.
    writes: bool,
    patience: Patience,
    /// The lock, if it was taken for as long as this is there.
    held: Option<Arc<DiskLock>>,
}

/// How long somebody waits for a directory that another process has.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub longest: Duration,
    /// Whether the holder of a directory, by what it wrote about itself, will not let go of it
    /// soon. Nobody waits for that one.
    pub stays: fn(&Path, &str) -> bool,
}

impl Patience {
    /// Does not wait.
    pub const NONE: Patience = Patience { longest: Duration::ZERO, stays: |_, _| true };
}

/// How often a lock is tried that somebody else has.
const LOCK_EVERY: Duration = Duration::from_millis(10);

impl RealDisk {
    /// Opens the directory, making it (and missing parents) durably and for its owner alone.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let path = path.into();
        make_dir(&path)?;
        let dir = File::open(&path)?;
        Ok(RealDisk { path, dir, writes: true, patience: Patience::NONE, held: None })
    }

    /// Opens a directory that exists, to read and nothing else: not even the lock is written, and
    /// where there is none, nobody has opened a store there and none is taken. An [`Overlay`] over
    /// this is what a store can be opened on.
    ///
    /// [`Overlay`]: super::overlay::Overlay
    pub fn open_to_read(path: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let path = path.into();
        let dir = File::open(&path)?;
        Ok(RealDisk { path, dir, writes: false, patience: Patience::NONE, held: None })
    }

    /// The same, which waits so long for its lock.
    #[must_use]
    pub fn patient(self, patience: Patience) -> RealDisk {
        RealDisk { patience, ..self }
    }

    /// Takes the lock for as long as this is there. Who locks through this has it then: for one who
    /// opens what is here again and again, one after the other, and lets nobody in between.
    pub fn hold(self) -> Result<RealDisk, LockError> {
        let lock = self.lock()?;
        Ok(RealDisk { held: Some(Arc::new(lock)), ..self })
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str, options: &mut OpenOptions) -> io::Result<File> {
        debug_assert!(!name.contains('/'), "{name}: the data directory is flat");
        options.read(true).write(self.writes).mode(FILE_MODE).open(self.path.join(name))
    }

    fn must_write(&self) -> io::Result<()> {
        if self.writes { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }

    /// The lock of a reader: it keeps writers away, and no other reader.
    fn lock_to_read(&self) -> Result<DiskLock, LockError> {
        match self.file(LOCK_FILE, &mut OpenOptions::new()) {
            Ok(file) => self.locked(file.try_lock_shared()).map(|()| DiskLock::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DiskLock::new(())),
            Err(error) => Err(LockError::Io(error)),
        }
    }

    fn try_lock(&self) -> Result<DiskLock, LockError> {
        if !self.writes {
            return self.lock_to_read();
        }
        loop {
            let file = self.file(LOCK_FILE, OpenOptions::new().create(true).truncate(false))?;
            self.locked(file.try_lock())?;
            // Whoever gives up a directory removes all of it. Then this is the lock of nothing.
            let found = std::fs::metadata(self.path.join(LOCK_FILE));
            if !found.is_ok_and(|found| file.metadata().is_ok_and(|ours| is_same(&found, &ours))) {
                continue;
            }
            file.set_len(0)?;
            file.write_all_at(format!("pid {}\n", std::process::id()).as_bytes(), 0)?;
            return Ok(DiskLock::new(file));
        }
    }

    fn locked(&self, tried: Result<(), TryLockError>) -> Result<(), LockError> {
        match tried {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let by = std::fs::read_to_string(self.path.join(LOCK_FILE)).unwrap_or_default();
                let by = by.trim();
                let by = if by.is_empty() { "another process" } else { by };
                Err(LockError::Held { by: by.to_owned() })
            }
            Err(TryLockError::Error(error)) => Err(LockError::Io(error)),
        }
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.must_write()?;
        Ok(Box::new(RealFile(self.file(name, OpenOptions::new().create_new(true))?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(self.file(name, &mut OpenOptions::new())?)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.path.read_dir()? {
            let entry = entry?;
            // A name that is not UTF-8 is none of ours, and neither is a directory.
            if let (true, Ok(name)) =
                (entry.file_type()?.is_file(), entry.file_name().into_string())
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.must_write()?;
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.must_write()?;
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }

    fn space(&self) -> Option<DiskSpace> {
        let told = rustix::fs::fstatvfs(&self.dir).ok()?;
        // What is kept for the superuser is not room for us.
        let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
        Some(DiskSpace { free_bytes: bytes(told.f_bavail), total_bytes: bytes(told.f_blocks) })
    }

    fn is_there(&self) -> bool {
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let is_ours = match (std::fs::metadata(&self.path), self.dir.metadata()) {
            (Ok(found), Ok(ours)) => is_same(&found, &ours),
            (Err(error), _) => !is_gone(&error),
            (_, Err(_)) => true,
        };
        let lock = std::fs::metadata(self.path.join(LOCK_FILE));
        is_ours && !lock.is_err_and(|error| is_gone(&error))
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        if let Some(held) = &self.held {
            return Ok(DiskLock::new(Arc::clone(held)));
        }
        let Patience { longest, stays } = self.patience;
        let mut left = longest;
        loop {
            match self.try_lock() {
                Err(LockError::Held { by }) if !left.is_zero() && !stays(&self.path, &by) => {
                    left = left.saturating_sub(LOCK_EVERY);
                    std::thread::sleep(LOCK_EVERY);
                }
                tried => return tried,
            }
        }
    }
}

/// Whether two files are one.
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Creates `path` and syncs every directory that got a new entry on the way.
fn make_dir(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|at| !at.exists()).collect();
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
    for made in missing.iter().filter(|made| !made.as_os_str().is_empty()) {
        let parent = made.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    /// Not by the C library, where a read is a place at which a thread may be cancelled: arranging
    /// for that takes a tenth of a short read.
    fn read_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::pread(&self.0, &mut *bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    bytes = &mut bytes[read..];
                    offset += read as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A directory of its own for each test, removed when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("windrow-disk-{}-{number}", std::process::id());
            Scratch(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn directories_and_files_are_for_their_owner_alone() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(scratch.0.join("deep/data")).unwrap();
        disk.create("a").unwrap();
        assert_eq!(mode(disk.path()), 0o700);
        assert_eq!(mode(&disk.path().join("a")), 0o600);
    }

    #[test]
    fn a_file_is_read_back_and_a_read_past_its_end_fails() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        let file = disk.create("a").unwrap();
        file.write_at(b"windrow", 3).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        let mut bytes = [0; 7];
        disk.open("a").unwrap().read_at(&mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"windrow");
        let error = file.read_at(&mut bytes, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(file.len().unwrap(), 10);
        file.set_len(0).unwrap();
        assert!(file.is_empty().unwrap());
    }

    #[test]
    fn create_refuses_a_taken_name_and_rename_replaces_it() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        disk.create("a").unwrap().write_at(b"new", 0).unwrap();
        disk.create("b").unwrap();
        let error = disk.create("b").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        disk.rename("a", "b").unwrap();
        assert_eq!(disk.list().unwrap(), ["b"]);
        assert_eq!(disk.open("b").unwrap().len().unwrap(), 3);
        disk.remove("b").unwrap();
        assert_eq!(disk.open("b").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_second_locker_is_told_who_holds_the_directory() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        let held = disk.lock().unwrap();
        let LockError::Held { by } = RealDisk::open(&scratch.0).unwrap().lock().unwrap_err() else {
            panic!("expected the lock to be held");
        };
        assert_eq!(by, format!("pid {}", std::process::id()));
        drop(held);
        disk.lock().unwrap();
    }

    #[test]
    fn who_is_patient_waits_for_a_moment_and_for_nobody_who_stays() {
        let scratch = Scratch::new();
        let held = RealDisk::open(&scratch.0).unwrap().lock().unwrap();
        let open = |longest_ms, stays| {
            let patience = Patience { longest: Duration::from_millis(longest_ms), stays };
            RealDisk::open(&scratch.0).unwrap().patient(patience)
        };
        assert!(matches!(open(30, |_, _| false).lock(), Err(LockError::Held { .. })));
        // For ever, if it waited.
        let stays = open(u64::MAX, |_, by| by == format!("pid {}", std::process::id()));
        assert!(matches!(stays.lock(), Err(LockError::Held { .. })));
        let patient = open(60_000, |_, _| false);
        let waiting = std::thread::spawn(move || patient.lock().map(drop));
        drop(held);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_lock_that_is_held_serves_all_who_lock_through_it_and_no_other() {
        let scratch = Scratch::new();
        let held = RealDisk::open(&scratch.0).unwrap().hold().unwrap();
        drop((held.lock().unwrap(), held.lock().unwrap()));
        let other = RealDisk::open(&scratch.0).unwrap();
        assert!(matches!(other.lock(), Err(LockError::Held { .. })));
        drop(held);
        other.lock().unwrap();
    }

    #[test]
    fn the_lock_of_a_directory_that_was_given_up_is_worth_nothing() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        let held = disk.lock().unwrap();
        std::fs::remove_file(scratch.0.join(LOCK_FILE)).unwrap();
        let _another = disk.lock().unwrap();
        drop(held);
        let other = RealDisk::open(&scratch.0).unwrap();
        assert!(matches!(other.lock(), Err(LockError::Held { .. })), "it locks what is there now");
    }

    #[test]
    fn a_directory_that_was_removed_emptied_or_replaced_is_not_there() {
        let scratch = Scratch::new();
        let disk = RealDisk::open(&scratch.0).unwrap();
        let _held = disk.lock().unwrap();
        assert!(disk.is_there());
        std::fs::remove_file(scratch.0.join(LOCK_FILE)).unwrap();
        assert!(!disk.is_there(), "emptied");
        let disk = RealDisk::open(&scratch.0).unwrap();
        let _held = disk.lock().unwrap();
        let aside = scratch.0.with_extension("aside");
        std::fs::rename(&scratch.0, &aside).unwrap();
        assert!(!disk.is_there(), "moved");
        let other = RealDisk::open(&scratch.0).unwrap();
        let _other = other.lock().unwrap();
        assert!(other.is_there() && !disk.is_there(), "replaced");
        std::fs::remove_dir_all(&aside).unwrap();
    }
}
