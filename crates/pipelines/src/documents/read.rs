//! Reading: from a file to the Markdown of its pages.
//!
//! [`TextFiles`] reads what is text already. What else a file may be is read by outside programs,
//! in `adapters/`.

use std::fmt;
use std::path::Path;

use futures_util::future::BoxFuture;

use crate::text::{csv, html, markdown, plain};

/// Bytes of a text file that are read; a longer one is no document.
const TEXT_MAX: u64 = 64 * 1024 * 1024;

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
    async fn all(self, file: &Path, media_type: &str) -> Result<Vec<String>, ReadError> {
        let (file, media_type) = (file.to_owned(), media_type.to_owned());
        let read = tokio::task::spawn_blocking(move || pages_of(&file, &media_type)).await;
        let ended =
            |_| ReadError::Transient { why: "it was given up".into(), retry_after_ms: None };
        read.map_err(ended)?
    }
}

impl Reader for TextFiles {
    fn version(&self) -> String {
        "text 2".into()
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
            let markdown = all.into_iter().nth(page.saturating_sub(1) as usize);
            let markdown = markdown.ok_or_else(|| ReadError::bad("there is no such page"))?;
            Ok(PageText { markdown, how: "text" })
        })
    }
}

fn pages_of(file: &Path, media_type: &str) -> Result<Vec<String>, ReadError> {
    let unread = |error: std::io::Error| ReadError::Transient {
        why: format!("the file cannot be read: {error}"),
        retry_after_ms: None,
    };
    if std::fs::metadata(file).map_err(unread)?.len() > TEXT_MAX {
        return Err(ReadError::bad("it is larger than 64 MiB"));
    }
    let bytes = std::fs::read(file).map_err(unread)?;
    let text = plain::decode(&bytes).map_err(ReadError::bad)?.text;
    let pages = match media_type {
        "text/html" | "application/xhtml+xml" => vec![html::read(&text).markdown],
        "text/csv" => vec![csv::table(&text, None)],
        "text/tab-separated-values" => vec![csv::table(&text, Some('\t'))],
        "text/plain" => plain::pages(&text),
        _ => plain::typed_pages(&text),
    };
    Ok(pages.into_iter().flat_map(markdown::pages).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of a file with these bytes.
    fn pages(media_type: &str, bytes: &[u8]) -> Result<Vec<String>, ReadError> {
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
            for page in pages {
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
