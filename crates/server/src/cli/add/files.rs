//! Which files are meant: those that are named, and all in the folders that are named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::cli::exit::{Exit, Stop};
use crate::sources::walk::{Found, Walk, Walked, full_path, said};

/// A file to take in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct File {
    /// Where it is, from the root: its document is found by that again.
    pub(super) path: String,
    /// The same as it was named.
    pub(super) shown: String,
    pub(super) size: u64,
}

impl File {
    /// What its document is called.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// What is meant by some paths.
#[derive(Default, Debug)]
pub(super) struct Meant {
    pub(super) files: Vec<File>,
    /// How much is left out, by reason.
    pub(super) left_out: BTreeMap<&'static str, u64>,
    /// Files that cannot be taken in, and why.
    pub(super) problems: Vec<(String, String)>,
}

/// Looks at everything that is named. What is not there ends it before anything is sent.
pub(super) fn meant(paths: &[PathBuf], own: &[(u64, u64)]) -> Result<Meant, Stop> {
    let mut meant = Meant::default();
    for path in paths {
        let (root, shown) = (rooted(path)?, path.display().to_string());
        let shown = shown.trim_end_matches('/');
        let is_over = &AtomicBool::new(false);
        let walk = Walk { root: Path::new(&root), ignore: &[], own, is_over };
        let unread = |error| Stop::new(Exit::Failed, format!("{shown}: {}", said(&error)));
        let Walked { found, left_out, problems, .. } = walk.all().map_err(unread)?;
        for Found { path, stat } in found {
            let shown = full_path(shown, &path);
            let file = File { path: full_path(&root, &path), shown, size: stat.size };
            if !meant.files.iter().any(|known| known.path == file.path) {
                meant.files.push(file);
            }
        }
        for (why, count) in left_out {
            *meant.left_out.entry(why).or_default() += count;
        }
        let problems = problems.into_iter().map(|(path, why)| (full_path(shown, &path), why));
        meant.problems.extend(problems);
    }
    Ok(meant)
}

/// Where a path leads, from the root and without links.
pub(in crate::cli) fn rooted(path: &Path) -> Result<String, Stop> {
    let shown = path.display();
    let found = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Stop::new(Exit::NotFound, format!("{shown} is not there; nothing was done"))
        }
        _ => Stop::new(Exit::Failed, format!("{shown}: {}", said(&error))),
    })?;
    let wrong = || Stop::usage(format!("{shown}: its name is not UTF-8"));
    found.into_os_string().into_string().map_err(|_| wrong())
}
