//! Where a server lives: a directory that is removed with it, and a port.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Context as _;

/// A directory for one server. Short, because the path of a unix socket ends at 107 bytes.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    /// Locked while we live; the kernel lets go when we are killed.
    _held: File,
}

const NAME: &str = "windrow-server-";

impl Place {
    /// A new directory. Those that killed processes left behind are removed.
    pub(super) fn new() -> anyhow::Result<Place> {
        let parent = std::env::temp_dir();
        let _whoever_comes_next_tries_again = remove_abandoned(&parent, SETTLED);
        loop {
            let dir = parent.join(format!("{NAME}{}-{}", std::process::id(), next()));
            match fs::create_dir(&dir) {
                Ok(()) => return Place::hold(dir),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", dir.display()));
                }
            }
        }
    }

    fn hold(dir: PathBuf) -> anyhow::Result<Place> {
        let held = File::open(&dir)?;
        held.lock()?;
        Ok(Place { dir, _held: held })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A server that was killed may still write its last file; then the next one removes it.
        let _left_for_the_next = fs::remove_dir_all(&self.dir);
    }
}

/// Long after a directory was made and long before anybody minds that it is still there.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes the directories that nobody holds, except young ones: their maker may be about to.
fn remove_abandoned(parent: &Path, settled: Duration) -> io::Result<()> {
    for entry in fs::read_dir(parent)?.filter_map(Result::ok) {
        let is_ours = entry.file_name().to_string_lossy().starts_with(NAME);
        let (dir, kind) = (entry.path(), entry.file_type()?);
        if !is_ours || !kind.is_dir() {
            continue;
        }
        let Ok(held) = File::open(&dir) else { continue };
        let age = held.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age >= settled && held.try_lock().is_ok() {
            let _another_may_be_faster = fs::remove_dir_all(&dir);
        }
    }
    Ok(())
}

const PORT_FIRST: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A port that nobody listens on, below those that the kernel hands to clients. From among those, a
/// client that keeps knocking while the server is down would sooner or later be given the server's
/// own port, and talk to itself.
pub(super) fn free_port() -> anyhow::Result<u16> {
    let mut candidates = (0..PORTS).map(|_| {
        // Far apart for processes with neighbouring numbers.
        let number = std::process::id().wrapping_mul(7_919).wrapping_add(next());
        PORT_FIRST + (number % u32::from(PORTS)) as u16
    });
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    candidates.find(is_free).context("no port is free")
}

/// No number twice in this process.
fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_nobody_holds_is_removed_and_a_held_one_is_not() {
        let parent = Place::new().unwrap();
        let of = |name: &str| parent.dir().join(format!("{NAME}{name}"));
        for name in ["left", "held"] {
            fs::create_dir(of(name)).unwrap();
        }
        fs::create_dir(parent.dir().join("other")).unwrap();
        let held = Place::hold(of("held")).unwrap();

        remove_abandoned(parent.dir(), SETTLED).unwrap();
        assert!(of("left").exists(), "its maker may be about to hold it");

        remove_abandoned(parent.dir(), Duration::ZERO).unwrap();
        assert!(!of("left").exists());
        assert!(of("held").exists() && parent.dir().join("other").exists());
        drop(held);
        assert!(!of("held").exists());
    }

    #[test]
    fn a_port_in_use_is_not_free() {
        let first = free_port().unwrap();
        let _listens = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
        assert!((0..PORTS).all(|_| free_port().unwrap() != first));
    }
}
