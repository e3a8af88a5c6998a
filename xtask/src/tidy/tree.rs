//! The files of the repository, as text, with Rust read once for all rules.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use super::rust::Rust;

/// Every file that is committed or would be.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

pub(super) struct File {
    /// From the root, with forward slashes.
    pub(super) path: String,
    /// Empty for files that are not text, such as fixtures of the disk format.
    pub(super) text: String,
    /// `Some` for Rust that a person wrote.
    pub(super) rust: Option<Rust>,
}

impl Tree {
    /// Asks git, so that ignored and generated files stay out and new ones count before they are
    /// committed.
    pub(super) fn read(root: &Path) -> anyhow::Result<Tree> {
        let list =
            ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
        let output = Command::new("git").args(list).current_dir(root).output();
        let output = output.context("cannot start git, which knows the files of the repository")?;
        if !output.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let paths = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
        let mut files = Vec::new();
        for path in paths.split_terminator('\0') {
            let full = root.join(path);
            // Deleted but not yet committed as such, or a symbolic link to somewhere.
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            files.push(File::new(path, String::from_utf8(bytes).unwrap_or_default()));
        }
        Ok(Tree { files })
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File::new(path, (*text).to_owned()));
        Tree { files: files.collect() }
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or a directory of this path exists.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// All Rust files, with what was read from them.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }
}

/// Where code lies that a program wrote. Nobody reads it for pleasure, so the rules about how Rust
/// reads leave it alone; `cargo xtask codegen` sees that it is what the program writes.
const GENERATED: &str = "/generated/";

impl File {
    fn new(path: &str, text: String) -> File {
        let is_ours = path.ends_with(".rs") && !path.contains(GENERATED);
        let rust = is_ours.then(|| Rust::read(&text));
        File { path: path.to_owned(), text, rust }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_holds_its_files_and_their_directories_and_nothing_else() {
        let tree = Tree::of(&[("crates/core/src/item.rs", "")]);
        assert!(tree.holds("crates/core/src/item.rs"));
        assert!(tree.holds("crates/core"));
        assert!(!tree.holds("crates/co"));
        assert!(!tree.holds("crates/store"));
    }

    #[test]
    fn generated_code_is_not_read_as_rust_of_ours() {
        let tree =
            Tree::of(&[("crates/wire/src/generated/a.rs", ""), ("crates/wire/src/b.rs", "")]);
        let ours: Vec<_> = tree.rust().map(|(file, _)| file.path.as_str()).collect();
        assert_eq!(ours, ["crates/wire/src/b.rs"]);
    }

    #[test]
    fn a_directory_without_git_is_refused() {
        let nowhere = Path::new("/proc/self");
        assert!(Tree::read(nowhere).is_err());
    }
}
