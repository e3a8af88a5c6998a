//! The reader of every kind of file, as the pipeline has it.

use std::sync::Arc;

use windrow_pipelines::adapters::ocr::tesseract::{Options, Tesseract};
use windrow_pipelines::adapters::pdf::Pdf;
use windrow_pipelines::adapters::reader::AnyFile;
use windrow_pipelines::documents::{ReadError, Reader as _};

use crate::{Folder, inbox, made, tesseract};

fn reader() -> AnyFile {
    AnyFile { pdf: Pdf::default(), ocr: Arc::new(tesseract()) }
}

#[tokio::test]
async fn each_file_is_read_by_who_can() {
    let reader = reader();
    for (name, media_type, pages, how, word) in [
        ("composting.md", "text/markdown", 1, "text", "# Composting Without Smell"),
        ("seed-library.txt", "text/plain", 1, "text", "THE SEED LIBRARY"),
        ("observatory.html", "text/html", 1, "text", "| Adult | 6.50 |"),
        ("sourdough-trials.pdf", "application/pdf", 2, "text_layer", "# Sourdough Trials"),
        // What it is said to be matters less than what it is.
        ("sourdough-trials.pdf", "text/plain", 2, "text_layer", "# Sourdough Trials"),
        ("sourdough-trials.pdf", "application/octet-stream", 2, "text_layer", "# Sourdough"),
        ("scan-well-survey.pdf", "application/pdf", 1, "ocr", "nineteen metres deep"),
        ("notice-board.png", "image/png", 1, "ocr", "one red accordion"),
    ] {
        let file = inbox::path(name);
        assert_eq!(reader.pages(&file, media_type).await, Ok(pages), "{name}");
        let page = reader.read(&file, media_type, 1).await.unwrap();
        assert_eq!(page.how, how, "{name}");
        let text = page.markdown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(word), "{name}: {text}");
    }
}

#[tokio::test]
async fn a_text_may_speak_of_pdfs() {
    let folder = Folder::new("speaks");
    let file = folder.file("about.md", b"A PDF begins with %PDF-1.7 and some bytes.");
    let reader = reader();
    assert_eq!(reader.pages(&file, "text/markdown").await, Ok(1));
    assert_eq!(reader.read(&file, "text/markdown", 1).await.unwrap().how, "text");
}

#[tokio::test]
async fn what_cannot_be_read_is_bad_with_the_reason_and_what_is_missing_is_named() {
    let (reader, folder) = (reader(), Folder::new("unreadable"));
    let text = folder.file("text.pdf", b"no PDF at all");
    for (file, word) in [(&inbox::path("corrupt-ledger.pdf"), "xref"), (&text, "neither a PDF")] {
        let read = reader.pages(file, "application/pdf").await;
        assert!(matches!(&read, Err(ReadError::Bad { why }) if why.contains(word)), "{read:?}");
    }
    let options = Options { tool: folder.alone(), ..Options::default() };
    let ocr = Arc::new(Tesseract::new(options).unwrap());
    let reader = AnyFile { ocr, ..reader };
    let read = reader.read(&inbox::path("notice-board.png"), "image/png", 1).await;
    let (program, package) = ("tesseract".to_owned(), "tesseract-ocr".to_owned());
    assert_eq!(read, Err(ReadError::Missing { program, package }));
    // Who needs no OCR does not wait for it.
    let file = inbox::path("sourdough-trials.pdf");
    assert_eq!(reader.read(&file, "application/pdf", 2).await.unwrap().how, "text_layer");
}

#[tokio::test]
async fn a_page_that_is_empty_because_it_is_broken_is_bad() {
    let folder = Folder::new("empty-or-broken");
    let reader = reader();
    let empty = folder.file("empty.pdf", &made::pdf(&[made::Page::default()], ""));
    assert_eq!(reader.read(&empty, "application/pdf", 1).await.unwrap().markdown, "");
    let mut broken = std::fs::read(inbox::path("scan-well-survey.pdf")).unwrap();
    let at = broken.windows(6).position(|six| six == b"stream").unwrap() + 7;
    broken[at..at + 20_000].fill(0);
    let read = reader.read(&folder.file("broken.pdf", &broken), "application/pdf", 1).await;
    assert!(matches!(&read, Err(ReadError::Bad { why }) if why.contains("Error")), "{read:?}");
}

#[tokio::test]
async fn what_reads_otherwise_has_another_version() {
    let first = reader();
    let options = Options { dpi: 300, ..Options::default() };
    let second = AnyFile { ocr: Arc::new(Tesseract::new(options).unwrap()), ..first.clone() };
    assert_ne!(first.version(), second.version());
}
