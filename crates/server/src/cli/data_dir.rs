//! A data directory that a command is about: looked at without changing it, and named in whatever
//! goes wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use windrow_store::embedded::backup::RESTORING;
use windrow_store::embedded::disk::{Disk, LockError, Patience, RealDisk};
use windrow_store::embedded::log::LogError;
use windrow_store::embedded::{OpenError, SnapshotError, holds_store};

use super::exit::{Exit, Stop};
use super::reach::server_of;

/// The file in which a running server says where it is.
pub(super) const ANNOUNCED: &str = "server.json";

/// What lies beside the directories of a backup.
pub(super) const BACKUPS: &str = "backup.json";

/// A directory that another process has open.
#[derive(Debug)]
pub(super) struct Locked {
    dir: PathBuf,
    /// Which process that is, as far as it is known.
    pub(super) by: String,
}

impl std::fmt::Display for Locked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dir, by) = (self.dir.display(), &self.by);
        if let Some(server) = server_of(&self.dir, by) {
            let at = server.http;
            return write!(
                f,
                "{dir} is in use by a server at {at} ({by}): commands ask it by themselves; stop \
                 it, or look into a copy, which `windrow backup` makes while it runs"
            );
        }
        write!(
            f,
            "{dir} is in use by {by}, which is no server that can be asked; wait until it ends, or \
             stop that process"
        )
    }
}

impl std::error::Error for Locked {}

/// Whether there is a store in a directory, which need not exist.
pub(super) fn holds_a_store(path: &Path) -> anyhow::Result<bool> {
    if !path.is_dir() {
        return Ok(false);
    }
    let disk = RealDisk::open_to_read(path).map_err(|error| untouched(path, &error))?;
    holds_store(&disk).map_err(|error| untouched(path, &error))
}

/// A directory, which must hold a store, to read and nothing else.
pub(super) fn to_read(path: &Path) -> anyhow::Result<Arc<dyn Disk>> {
    let is_dir = std::fs::metadata(path).map_err(|error| untouched(path, &error))?.is_dir();
    anyhow::ensure!(
        is_dir,
        "{} is not a directory; give the data directory of a store",
        path.display()
    );
    let disk = RealDisk::open_to_read(path).map_err(|error| untouched(path, &error))?;
    let holds = holds_store(&disk).map_err(|error| untouched(path, &error))?;
    if !holds {
        let said = format!(
            "{} holds no store: there is no segment and no snapshot in it; give the directory \
             that the store was opened with",
            path.display()
        );
        return Err(Stop::new(Exit::NotFound, said).into());
    }
    Ok(Arc::new(disk.patient(PATIENCE)))
}

/// A directory that a store may be made or opened in: not one that is used for something else.
pub(crate) fn to_use(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| untouched(path, &error))?,
    };
    anyhow::ensure!(found.is_dir(), "{shown} is a file; a store needs a directory");
    // Its directories have numbers; what else lies there is somebody's own.
    let has_number =
        |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    // By its own name and place: `.` has no name, and a link has another one.
    let real = path.canonicalize().map_err(|error| untouched(path, &error))?;
    let beside = real.with_file_name(BACKUPS);
    anyhow::ensure!(
        !real.file_name().is_some_and(has_number) || !beside.exists(),
        "{shown} is part of a backup, which would be none any more; `windrow restore` makes a \
         directory of it, and `windrow check` looks into it as it is"
    );
    let disk = RealDisk::open_to_read(path).map_err(|error| untouched(path, &error))?;
    let holds = holds_store(&disk).map_err(|error| untouched(path, &error))?;
    // Whoever opens what is being restored is told so.
    if holds || path.join(RESTORING).exists() {
        return Ok(());
    }
    let mut others = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|error| untouched(path, &error))? {
        let name = entry.map_err(|error| untouched(path, &error))?.file_name();
        let name = name.to_string_lossy().into_owned();
        // What a store leaves that was stopped before its first segment, and a new file system has.
        if !matches!(name.as_str(), "LOCK" | "lost+found" | ANNOUNCED)
            && !name.starts_with("spare-")
        {
            others.push(name);
        }
    }
    others.sort();
    anyhow::ensure!(
        others.is_empty(),
        "{shown} holds other files ({}) and no store; give a directory that is empty or does not \
         exist yet",
        others.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
    );
    Ok(())
}

