//! Files that are broken, locked, or meant to hurt: refused with a reason.

use std::path::Path;

use windrow_pipelines::adapters::ocr::{Ocr as _, OcrError};
use windrow_pipelines::adapters::pdf::{Pdf, PdfError};
use windrow_pipelines::adapters::tool;

use crate::{Folder, inbox, made, tesseract};

#[track_caller]
fn broken<T: std::fmt::Debug>(read: Result<T, PdfError>, word: &str) {
    match read {
        Err(PdfError::Broken { why }) if why.contains(word) => {}
        other => panic!("{word}: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_that_was_cut_is_refused_with_the_reason() {
    let pdf = Pdf::default();
    let file = inbox::path("corrupt-ledger.pdf");
    broken(pdf.pages(&file).await, "Couldn't read xref table");
    broken(pdf.text_layer(&file, 1).await, "Couldn't read xref table");
    broken(pdf.raster(&file, 1, 150).await, "Couldn't read xref table");
}

#[tokio::test]
async fn what_is_no_file_of_pages_is_refused_with_the_reason() {
    let folder = Folder::new("no-file");
    let pdf = Pdf::default();
    broken(pdf.pages(&folder.file("empty.pdf", b"")).await, "empty");
    broken(pdf.pages(&folder.file("text.pdf", b"not a PDF")).await, "neither a PDF nor a picture");
    broken(pdf.pages(Path::new("/not/there.pdf")).await, "not there");
    broken(pdf.pages(&folder.file("only.pdf", b"%PDF-1.7\n")).await, "pdfinfo failed");
    let none = made::pdf(&[], "");
    broken(pdf.pages(&folder.file("none.pdf", &none)).await, "");
    let read = pdf.pages(&folder.0).await;
    assert!(matches!(read, Err(PdfError::Transient { .. })), "a directory: {read:?}");
}

#[tokio::test]
async fn a_file_with_a_password_is_refused_as_such() {
    let folder = Folder::new("locked");
    let key = "0123456789abcdef".repeat(4);
    let lock = format!(
        "/ID [<{key}> <{key}>] \
         /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>"
    );
    let file = folder.file("locked.pdf", &made::pdf(&[made::text_page("secret")], &lock));
    let pdf = Pdf::default();
    assert_eq!(pdf.pages(&file).await, Err(PdfError::Encrypted));
    assert_eq!(pdf.text_layer(&file, 1).await, Err(PdfError::Encrypted));
    assert_eq!(pdf.raster(&file, 1, 150).await.unwrap_err(), PdfError::Encrypted);
}

#[tokio::test]
async fn a_page_that_is_not_there_is_refused() {
    let pdf = Pdf::default();
    for (name, page) in
        [("sourdough-trials.pdf", 3), ("sourdough-trials.pdf", 0), ("notice-board.png", 2)]
    {
        let file = inbox::path(name);
        broken(pdf.text_layer(&file, page).await, "");
        broken(pdf.raster(&file, page, 150).await, "");
    }
}

#[tokio::test]
async fn a_sheet_as_large_as_a_house_becomes_a_picture_that_can_be_held() {
    let folder = Folder::new("large");
    let sheet = Some((14_400, 7_200));
    let page = made::Page { text: "small print".into(), sheet, ..made::Page::default() };
    let file = folder.file("large.pdf", &made::pdf(&[page], ""));
    let image = Pdf::default().raster(&file, 1, 300).await.unwrap();
    let (width, height) = made::png_size(&std::fs::read(image.path()).unwrap());
    assert!((9_990..=10_010).contains(&width), "{width}");
    assert!((4_990..=5_010).contains(&height), "{height}");
}

#[tokio::test]
async fn a_file_that_takes_too_much_is_ended_and_refused() {
    let mut options = tool::Options::default();
    options.limits.memory_bytes = 48 << 20;
    let file = inbox::path("scan-well-survey.pdf");
    broken(Pdf::new(options).raster(&file, 1, 600).await, "bytes of memory");
    let mut options = tool::Options::default();
    options.limits.file_bytes = 4_096;
    broken(Pdf::new(options).raster(&file, 1, 300).await, "wrote more than 4096 bytes");
    let mut options = tool::Options::default();
    options.limits.output_bytes = 100;
    broken(
        Pdf::new(options).text_layer(&inbox::path("beekeeping-year.pdf"), 1).await,
        "more than 100",
    );
}

#[tokio::test]
async fn a_page_that_is_drawn_in_part_says_so() {
    let folder = Folder::new("in-part");
    let whole = std::fs::read(inbox::path("scan-well-survey.pdf")).unwrap();
    let mut damaged = whole.clone();
    let at = whole.windows(6).position(|six| six == b"stream").unwrap() + 100;
    damaged[at..at + 4_000].fill(0);
    let pdf = Pdf::default();
    let image = pdf.raster(&folder.file("damaged.pdf", &damaged), 1, 72).await.unwrap();
    assert!(image.complaint().is_some_and(|said| said.contains("Error")), "{image:?}");
    let image = pdf.raster(&folder.file("whole.pdf", &whole), 1, 72).await.unwrap();
    assert_eq!(image.complaint(), None);
}

#[tokio::test]
async fn a_picture_that_is_broken_is_bad() {
    let folder = Folder::new("broken-picture");
    let whole = std::fs::read(inbox::path("notice-board.png")).unwrap();
    let cut = folder.file("cut.png", &whole[..60]);
    let read = tesseract().read(&cut).await;
    assert!(matches!(&read, Err(OcrError::Bad { .. })), "{read:?}");
    // To tesseract a text is a list of files to read; nobody else's are.
    let list = format!("{}\n", inbox::path("notice-board.png").display());
    let read = tesseract().read(&folder.file("list.png", list.as_bytes())).await;
    assert!(matches!(&read, Err(OcrError::Bad { why }) if why.contains("neither")), "{read:?}");
    let read = tesseract().read(&inbox::path("beekeeping-year.pdf")).await;
    assert!(matches!(&read, Err(OcrError::Bad { .. })), "{read:?}");
}
