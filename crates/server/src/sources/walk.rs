//! Walking: which files are in a folder, now.
//!
//! Every step goes from an open folder to a name in it and follows no link, so that whoever may
//! write into the folder cannot lead the server out of it, also not between two steps. Decides what
//! is left out, and why; one folder that cannot be read is a problem of its own and stops nothing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat as Status, fstat, openat, statat,
};
use windrow_core::limits::BLOB_MAX;

/// Folders within folders.
const DEPTH_MAX: usize = 64;
/// Files of one source.
const FILES_MAX: usize = 1_000_000;

/// Why something is left out.
const HIDDEN: &str = "hidden";
const EMPTY: &str = "empty";
const IGNORED: &str = "ignored";
const LINK: &str = "link";
const NO_FILE: &str = "not a file";
const OWN: &str = "the queue's own";

/// What tells a folder from every other: its device, and its number there.
pub(crate) type Id = (u64, u64);

/// What tells a file from what it was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    /// When it was last written, in seconds and in the nanoseconds after.
    pub(crate) written: (i64, i64),
}

/// A file that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    /// Below the folder; empty if the source is one file.
    pub(crate) path: String,
    pub(crate) stat: Stat,
}

/// What a walk came to.
#[derive(PartialEq, Eq, Default, Debug)]
pub(crate) struct Walked {
    /// What tells the folder from every other; none if the source is one file.
    pub(crate) root: Option<Id>,
    pub(crate) found: Vec<Found>,
    pub(crate) left_out: BTreeMap<&'static str, u64>,
    /// What is there and cannot be a document: where, and why.
    pub(crate) problems: Vec<(String, String)>,
}

/// What is walked over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Path,
    pub(crate) ignore: &'a [String],
    /// Folders of the server itself.
    pub(crate) own: &'a [Id],
    /// Set when nobody waits for it any more.
    pub(crate) is_over: &'a AtomicBool,
}

impl Walk<'_> {
    /// Walks over everything. Fails only if the folder itself cannot be read.
    pub(crate) fn all(&self) -> io::Result<Walked> {
        let mut walked = Walked::default();
        let root = openat(CWD, self.root, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, NO)?;
        let about = fstat(&root)?;
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => self.file(&mut walked, String::new(), &about),
            FileType::Directory => {
                walked.root = Some((about.st_dev, about.st_ino));
                self.folders(&mut walked, root)?;
            }
            _ => return Err(io::Error::other("it is neither a folder nor a file")),
        }
        walked.found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(walked)
    }

    fn folders(&self, walked: &mut Walked, root: OwnedFd) -> io::Result<()> {
        // The folder itself must be readable; what is in it need not be.
        let mut open = vec![self.folder(walked, &root, "")?];
        let mut held = vec![(root, String::new())];
        while let Some(names) = open.last_mut() {
            let Some(name) = names.pop() else {
                open.pop();
                held.pop();
                continue;
            };
            let Some((parent, path)) = held.last() else { break };
            let path = joined(path, &name);
            if open.len() >= DEPTH_MAX {
                let why = format!("is more than {DEPTH_MAX} folders deep");
                walked.problems.push((path, why));
                continue;
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let below = openat(parent, name.as_str(), flags, NO).map_err(io::Error::from);
            let below = below.and_then(|below| {
                let names = self.folder(walked, &below, &path)?;
                Ok((below, names))
            });
            match below {
                Ok((below, names)) => {
                    open.push(names);
                    held.push((below, path));
                }
                // It went while we were on the way to it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => walked.problems.push((path, said(&error))),
            }
        }
        Ok(())
    }

    /// Looks at all that is in a folder, and gives the folders in it.
    fn folder(&self, walked: &mut Walked, folder: &OwnedFd, path: &str) -> io::Result<Vec<String>> {
        let about = fstat(folder)?;
        if self.own.contains(&(about.st_dev, about.st_ino)) {
            *walked.left_out.entry(OWN).or_default() += 1;
            return Ok(Vec::new());
        }
        let mut folders = Vec::new();
        for entry in Dir::read_from(folder)? {
            if self.is_over.load(Ordering::Relaxed) {
                return Err(io::Error::other("nobody waits for it any more"));
            }
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            if name.as_bytes().starts_with(b".") {
                *walked.left_out.entry(HIDDEN).or_default() += 1;
                continue;
            }
            let Some(name) = name.to_str() else {
                let path = joined(path, &name.to_string_lossy());
                walked.problems.push((path, "its name is not UTF-8".into()));
                continue;
            };
            if is_ignored(name, self.ignore) {
                *walked.left_out.entry(IGNORED).or_default() += 1;
                continue;
            }
            let about = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) => about,
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => {
                    walked.problems.push((joined(path, name), said(&error.into())));
                    continue;
                }
            };
            match FileType::from_raw_mode(about.st_mode) {
                FileType::Directory => folders.push(name.to_owned()),
                FileType::RegularFile => self.file(walked, joined(path, name), &about),
                FileType::Symlink => *walked.left_out.entry(LINK).or_default() += 1,
                _ => *walked.left_out.entry(NO_FILE).or_default() += 1,
            }
            if walked.found.len() > FILES_MAX {
                let why = format!("it has more than {FILES_MAX} files; name a folder in it");
                return Err(io::Error::other(why));
            }
        }
        // The first one last, as it is taken from there.
        folders.sort_unstable_by(|one, other| other.cmp(one));
        Ok(folders)
    }

    fn file(&self, walked: &mut Walked, path: String, about: &Status) {
        let stat = stat_of(about);
        match stat.size {
            0 => *walked.left_out.entry(EMPTY).or_default() += 1,
            1..=BLOB_MAX => walked.found.push(Found { path, stat }),
            size => {
                let why = format!("is too large: {} MiB, at most {}", size >> 20, BLOB_MAX >> 20);
                walked.problems.push((path, why));
            }
        }
    }
}

