//! Scratch directories: each is one run's, and goes with it.
//!
//! A process that was killed leaves its own behind, with pages of somebody's documents in them. The
//! next one that works in the same place removes them before its first run.

use std::collections::HashSet;
use std::fs::{DirBuilder, Metadata};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

/// A directory that nobody else may enter, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

/// What their names begin with; the process and a number follow.
const PREFIX: &str = "windrow-tool-";
const MODE: u32 = 0o700;

/// What of a name is ours before we look elsewhere.
const NAMES_MAX: usize = 10_000;

/// A process that was ended may be writing its last file while we remove them.
const REMOVALS: usize = 10;

impl Scratch {
    /// A new one, in a directory or else where the system has such.
    pub(super) fn new(within: Option<&Path>) -> Result<Scratch, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let within = within.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let within = std::path::absolute(within)?;
        tidy_once(&within);
        for _ in 0..NAMES_MAX {
            let (process, nth) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = within.join(format!("{PREFIX}{process}-{nth}"));
            // One that is there belongs to somebody else, who may want us to write into it.
            match DirBuilder::new().mode(MODE).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let why = format!("no directory in {}: {error}", within.display());
                    return Err(Error::new(error.kind(), why));
                }
            }
        }
        Err(Error::other(format!("{} is full of directories of ours", within.display())))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes what processes left behind that have ended, the first time that a place is used.
fn tidy_once(within: &Path) {
    static TIDIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    // Held until it is done: whoever runs something next finds the place tidy.
    let mut tidied = TIDIED.lock();
    if tidied.get_or_insert_default().insert(within.to_owned()) {
        tidy(within, has_ended);
    }
}

/// What cannot be looked at or removed stays: it is in nobody's way.
fn tidy(within: &Path, has_ended: impl Fn(Pid) -> bool) {
    for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
        let is_left = owner(&entry.file_name().to_string_lossy()).is_some_and(&has_ended);
        // Of a link, this says that it is one.
        if is_left && entry.metadata().is_ok_and(|about| is_ours(&about)) {
            drop(Scratch(entry.path()));
        }
    }
}

/// Whose directory has this name.
fn owner(name: &str) -> Option<Pid> {
    let (process, nth) = name.strip_prefix(PREFIX)?.split_once('-')?;
    nth.parse::<u64>().ok()?;
    Pid::from_raw(process.parse().ok().filter(|&process: &i32| process > 0)?)
}

/// Whether nobody has this number. If somebody else has got it meanwhile, what is left stays until
/// he has ended too; and what has our own number may be ours.
fn has_ended(process: Pid) -> bool {
    process.as_raw_nonzero().get().cast_unsigned() != std::process::id()
        && test_kill_process(process) == Err(Errno::SRCH)
}

fn is_ours(about: &Metadata) -> bool {
    about.is_dir() && about.uid() == geteuid().as_raw() && about.mode() & 0o777 == MODE
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match std::fs::remove_dir_all(&self.0) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                // Gone, or not ours to remove any more.
                _ => return,
            }
        }
    }
}
