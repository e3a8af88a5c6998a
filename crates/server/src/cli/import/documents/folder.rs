//! The folder of `--files`: where texts of pages and the files themselves are looked for.
//!
//! Paths in a database are from another machine. What is looked for is the end of such a path, from
//! all of it down to the name alone, and nothing outside the folder is read, whatever a path says.

use std::path::{Component, Path, PathBuf};

use windrow_pipelines::catalog::MARKDOWN_BYTES_MAX;

use crate::cli::exit::{Exit, Stop};

/// What the names of pages end with that were read without their headers and footers.
const PAGE_END: &str = "_nohf.md";
/// Pages that are looked for by their names alone.
const BY_NAME_MAX: u32 = 10_000;

/// A folder, or none.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder(Option<PathBuf>);

impl Folder {
    pub(super) fn open(path: Option<&Path>) -> Result<Folder, Stop> {
        let Some(path) = path else { return Ok(Folder(None)) };
        let shown = path.display();
        match path.canonicalize() {
            Ok(found) if found.is_dir() => Ok(Folder(Some(found))),
            Ok(_) => Err(Stop::usage(format!("--files: {shown} is not a folder"))),
            Err(error) => Err(Stop::new(Exit::NotFound, format!("--files: {shown}: {error}"))),
        }
    }

    /// A file that a path ends with.
    pub(super) fn find(&self, path: &str) -> Option<PathBuf> {
        let root = self.0.as_ref()?;
        let parts: Vec<&std::ffi::OsStr> = Path::new(path)
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        (0..parts.len()).find_map(|from| {
            let found = root.join(parts[from..].iter().collect::<PathBuf>()).canonicalize().ok()?;
            (found.starts_with(root) && found.is_file()).then_some(found)
        })
    }

    /// The text of a page by its path; None if it is not there.
    pub(super) fn text(&self, path: &str) -> Option<Result<String, String>> {
        let found = self.find(path)?;
        let size = std::fs::metadata(&found).map(|about| about.len()).unwrap_or(0);
        if size > MARKDOWN_BYTES_MAX as u64 {
            return Some(Err(format!("{path} has {size} bytes, which is no page")));
        }
        let read = std::fs::read(&found).map_err(|error| format!("{path}: {error}"));
        Some(read.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', "")))
    }

    /// The text of a page by the name of its document and its number there.
    pub(super) fn page(&self, document: &str, number: u32) -> Option<Result<String, String>> {
        let stem = stem(document);
        self.text(&format!("{stem}/{stem}_page_{number}{PAGE_END}"))
    }

    /// The numbers of pages that lie there under the name of their document.
    pub(super) fn numbers(&self, document: &str) -> Vec<u32> {
        let stem = stem(document);
        let is_there =
            |number: &u32| self.find(&format!("{stem}/{stem}_page_{number}{PAGE_END}")).is_some();
        let first = (0..=1).find(is_there);
        first.into_iter().flat_map(|first| (first..BY_NAME_MAX).take_while(is_there)).collect()
    }

    /// The text of a document that lies there as one file.
    pub(super) fn whole(&self, document: &str) -> Option<Result<String, String>> {
        let stem = stem(document);
        let names = [format!("{stem}/{stem}{PAGE_END}"), format!("{stem}/{stem}.md")];
        names.iter().find_map(|name| self.text(name))
    }
}

/// A name without its ending.
fn stem(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;

    #[test]
    fn the_end_of_a_path_is_found_and_nothing_outside_the_folder() {
        let dir = std::env::temp_dir().join(format!("windrow-folder-{}", std::process::id()));
        let files = dir.join("files");
        std::fs::create_dir_all(files.join("doc")).unwrap();
        std::fs::write(files.join("doc/doc_page_0_nohf.md"), "zero").unwrap();
        std::fs::write(files.join("doc_page_1_nohf.md"), "one").unwrap();
        std::fs::write(dir.join("secret.md"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.join("secret.md"), files.join("link.md")).unwrap();
        let folder = Folder::open(Some(&files)).unwrap();
        let text = |path: &str| folder.text(path).map(Result::unwrap);
        assert_eq!(text("/srv/app/output/doc/doc_page_0_nohf.md").as_deref(), Some("zero"));
        assert_eq!(text("elsewhere/doc_page_1_nohf.md").as_deref(), Some("one"));
        for outside in ["../secret.md", "/etc/passwd", "link.md", "", "doc"] {
            assert_eq!(text(outside), None, "{outside}");
        }
        assert_eq!(folder.numbers("doc.pdf"), vec![0, 1]);
        assert_eq!(folder.page("doc.pdf", 0), Some(Ok("zero".to_owned())));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