/// Commands have a directory for a moment only, and so does whoever just ends: somebody who comes
/// meanwhile waits. For a server that says where it is and runs, nobody does. One that was killed
/// as it began a tool lives on in that for a moment.
const PATIENCE: Patience = Patience {
    longest: Duration::from_secs(2),
    stays: |dir, by| server_of(dir, by).is_some_and(|server| is_running(server.pid)),
};

pub(super) fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// A directory to open a store in. It need not exist.
pub(crate) fn to_open(path: &Path) -> anyhow::Result<RealDisk> {
    let disk = RealDisk::open(path).map_err(|error| unopened(path, &error))?;
    Ok(disk.patient(PATIENCE))
}

/// The same of a directory that was to be made if it is not there.
fn unopened(path: &Path, error: &io::Error) -> anyhow::Error {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    if is_denied && matches!(path.try_exists(), Ok(false)) {
        return anyhow::anyhow!(
            "{} cannot be made: permission denied; say with --data-dir where the store is to be",
            path.display()
        );
    }
    untouched(path, error)
}

/// What the system says about a path, with the path, once.
fn untouched(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Stop::new(Exit::NotFound, format!("{path} does not exist")).into()
        }
        io::ErrorKind::PermissionDenied => {
            anyhow::anyhow!("{path}: permission denied; run this as the user whose store it is")
        }
        _ => anyhow::anyhow!("{path}: {error}"),
    }
}

/// Why a directory could not be locked.
pub(super) fn not_locked(path: &Path, error: LockError) -> anyhow::Error {
    match error {
        LockError::Held { by } => Locked { dir: path.to_owned(), by }.into(),
        LockError::Io(error) => untouched(path, &error),
    }
}

/// Why the store in this directory could not be opened, and what to do.
pub(crate) fn not_opened(path: &Path, error: &OpenError) -> anyhow::Error {
    let dir = path.display();
    match error {
        OpenError::Log(LogError::Locked { by }) => {
            Locked { dir: path.to_owned(), by: by.clone() }.into()
        }
        OpenError::Log(LogError::Io { file, source, .. })
        | OpenError::Snapshot(SnapshotError::Io { file, source })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            // If it was the directory that refused, there is no file to name.
            let file = path.join(file);
            untouched(if file.exists() { &file } else { path }, source)
        }
        OpenError::Log(LogError::Format { .. })
        | OpenError::Snapshot(SnapshotError::Format { .. }) => {
            anyhow::anyhow!("{dir}: {error}; use the newer program that wrote it")
        }
        _ if is_damage(error) => anyhow::anyhow!("{dir}: {error}; restore a backup"),
        _ => anyhow::anyhow!("{dir}: {error}"),
    }
}

/// Whether what is there is not what was written.
pub(super) const fn is_damage(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Log(LogError::Damage(_)) | OpenError::Snapshot(SnapshotError::Foreign { .. })
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_not_make_a_directory_is_not_sent_to_its_owner() {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let said = unopened(Path::new("/nonexistent/state/windrow"), &denied).to_string();
        let want = "/nonexistent/state/windrow cannot be made: permission denied; say with \
                    --data-dir where the store is to be";
        assert_eq!(said, want);
        let said = unopened(&std::env::temp_dir(), &denied).to_string();
        assert!(said.ends_with("run this as the user whose store it is"), "{said}");
    }

    #[test]
    fn who_has_ended_is_no_longer_running() {
        assert!(is_running(std::process::id()));
        let mut ended = std::process::Command::new("true").spawn().expect("a process");
        ended.wait().expect("it ends");
        assert!(!is_running(ended.id()));
        assert!(!is_running(u32::MAX));
    }
}
