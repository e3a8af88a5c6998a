//! Files of pages, read by the real programs: poppler and tesseract, which `cargo xtask test`
//! installs where they are missing.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod files;
mod hostile;
mod inbox;
mod made;

use std::path::{Path, PathBuf};

use windrow_pipelines::adapters::ocr::tesseract::{Options, Tesseract};
use windrow_pipelines::adapters::ocr::{Ocr as _, OcrError};
use windrow_pipelines::adapters::pdf::{Pdf, PdfError};
use windrow_pipelines::adapters::tool;

fn tesseract() -> Tesseract {
    Tesseract::new(Options::default()).unwrap()
}

/// A directory of one test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("windrow-reading-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a directory of this test's own");
        Folder(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Options whose runs are in here, and find programs in here only.
    fn alone(&self) -> tool::Options {
        tool::Options { path: Some(self.0.clone().into()), ..tool::Options::default() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn what_is_not_installed_is_named_with_its_package() {
    let nothing = Folder::new("missing");
    let pdf = Pdf::new(nothing.alone());
    let file = inbox::path("beekeeping-year.pdf");
    let poppler = |program| PdfError::Missing { program, package: "poppler-utils" };
    assert_eq!(pdf.pages(&file).await, Err(poppler("pdfinfo")));
    assert_eq!(pdf.text_layer(&file, 1).await, Err(poppler("pdftotext")));
    assert_eq!(pdf.raster(&file, 1, 150).await.unwrap_err(), poppler("pdfinfo"));
    // A picture needs none of it.
    assert_eq!(pdf.pages(&inbox::path("notice-board.png")).await, Ok(1));
    let options = Options { tool: nothing.alone(), ..Options::default() };
    let error = Tesseract::new(options).unwrap().read(&inbox::path("notice-board.png")).await;
    let said = "tesseract is not installed; the package tesseract-ocr has it";
    assert_eq!(error.unwrap_err().to_string(), said);
}

#[tokio::test]
async fn a_language_that_is_not_installed_is_named_with_its_package() {
    for languages in ["tlh", "eng+tlh"] {
        let options = Options { languages: languages.to_owned(), ..Options::default() };
        let read = Tesseract::new(options).unwrap().read(&inbox::path("notice-board.png")).await;
        let what = "the language tlh of tesseract".to_owned();
        let package = "tesseract-ocr-tlh".to_owned();
        assert_eq!(read, Err(OcrError::Missing { what, package }), "{languages}");
    }
}

#[tokio::test]
async fn a_picture_of_a_page_goes_when_nobody_needs_it() {
    let scratch = Folder::new("goes");
    let options = tool::Options { scratch: Some(scratch.0.clone()), ..tool::Options::default() };
    let left = || std::fs::read_dir(&scratch.0).unwrap().count();
    let image =
        Pdf::new(options).raster(&inbox::path("sourdough-trials.pdf"), 2, 72).await.unwrap();
    assert!(image.path().starts_with(&scratch.0) && left() == 1);
    assert_eq!(made::png_size(&std::fs::read(image.path()).unwrap()), (595, 842));
    drop(image);
    assert_eq!(left(), 0);
}

#[tokio::test]
async fn a_file_may_have_any_name() {
    let folder = Folder::new("names");
    let page = made::text_page("The lamp is lit half an hour before sunset.");
    let file = folder.file("-f 2; echo $(x) 'a\".pdf", &made::pdf(&[page], ""));
    let pdf = Pdf::default();
    assert_eq!(pdf.pages(&file).await, Ok(1));
    let text = pdf.text_layer(&file, 1).await.unwrap().expect("a text layer");
    assert_eq!(text, "The lamp is lit half an hour before sunset.");
    assert!(pdf.raster(&file, 1, 50).await.unwrap().path().is_file());
    let picture = std::fs::read(inbox::path("notice-board.png")).unwrap();
    let read = tesseract().read(&folder.file("-l 'x;\n$(y).png", &picture)).await.unwrap();
    assert!(read.starts_with("# Village Hall Notice\n"), "{read}");
}

#[tokio::test]
async fn a_page_without_text_is_read_as_nothing() {
    let folder = Folder::new("blank");
    let file = folder.file("blank.pdf", &made::pdf(&[made::Page::default()], ""));
    let pdf = Pdf::default();
    assert_eq!(pdf.text_layer(&file, 1).await, Ok(None));
    let image = pdf.raster(&file, 1, 100).await.unwrap();
    assert_eq!(tesseract().read(image.path()).await, Ok(String::new()));
}

#[tokio::test]
async fn a_number_beside_a_scan_does_not_keep_it_from_being_read() {
    let folder = Folder::new("stamp");
    let pdf = Pdf::default();
    let scan =
        made::Page { text: "Page 17 of 300".into(), picture_points: 560, ..made::Page::default() };
    let file = folder.file("scan.pdf", &made::pdf(&[scan], ""));
    assert_eq!(pdf.text_layer(&file, 1).await, Ok(None));
    // Beside a small picture, or with more to say, it is the page's text.
    let title =
        made::Page { text: "Page 17 of 300".into(), picture_points: 60, ..made::Page::default() };
    let file = folder.file("title.pdf", &made::pdf(&[title], ""));
    assert_eq!(pdf.text_layer(&file, 1).await, Ok(Some("Page 17 of 300".into())));
    let text =
        "A long caption that says in so many words what there is to see in the picture above it.";
    let caption = made::Page { text: text.into(), picture_points: 560, ..made::Page::default() };
    let file = folder.file("caption.pdf", &made::pdf(&[caption], ""));
    assert_eq!(pdf.text_layer(&file, 1).await, Ok(Some(text.into())));
}

#[tokio::test]
async fn a_layer_whose_signs_mean_nothing_is_none() {
    let folder = Folder::new("garbage");
    let mut page = made::text_page("The lamp is lit half an hour before sunset.");
    page.is_unmapped = true;
    let file = folder.file("garbage.pdf", &made::pdf(&[page], ""));
    assert_eq!(Pdf::default().text_layer(&file, 1).await, Ok(None));
}

/// Whether so much of the words of a text is in what was read.
fn share(expected: &str, read: &str) -> f64 {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let (expected, mut read) = (words(expected), words(read));
    let found = |word: &&String| {
        let at = read.iter().position(|one| one == *word);
        at.map(|at| read.swap_remove(at)).is_some()
    };
    let many = expected.len() as f64;
    expected.iter().filter(found).count() as f64 / many
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
