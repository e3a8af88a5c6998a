//! Reading: from a file to the Markdown of its pages.
//!
//! [`TextFiles`] reads what is text already. What else a file may be is read by outside programs,
//! in `adapters/`.

use std::collections::VecDeque;
use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use crate::text::{csv, html, markdown, plain};

/// Bytes of a text file that are read; a longer one is no document.
const TEXT_MAX: u64 = 64 * 1024 * 1024;
/// Pages of a text file. A megabyte of form feeds would have a million.
const PAGES_MAX: usize = 20_000;
/// Files whose pages are kept, and bytes of all of them; one that is larger is kept alone.
const KEPT_MAX: usize = 16;
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What a page says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageText {
    pub markdown: String,
    /// How it was read, in a word: `text`, `text_layer`, `ocr` or `vision`.
    pub how: &'static str,
}

/// Why a file or a page cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// A program that is needed is not there. It is waited for.
    #[error("{program} is needed to read this and is not installed; install {package}")]
    Missing { program: String, package: String },
    /// It may work later.
    #[error("{why}")]
    Transient { why: String, retry_after_ms: Option<u64> },
    /// It was ended by others while it was read, and may work the next time.
    #[error("{why}")]
    Ended { why: String },
    /// It never works.
    #[error("{why}")]
    Bad { why: String },
}

impl ReadError {
    pub fn bad(why: impl fmt::Display) -> ReadError {
        ReadError::Bad { why: why.to_string() }
    }
}

/// Something that reads files.
pub trait Reader: fmt::Debug + Send + Sync {
    /// What it reads with, and how: a page that the same has read before need not be read again.
    fn version(&self) -> String;

    /// Whether it asks a service, which may be away for all pages at once.
    fn asks_others(&self) -> bool {
        false
    }

    /// How many pages a file has.
    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>>;

    /// What a page says, by its number from 1.
    fn read<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
        page: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>>;
}

/// What a file is, by its name. Whoever reads it looks at its bytes too.
pub fn media_type(name: &str) -> &'static str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension.to_ascii_lowercase().as_str() {
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "tif" | "tiff" => "image/tiff",
        "html" | "htm" => "text/html",
        "xhtml" => "application/xhtml+xml",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "tsv" | "tab" => "text/tab-separated-values",
        "json" => "application/json",
        "txt" | "text" | "rst" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}

/// What somebody says a file is, without parameters and in lower case; `None` if it is no media
/// type.
pub fn said_type(said: &str) -> Option<String> {
    let essence = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_token = |token: &str| {
        let is_in_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        !token.is_empty() && token.chars().all(is_in_token)
    };
    let (kind, subtype) = essence.split_once('/')?;
    (is_token(kind) && is_token(subtype)).then_some(essence)
}

/// Reads text, Markdown, HTML and separated values.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextFiles;

impl TextFiles {
    async fn all(self, file: &Path, media_type: &str) -> Result<Pages, ReadError> {
        let (file, media_type) = (file.to_owned(), media_type.to_owned());
        let read = tokio::task::spawn_blocking(move || pages_of(&file, &media_type)).await;
        let ended =
            |_| ReadError::Transient { why: "it was given up".into(), retry_after_ms: None };
        read.map_err(ended)?
    }
}

impl Reader for TextFiles {
    fn version(&self) -> String {
        "text 3".into()
    }

    fn pages<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
    ) -> BoxFuture<'a, Result<u32, ReadError>> {
        Box::pin(async move { Ok(self.all(file, media_type).await?.len() as u32) })
    }

    fn read<'a>(
        &'a self,
        file: &'a Path,
        media_type: &'a str,
        page: u32,
    ) -> BoxFuture<'a, Result<PageText, ReadError>> {
        Box::pin(async move {
            let all = self.all(file, media_type).await?;
            let markdown = all.get(page.saturating_sub(1) as usize).cloned();
            let markdown = markdown.ok_or_else(|| ReadError::bad("there is no such page"))?;
            Ok(PageText { markdown, how: "text" })
        })
    }
}

fn pages_of(file: &Path, media_type: &str) -> Result<Pages, ReadError> {
    let unread = |error: std::io::Error| ReadError::Transient {
        why: format!("the file cannot be read: {error}"),
        retry_after_ms: None,
    };
    let about = std::fs::metadata(file).map_err(unread)?;
    if about.len() > TEXT_MAX {
        return Err(ReadError::bad("it is larger than 64 MiB"));
    }
    let of = Content::of(file, media_type, &about).map_err(unread)?;
    if let Some(pages) = KEPT.lock().find(&of) {
        return Ok(pages);
    }
    let bytes = std::fs::read(file).map_err(unread)?;
    let text = plain::decode(&bytes).map_err(ReadError::bad)?.text;
    let pages = match media_type {
        "text/html" | "application/xhtml+xml" => vec![html::read(&text).markdown],
        "text/csv" => vec![csv::table(&text, None)],
        "text/tab-separated-values" => vec![csv::table(&text, Some('\t'))],
        "text/plain" => fed(&text).map(plain::pages)?,
        _ => fed(&text).map(plain::typed_pages)?,
    };
    let pages: Pages = pages.into_iter().flat_map(markdown::pages).collect();
    // What is read once more and never again is not worth the room.
    if pages.len() > 1 {
        KEPT.lock().keep(of, Arc::clone(&pages));
    }
    Ok(pages)
}

