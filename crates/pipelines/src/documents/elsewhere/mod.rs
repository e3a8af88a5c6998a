//! Elsewhere: a document that another system has read, as a file of its own kind.
//!
//! Decides how such a file is laid out: what that system said of the document, of its pages and of
//! its chunks, with whatever text there was, and behind it the file itself if it was at hand. It is
//! taken in as any file is, so that everything it leads to has been done by the ordinary stages;
//! `stages.rs` has what those do differently. Leaves out where it comes from: who moves in from
//! another system writes one for each document ([`written`]).
//!
//! ```text
//! one line of JSON    Head: how the document stood, and how long each line after it is
//! a line for each     Page: how it stood, its text, and its chunks if they were known
//! bytes               the file that was read there, if it was at hand
//! ```

mod pieces;
mod stages;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::ReadError;
use crate::catalog::PAGES_MAX;

pub use stages::SAID;
pub(super) use stages::{Below, NO_TEXT, below_of};

/// What such a file is said to be.
pub const MEDIA_TYPE: &str = "application/vnd.windrow.elsewhere";
/// The layout that is written, and the only one so far.
const LAYOUT: u32 = 1;
/// Bytes of the first line that are read.
const HEAD_MAX: u64 = 16 << 20;

/// How something stood there, in a phase.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Stood {
    #[default]
    Completed,
    /// Nobody had done it, or somebody was at it.
    Pending,
    Failed {
        why: String,
    },
    Skipped {
        why: String,
    },
}

impl Stood {
    fn is_completed(&self) -> bool {
        *self == Stood::Completed
    }
}

/// What there is before the pages.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
struct Head {
    layout: u32,
    /// How the document stood, where no page says it.
    #[serde(flatten)]
    stood: Stood,
    /// How long the line of each page is, with its end.
    pages: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    original: Option<Original>,
}

/// The file that was read there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
struct Original {
    media_type: String,
    bytes: u64,
}

/// A page as it stood there. The first one is page 1.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Page {
    pub ocr: Stood,
    /// Its Markdown, if it was at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How its chunks stood that are not known one by one.
    #[serde(default, skip_serializing_if = "Stood::is_completed")]
    pub index: Stood,
    /// Its chunks in order, if they were known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<Vec<Chunk>>,
}

/// A chunk as it stood there.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Chunk {
    /// What it was called there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Stood::is_completed")]
    pub vector: Stood,
    #[serde(default, skip_serializing_if = "Stood::is_completed")]
    pub graph: Stood,
}

/// A document as it stood there.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Elsewhere {
    /// How it stood, where no page says it.
    pub stood: Stood,
    pub pages: Vec<Page>,
    /// The file that was read, and what it is.
    pub original: Option<(String, Vec<u8>)>,
}

/// The file of a document that was read elsewhere. The same document gives the same bytes.
pub fn written(document: &Elsewhere) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    let mut lengths = Vec::new();
    for page in &document.pages {
        let before = lines.len();
        serde_json::to_writer(&mut lines, page)?;
        lines.push(b'\n');
        lengths.push((lines.len() - before) as u64);
    }
    let original = document.original.as_ref();
    let head = Head {
        layout: LAYOUT,
        stood: document.stood.clone(),
        pages: lengths,
        original: original.map(|(media_type, bytes)| Original {
            media_type: media_type.clone(),
            bytes: bytes.len() as u64,
        }),
    };
    let mut file = serde_json::to_vec(&head)?;
    file.push(b'\n');
    file.append(&mut lines);
    file.extend_from_slice(original.map(|(_, bytes)| &**bytes).unwrap_or_default());
    Ok(file)
}

/// Such a file, of which the first line was read.
#[derive(Clone, Debug)]
struct Opened {
    path: PathBuf,
    head: Head,
    /// Where the first page begins.
    begins: u64,
}

impl Opened {
    fn open(path: &Path) -> Result<Opened, ReadError> {
        let mut line = Vec::new();
        let file = File::open(path).map_err(unread)?;
        BufReader::new(file.take(HEAD_MAX)).read_until(b'\n', &mut line).map_err(unread)?;
        let head: Head = serde_json::from_slice(&line).map_err(not_one)?;
        if head.layout != LAYOUT {
            let layout = head.layout;
            return Err(ReadError::bad(format!(
                "this program does not know layout {layout} of it"
            )));
        }
        if head.pages.len() > PAGES_MAX as usize {
            return Err(ReadError::bad(format!("it has more than {PAGES_MAX} pages")));
        }
        Ok(Opened { path: path.to_owned(), head, begins: line.len() as u64 })
    }

