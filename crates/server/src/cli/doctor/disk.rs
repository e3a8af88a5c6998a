//! The disk under a data directory: whose it is, what kind, how much room, how fast a sync is.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windrow_store::embedded::Options;

use super::{Finding, ok, problem, warn};
use crate::health::bytes;

/// A sync that takes longer makes every commit slow.
const SLOW: Duration = Duration::from_millis(250);
const PROBES: u32 = 3;
/// Health warns of the same.
const FREE_MIN_BYTES: u64 = 1 << 30;
const FREE_MIN_PART: u64 = 20;

pub(super) fn examine(dir: &Path) -> Vec<Finding> {
    // A name without a parent is meant from here.
    let named = |path: &Path| match path.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => path.to_owned(),
    };
    let Some(existing) = dir.ancestors().map(named).find(|path| path.is_dir()) else {
        let said = format!("{} cannot be: none of its parents is a directory", dir.display());
        return vec![problem("disk", said, "name another with --data-dir")];
    };
    let mut found = vec![];
    if dir.is_dir() {
        found.extend(permissions(dir));
    }
    found.extend(kind(&existing));
    found.push(space(&existing));
    found.push(probe(&existing));
    found
}

/// Whose the directory is, and who may look into it.
fn permissions(dir: &Path) -> Option<Finding> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let (shown, told) = (dir.display(), std::fs::metadata(dir).ok()?);
    let us = rustix::process::geteuid().as_raw();
    let mode = told.permissions().mode() & 0o777;
    Some(if told.uid() != us && us != 0 {
        let said = format!("{shown} belongs to user {}, and this is user {us}", told.uid());
        problem("disk", said, "run this, and the server, as the user whose store it is")
    } else if told.uid() != us {
        let said = format!("{shown} belongs to user {}, and this is root", told.uid());
        warn("disk", said, "run the server as that user, or what it makes will be root's")
    } else if mode & 0o077 != 0 {
        let said = format!("{shown} has mode {mode:03o}: others can look into the store");
        warn("disk", said, format!("chmod 700 {shown}"))
    } else {
        ok("disk", format!("{shown} is this user's alone"))
    })
}

/// Kinds of file systems that break the store's promise, by their numbers in statfs.
#[cfg(target_os = "linux")]
const KINDS: [(u32, &str, bool, &str); 11] = [
    (0x0102_1994, "tmpfs", true, FORGETS),
    (0x8584_58f6, "ramfs", true, FORGETS),
    (0x6969, "NFS", true, NETWORK),
    (0x517b, "SMB", true, NETWORK),
    (0xff53_4d42, "CIFS", true, NETWORK),
    (0xfe53_4d42, "SMB", true, NETWORK),
    (0x00c3_6400, "Ceph", true, NETWORK),
    (0x0102_1997, "9p", true, NETWORK),
    (0x794c_7630, "overlayfs", false, "it goes with its container"),
    (0x6573_5546, "FUSE", false, "whether a sync reaches a disk is up to the program behind it"),
    (0x5346_4846, "a Windows drive", false, "whether a sync reaches a disk is up to Windows"),
];
#[cfg(target_os = "linux")]
const FORGETS: &str = "it forgets everything when the machine restarts";
#[cfg(target_os = "linux")]
const NETWORK: &str = "its locks and syncs do not hold when the network fails";

#[cfg(target_os = "linux")]
fn kind(dir: &Path) -> Option<Finding> {
    let told = rustix::fs::statfs(dir).ok()?;
    // Some systems say it with a sign.
    let number = told.f_type as u32;
    let known = KINDS.iter().find(|(known, ..)| *known == number);
    Some(match known {
        None => ok("file system", "it is on a disk of this machine"),
        Some((_, name, is_bad, why)) => {
            let said = format!("{} is on {name}: {why}", dir.display());
            let fix = "put the data directory on a disk of this machine, such as ext4 or xfs";
            let make = if *is_bad { problem } else { warn };
            make("file system", said, fix)
        }
    })
}

#[cfg(not(target_os = "linux"))]
fn kind(_: &Path) -> Option<Finding> {
    None
}

fn space(dir: &Path) -> Finding {
    match rustix::fs::statvfs(dir) {
        Ok(told) => {
            let of = |blocks: u64| blocks.saturating_mul(told.f_frsize);
            room(of(told.f_bavail), of(told.f_blocks))
        }
        Err(error) => warn("space", format!("it cannot be told: {error}"), "look at it with `df`"),
    }
}

/// What the store keeps for itself: a segment to write to and those for a full disk.
fn reserve_bytes() -> u64 {
    let options = Options::default();
    (options.reserve_segments as u64 + 1) * u64::from(options.segment_bytes)
}

pub(super) fn room(free: u64, total: u64) -> Finding {
    let reserve = reserve_bytes();
    let said = format!(
        "{} of {} are free; the store keeps {} in reserve",
        bytes(free),
        bytes(total),
        bytes(reserve)
    );
    if free < reserve {
        return problem("space", said, "free some space: new items are refused without it");
    }
    if free < FREE_MIN_BYTES || free < total / FREE_MIN_PART {
        return warn("space", said, "free some space before it is full");
    }
    ok("space", said)
}

/// Writes a little and syncs it. The file has no name by then, so that none is left behind.
fn probe(dir: &Path) -> Finding {
    let fix = "let the server's user write there, or name another directory with --data-dir";
    match written(dir) {
        Ok(took) if took > SLOW => {
            let said = format!("a sync takes {} ms", took.as_millis());
            let fix = "see what else uses the disk; every commit waits for a sync";
            warn("sync", said, fix)
        }
        Ok(took) => ok("sync", format!("a sync takes {:.1} ms", took.as_secs_f64() * 1e3)),
        Err(error) => {
            problem("sync", format!("{} cannot be written to: {error}", dir.display()), fix)
        }
    }
}

/// The shortest of a few.
fn written(dir: &Path) -> std::io::Result<Duration> {
    let path = dir.join(format!(".windrow-doctor-{}", std::process::id()));
    let mut file = std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)?;
    let mut shortest = Duration::MAX;
    for _ in 0..PROBES {
        let begun = Instant::now();
        file.write_all(&[0; 4_096])?;
        file.sync_data()?;
        shortest = shortest.min(begun.elapsed());
    }
    Ok(shortest)
}