/// A text of which not too many pages are ended by form feeds.
fn fed(text: &str) -> Result<&str, ReadError> {
    let form_feeds = text.strip_suffix('\x0c').unwrap_or(text).matches('\x0c').count();
    if form_feeds >= PAGES_MAX {
        let pages = form_feeds + 1;
        return Err(ReadError::bad(format!(
            "it has {pages} pages, each ended by a form feed, and no more than {PAGES_MAX} pages \
             of a text are read; cut it into several files"
        )));
    }
    Ok(text)
}

/// The Markdown of all pages of a file.
type Pages = Arc<[String]>;

/// What was read last. The pages of a file are asked for one by one, and each time to read and
/// render all of it would take the square of the time.
static KEPT: Mutex<Kept> = Mutex::new(Kept::new(KEPT_BYTES_MAX));

/// The pages of a few files, the one that was used last at the end.
struct Kept {
    files: VecDeque<(Content, Pages)>,
    bytes_max: usize,
}

/// What says that a file holds the same as before.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Content {
    path: PathBuf,
    media_type: String,
    bytes: u64,
    /// Of a file whose name is the hash of what is in it, nothing: such a copy counts as changed
    /// whenever somebody uses it.
    changed_at: Option<SystemTime>,
}

impl Content {
    fn of(file: &Path, media_type: &str, about: &Metadata) -> std::io::Result<Content> {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let hash = name.rsplit('-').next().unwrap_or_default();
        let is_hash = super::bytes_of::<32>(hash).is_some();
        let changed_at = if is_hash { None } else { Some(about.modified()?) };
        let (path, media_type) = (file.to_owned(), media_type.to_owned());
        Ok(Content { path, media_type, bytes: about.len(), changed_at })
    }
}

impl Kept {
    const fn new(bytes_max: usize) -> Kept {
        Kept { files: VecDeque::new(), bytes_max }
    }

    fn find(&mut self, of: &Content) -> Option<Pages> {
        let at = self.files.iter().position(|(kept, _)| kept == of)?;
        let found = self.files.remove(at)?;
        let pages = Arc::clone(&found.1);
        self.files.push_back(found);
        Some(pages)
    }