/// No file is made here.
const NO: Mode = Mode::empty();

/// Whether somebody wants no file or folder of this name.
fn is_ignored(name: &str, ignore: &[String]) -> bool {
    let ends = |ending: &str| {
        let at = name.len().checked_sub(ending.len()).filter(|at| name.is_char_boundary(*at));
        at.is_some_and(|at| name[at..].eq_ignore_ascii_case(ending))
    };
    ignore.iter().any(|ignored| name == ignored || ignored.starts_with('.') && ends(ignored))
}

fn stat_of(about: &Status) -> Stat {
    let size = u64::try_from(about.st_size).unwrap_or_default();
    Stat { size, written: (about.st_mtime, about.st_mtime_nsec.cast_signed()) }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// Where a file is, with its root.
pub(crate) fn full_path(root: &str, below: &str) -> String {
    if below.is_empty() { root.to_owned() } else { format!("{root}/{below}") }
}

/// Opens a file below a folder, and says what it is now.
pub(crate) fn open(root: &Path, below: &str) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut at = openat(CWD, root, flags, NO)?;
    for part in Path::new(below).components() {
        let Component::Normal(name) = part else {
            return Err(io::Error::other("it is not below its folder"));
        };
        at = openat(at.as_fd(), name, flags | OFlags::NOFOLLOW, NO)?;
    }
    let about = fstat(&at)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a file any more"));
    }
    Ok((File::from(at), stat_of(&about)))
}

/// What a file that is open is now.
pub(crate) fn stat(file: &File) -> io::Result<Stat> {
    Ok(stat_of(&fstat(file)?))
}