    fn count(&self) -> u32 {
        self.head.pages.len() as u32
    }

    /// A page by its number from 1; None if nothing is said of it.
    fn page(&self, number: u32) -> Result<Option<Page>, ReadError> {
        let at = number.saturating_sub(1) as usize;
        let Some(length) = self.head.pages.get(at) else { return Ok(None) };
        let line = self.bytes(sum(&self.head.pages[..at]), *length)?;
        serde_json::from_slice(&line).map(Some).map_err(not_one)
    }

    /// The file that was read there, as a file of its own beside this one, and what it is.
    fn original(&self) -> Result<Option<(PathBuf, String)>, ReadError> {
        let Some(Original { media_type, bytes }) = &self.head.original else { return Ok(None) };
        let path = self.path.with_extension("original");
        if !std::fs::metadata(&path).is_ok_and(|about| about.len() == *bytes) {
            let original = self.bytes(sum(&self.head.pages), *bytes)?;
            // Who comes at the same time writes the same, under a name of its own.
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let (own, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let part = self.path.with_extension(format!("{own}-{next}"));
            let mut file = File::create(&part).map_err(unread)?;
            file.write_all(&original).map_err(unread)?;
            std::fs::rename(&part, &path).map_err(unread)?;
        }
        Ok(Some((path, media_type.clone())))
    }

    /// Bytes at a place after the first line.
    fn bytes(&self, at: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let mut file = File::open(&self.path).map_err(unread)?;
        file.seek(SeekFrom::Start(self.begins.saturating_add(at))).map_err(unread)?;
        let mut bytes = Vec::new();
        file.take(length).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 != length {
            return Err(ReadError::bad("it ends too early"));
        }
        Ok(bytes)
    }
}

/// What somebody wrote may say anything.
fn sum(lengths: &[u64]) -> u64 {
    lengths.iter().fold(0, |sum, length| sum.saturating_add(*length))
}

fn unread(error: std::io::Error) -> ReadError {
    let why = format!("the file cannot be read: {error}");
    ReadError::Transient { why, retry_after_ms: None }
}

fn not_one(error: serde_json::Error) -> ReadError {
    ReadError::bad(format!("this is no document that was read elsewhere: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;

    fn place(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("windrow-elsewhere-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir.join(name)
    }

    #[test]
    fn pages_and_the_file_behind_them_are_read_as_they_were_written() {
        let failed = Page { ocr: Stood::Failed { why: "timeout".into() }, ..Page::default() };
        let chunk = Chunk { id: Some("a".into()), graph: Stood::Pending, ..Chunk::default() };
        let text = Some("two\nlines".to_owned());
        let read = Page { text, chunks: Some(vec![chunk]), ..Page::default() };
        let original = Some(("text/plain".to_owned(), b"one\npage".to_vec()));
        let pages = vec![failed.clone(), read.clone()];
        let document = Elsewhere { stood: Stood::Pending, pages, original };
        let path = place("whole");
        std::fs::write(&path, written(&document).unwrap()).unwrap();
        let opened = Opened::open(&path).unwrap();
        assert_eq!((opened.count(), &opened.head.stood), (2, &Stood::Pending));
        assert_eq!(opened.page(1).unwrap(), Some(failed));
        assert_eq!(opened.page(2).unwrap(), Some(read));
        assert_eq!(opened.page(3).unwrap(), None);
        let (original, media_type) = opened.original().unwrap().unwrap();
        assert_eq!(std::fs::read(original).unwrap(), b"one\npage");
        assert_eq!(media_type, "text/plain");
        assert_eq!(written(&document).unwrap(), std::fs::read(&path).unwrap(), "the same bytes");
    }

    #[test]
    fn what_is_no_such_file_or_ends_too_early_is_bad_and_not_tried_again() {
        let path = place("broken");
        let texts = ["", "no JSON\n", "{\"layout\":2,\"status\":\"completed\",\"pages\":[]}\n"];
        for text in texts {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(Opened::open(&path), Err(ReadError::Bad { .. })), "{text}");
        }
        let far = "{\"layout\":1,\"status\":\"completed\",\"pages\":[9,18446744073709551615]}\nab";
        std::fs::write(&path, far).unwrap();
        let opened = Opened::open(&path).unwrap();
        assert!(matches!(opened.page(1), Err(ReadError::Bad { .. })));
    }
}