    fn keep(&mut self, of: Content, pages: Pages) {
        self.files.retain(|(kept, _)| kept.path != of.path);
        self.files.push_back((of, pages));
        let bytes_max = self.bytes_max;
        let is_too_much = |files: &VecDeque<(Content, Pages)>| {
            let each = files.iter().flat_map(|(_, pages)| pages.iter());
            let bytes: usize = each.map(|page| size_of::<String>() + page.len()).sum();
            files.len() > KEPT_MAX || bytes > bytes_max
        };
        while self.files.len() > 1 && is_too_much(&self.files) {
            self.files.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use std::time::Duration;

    use super::*;

    /// A file in a directory that goes with the test.
    struct File(PathBuf);

    impl File {
        fn new(test: &str, name: &str, text: &str) -> File {
            let dir =
                std::env::temp_dir().join(format!("windrow-read-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            let file = File(dir.join(name));
            file.write(text, 0);
            file
        }

        /// Writes it as if that were so many seconds later than the first time.
        fn write(&self, text: &str, later: u64) {
            std::fs::write(&self.0, text).unwrap();
            let changed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + later);
            std::fs::File::open(&self.0).unwrap().set_modified(changed_at).unwrap();
        }

        async fn page(&self, number: u32) -> Result<String, ReadError> {
            TextFiles.read(&self.0, "text/plain", number).await.map(|page| page.markdown)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _left_behind_at_worst = std::fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    /// Every page read the whole file: of 10,000 pages in 10 MB, 100 GB were decoded.
    #[tokio::test]
    async fn a_file_is_read_once_for_all_of_its_pages() {
        let file = File::new("once", &format!("0f-{}", "0a".repeat(32)), "one\x0ctwo\x0cthree");
        assert_eq!(TextFiles.pages(&file.0, "text/plain").await, Ok(3));
        // Nobody writes to a file that is called by its hash: who sees this has read it again.
        file.write("ONE\x0cTWO\x0cTHREE", 9);
        for (number, page) in [(1, "one\n"), (3, "three\n"), (2, "two\n")] {
            assert_eq!(file.page(number).await.as_deref(), Ok(page));
        }
        assert_eq!(file.page(4).await, Err(ReadError::bad("there is no such page")));
    }

    #[tokio::test]
    async fn a_file_that_is_not_called_by_its_hash_may_change() {
        let file = File::new("changes", "notes.txt", "one\x0ctwo");
        assert_eq!(file.page(2).await.as_deref(), Ok("two\n"));
        file.write("ONE\x0cTWO", 1);
        assert_eq!(file.page(2).await.as_deref(), Ok("TWO\n"));
        file.write("one\x0ctwo\x0cthree", 1);
        assert_eq!(file.page(3).await.as_deref(), Ok("three\n"), "another length");
    }

    #[tokio::test]
    async fn a_text_of_too_many_pages_is_refused_with_the_reason() {
        let file = File::new("feeds", "feeds.txt", &"\x0c".repeat(1_000_000));
        let refused = TextFiles.pages(&file.0, "text/plain").await.unwrap_err();
        let ReadError::Bad { why } = refused else { panic!("{refused:?}") };
        assert!(why.contains("1000000 pages") && why.contains("no more than 20000"), "{why}");
        file.write(&"x\x0c".repeat(PAGES_MAX), 1);
        assert_eq!(TextFiles.pages(&file.0, "text/plain").await, Ok(PAGES_MAX as u32));
    }

    #[test]
    fn what_was_used_last_is_kept_as_far_as_there_is_room() {
        let content = |name: &str| Content {
            path: name.into(),
            media_type: "text/plain".into(),
            bytes: 1,
            changed_at: None,
        };
        let pages = |bytes: usize| Pages::from([" ".repeat(bytes - size_of::<String>())]);
        let mut kept = Kept::new(1_000);
        let check = |kept: &mut Kept, names: &str| {
            let found: String = kept.files.iter().filter_map(|(of, _)| of.path.to_str()).collect();
            assert_eq!(found, names);
        };
        kept.keep(content("a"), pages(400));
        kept.keep(content("b"), pages(400));
        assert!(kept.find(&content("a")).is_some() && kept.find(&content("c")).is_none());
        kept.keep(content("c"), pages(200));
        check(&mut kept, "bac");
        kept.keep(content("d"), pages(100));
        check(&mut kept, "acd");
        kept.keep(Content { bytes: 2, ..content("a") }, pages(100));
        check(&mut kept, "cda");
        assert!(kept.find(&content("a")).is_none(), "it was another");
        kept.keep(content("e"), pages(5_000));
        check(&mut kept, "e");
        for n in 0..100 {
            kept.keep(content(&n.to_string()), pages(30));
        }
        assert_eq!(kept.files.len(), KEPT_MAX);
    }

    /// The pages of a file with these bytes.
    fn pages(media_type: &str, bytes: &[u8]) -> Result<Pages, ReadError> {
        let name = format!("windrow-read-{}-{}", std::process::id(), rand::random::<u64>());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, bytes).expect("a file of this test's own");
        let pages = pages_of(&file, media_type);
        std::fs::remove_file(&file).expect("it is still there");
        pages
    }

    #[test]
    fn separated_values_are_a_table_with_its_header_on_every_page() {
        assert_eq!(media_type("hives.TSV"), "text/tab-separated-values");
        let row = "7\t\"by the river, as\never\"\n";
        for (media_type, row) in
            [("text/tab-separated-values", row.to_owned()), ("text/csv", row.replace('\t', ","))]
        {
            let head = row.replace('7', "number");
            let text = format!("{head}{}", row.repeat(20_000));
            let pages = pages(media_type, text.as_bytes()).expect("it is a text");
            assert!(pages.len() > 1, "{media_type}");
            for page in &*pages {
                let mut lines = page.lines();
                assert_eq!(lines.next(), Some("| number | by the river, as ever |"));
                assert_eq!(lines.next(), Some("| --- | --- |"));
                assert!(lines.all(|line| line == "| 7 | by the river, as ever |"), "{media_type}");
            }
        }
    }

    #[test]
    fn only_plain_text_loses_its_indentation() {
        for (media_type, is_kept) in [
            ("text/plain", false),
            ("text/markdown", true),
            ("text/x-python", true),
            ("application/octet-stream", true),
        ] {
            let pages = pages(media_type, b"def a():\n    return 1\n").expect("it is a text");
            assert_eq!(pages[0].contains("\n    return"), is_kept, "{media_type}");
        }
    }

    /// They were one page each, which the catalog refused.
    #[test]
    fn a_long_text_has_several_pages_whatever_it_is_written_in() {
        let text = "A word and another, and so on.\n\n".repeat(100_000);
        let html = text.replace("\n\n", "<p>");
        for (media_type, text) in
            [("text/plain", &text), ("text/markdown", &text), ("text/html", &html)]
        {
            let pages = pages(media_type, text.as_bytes()).expect("it is a text");
            let said: usize = pages.iter().map(|page| page.matches("A word").count()).sum();
            assert_eq!(said, 100_000, "{media_type}");
            assert!(pages.len() > 3, "{media_type}: {}", pages.len());
            assert!(pages.iter().all(|page| page.starts_with("A word")), "{media_type}");
        }
    }

    #[test]
    fn a_media_type_is_two_tokens_whatever_follows() {
        for (said, is) in [
            ("text/html", Some("text/html")),
            ("Text/HTML; charset=utf-8", Some("text/html")),
            (" application/vnd.api+json ", Some("application/vnd.api+json")),
            ("null", None),
            ("text/", None),
            ("/html", None),
            ("text/a b", None),
            ("text/html/x", None),
            ("text/h\u{e4}", None),
            ("", None),
        ] {
            assert_eq!(said_type(said).as_deref(), is, "{said:?}");
        }
    }
}