/// Whether there surely is no such file. What cannot be looked at may be there.
pub(crate) fn is_gone(path: &str) -> bool {
    let found = std::fs::symlink_metadata(path);
    let kind = found.err().map(|error| error.kind());
    matches!(kind, Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// What tells a folder from every other.
pub(crate) fn id_of(path: &Path) -> Option<Id> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// What the system says, in fewer words.
pub(crate) fn said(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "the server may not read it".into(),
        io::ErrorKind::NotFound => "it is not there".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder that goes with its test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str, files: &[(&str, &str)]) -> Folder {
            let path = std::env::temp_dir().join(format!("windrow-{test}-{}", std::process::id()));
            let folder = Folder(path);
            for (path, text) in files {
                let path = folder.0.join(path);
                std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
                std::fs::write(path, text).expect("it is written");
            }
            folder
        }

        fn walk(&self, ignore: &[&str], own: &[(u64, u64)]) -> Walked {
            let ignore: Vec<String> = ignore.iter().map(|name| (*name).to_owned()).collect();
            let is_over = &AtomicBool::new(false);
            let walk = Walk { root: &self.0, ignore: &ignore, own, is_over };
            walk.all().expect("it is read")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = std::fs::remove_dir_all(&self.0);
        }
    }

    fn paths(walked: &Walked) -> Vec<&str> {
        walked.found.iter().map(|found| found.path.as_str()).collect()
    }

    #[test]
    fn files_are_found_in_all_folders_and_what_is_no_document_is_counted() {
        let folder = Folder::new(
            "walk",
            &[
                ("a.md", "a"),
                ("sub/deep/b.md", "b"),
                ("sub/.hidden", "x"),
                (".git/config", "x"),
                ("empty.txt", ""),
                ("node_modules/c.md", "c"),
                ("d.TMP", "d"),
                ("tmp", "e"),
            ],
        );
        let walked = folder.walk(&["node_modules", ".tmp"], &[]);
        assert_eq!(paths(&walked), ["a.md", "sub/deep/b.md", "tmp"]);
        let left_out = BTreeMap::from([(HIDDEN, 2), (EMPTY, 1), (IGNORED, 2)]);
        assert_eq!((walked.left_out, walked.problems), (left_out, Vec::new()));
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let outside = Folder::new("outside", &[("secret.txt", "secret")]);
        let folder = Folder::new("links", &[("a.md", "a"), ("sub/b.md", "b")]);
        symlink(outside.0.join("secret.txt"), folder.0.join("file.txt")).expect("a link");
        symlink(&outside.0, folder.0.join("folder")).expect("a link");
        symlink(&folder.0, folder.0.join("sub/around")).expect("a link");
        let walked = folder.walk(&[], &[]);
        assert_eq!(paths(&walked), ["a.md", "sub/b.md"]);
        assert_eq!(walked.left_out, BTreeMap::from([(LINK, 3)]));
        // Also not if the link takes the place of something that was walked over.
        assert!(open(&folder.0, "sub/b.md").is_ok());
        std::fs::remove_dir_all(folder.0.join("sub")).expect("it is removed");
        symlink(&outside.0, folder.0.join("sub")).expect("a link");
        assert!(open(&folder.0, "sub/secret.txt").is_err());
        assert!(open(&folder.0, "file.txt").is_err());
        assert!(open(&folder.0, "../outside/secret.txt").is_err());
        // A folder that is itself reached by a link is what somebody named.
        let linked = Folder(folder.0.with_extension("linked"));
        std::fs::create_dir(&linked.0).expect("it is made");
        symlink(&outside.0, linked.0.join("to")).expect("a link");
        let to = Folder(linked.0.join("to"));
        assert_eq!(paths(&to.walk(&[], &[])), ["secret.txt"]);
        std::mem::forget(to);
    }

    #[test]
    fn a_file_that_is_too_large_is_named_and_its_own_folder_is_not_walked_over() {
        let folder = Folder::new("large", &[("a.md", "a"), ("data/segment", "x")]);
        let large = File::create(folder.0.join("large.pdf")).expect("it is made");
        large.set_len(BLOB_MAX + (1 << 20)).expect("it has holes");
        let about = std::fs::metadata(folder.0.join("data")).expect("it is there");
        let walked = folder.walk(&[], &[(about.dev(), about.ino())]);
        assert_eq!(paths(&walked), ["a.md"]);
        assert_eq!(walked.left_out, BTreeMap::from([(OWN, 1)]));
        let why = "is too large: 65 MiB, at most 64".to_owned();
        assert_eq!(walked.problems, [("large.pdf".to_owned(), why)]);
    }

    #[test]
    fn a_source_may_be_one_file_and_must_be_there() {
        let folder = Folder::new("one", &[("a.md", "abc")]);
        let file = Folder(folder.0.join("a.md"));
        let walked = file.walk(&[], &[]);
        assert_eq!((walked.found[0].path.as_str(), walked.found[0].stat.size), ("", 3));
        let (_, stat) = open(&file.0, "").expect("it is opened");
        assert_eq!(stat, walked.found[0].stat);
        let nothing = Folder(folder.0.join("nothing"));
        let is_over = &AtomicBool::new(false);
        let walk = Walk { root: &nothing.0, ignore: &[], own: &[], is_over };
        assert_eq!(walk.all().map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        assert!(is_gone(&nothing.0.display().to_string()));
        assert!(!is_gone(&file.0.display().to_string()));
    }
}
