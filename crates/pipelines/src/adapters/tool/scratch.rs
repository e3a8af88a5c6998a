//! Scratch directories: each is one run's, and goes with it.

use std::fs::DirBuilder;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that nobody else may enter, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

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
        for _ in 0..NAMES_MAX {
            let (process, nth) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = within.join(format!("windrow-tool-{process}-{nth}"));
            // One that is there belongs to somebody else, who may want us to write into it.
            match DirBuilder::new().mode(0o700).create(&path) {
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
