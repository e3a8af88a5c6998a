//! The inbox of the examples: every good page gives its text, and the questions about it have their
//! answers where they say.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use windrow_pipelines::adapters::ocr::Ocr as _;
use windrow_pipelines::adapters::pdf::Pdf;
use windrow_pipelines::text::{html, plain};

use crate::{manifest, share, tesseract};

const BORN_DIGITAL: [&str; 3] =
    ["beekeeping-year.pdf", "lighthouse-handbook.pdf", "sourdough-trials.pdf"];
const SCANS: [&str; 3] = ["scan-tram-minutes.pdf", "scan-well-survey.pdf", "notice-board.png"];

pub(crate) fn path(name: &str) -> PathBuf {
    manifest().join("../../examples/inbox").join(name)
}

/// The texts that a file was made of, page by page.
fn made_of(name: &str) -> Vec<String> {
    let path = manifest().join("../../examples/inbox-pages").join(format!("{name}.md"));
    let text = std::fs::read_to_string(path).unwrap();
    text.split("<!-- page -->\n").map(|page| page.trim().to_owned()).collect()
}

/// The text with each table's rules and spaces as we write them.
fn normal(markdown: &str) -> String {
    let line = |line: &str| {
        let cells = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
        let Some(cells) = cells else {
            return line.to_owned();
        };
        let cell = |cell: &str| {
            let is_rule = cell.trim().bytes().all(|byte| byte == b'-') && !cell.trim().is_empty();
            if is_rule { "---".to_owned() } else { cell.trim().to_owned() }
        };
        format!("| {} |", cells.split('|').map(cell).collect::<Vec<_>>().join(" | "))
    };
    markdown.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_page_that_was_born_digital_gives_its_text_with_headings_and_tables() {
    let pdf = Pdf::default();
    for name in BORN_DIGITAL {
        let pages = made_of(name);
        assert_eq!(pdf.pages(&path(name)).await, Ok(pages.len() as u32), "{name}");
        for (number, expected) in (1..).zip(&pages) {
            let text = pdf.text_layer(&path(name), number).await.unwrap();
            assert_eq!(text.expect("a text layer"), normal(expected), "{name}, page {number}");
        }
    }
}

#[tokio::test]
async fn a_page_that_is_a_picture_is_read_off_it() {
    let (pdf, tesseract) = (Pdf::default(), tesseract());
    for name in SCANS {
        let pages = made_of(name);
        assert_eq!(pdf.pages(&path(name)).await, Ok(pages.len() as u32), "{name}");
        for (number, expected) in (1..).zip(&pages) {
            assert_eq!(
                pdf.text_layer(&path(name), number).await,
                Ok(None),
                "{name}, page {number}"
            );
            let image = pdf.raster(&path(name), number, tesseract.dpi()).await.unwrap();
            let read = tesseract.read(image.path()).await.unwrap();
            let share = share(expected, &read);
            assert!(share >= 0.95, "{name}, page {number}: {share}\n{read}");
            let paragraphs = |text: &str| text.split("\n\n").count();
            assert_eq!(paragraphs(&read), paragraphs(expected), "{name}, page {number}\n{read}");
            let title = expected.lines().next().unwrap();
            assert_eq!(read.lines().next(), Some(title), "{name}, page {number}\n{read}");
        }
    }
}

#[derive(Deserialize)]
struct Question {
    question: String,
    file: String,
    page: usize,
}

/// What a file says, page by page.
fn pages_of(name: &str) -> Vec<String> {
    if BORN_DIGITAL.contains(&name) || SCANS.contains(&name) {
        return made_of(name);
    }
    let text = plain::decode(&std::fs::read(path(name)).unwrap()).unwrap().text;
    if name.ends_with(".html") { vec![html::read(&text).markdown] } else { plain::pages(&text) }
}

#[test]
fn ten_questions_have_their_answers_in_the_inbox_in_other_words() {
    let questions = manifest().join("../../examples/inbox-questions.json");
    let questions: Vec<Question> =
        serde_json::from_slice(&std::fs::read(questions).unwrap()).unwrap();
    assert_eq!(questions.len(), 10);
    let mut files = BTreeSet::new();
    for Question { question, file, page } in &questions {
        let pages = pages_of(file);
        let text = pages.get(page - 1).unwrap_or_else(|| panic!("{file} has no page {page}"));
        let shared = share(question, text);
        assert!((0.3..1.0).contains(&shared), "{question} {shared}");
        assert!(!text.contains(question.trim_end_matches('?')), "{question}");
        files.insert(file);
    }
    assert!(files.len() >= 7, "{files:?}");
}

#[test]
fn the_inbox_is_small_and_has_something_of_everything() {
    let (mut bytes, mut names) = (0, Vec::new());
    for entry in std::fs::read_dir(path("")).unwrap() {
        let entry = entry.unwrap();
        bytes += entry.metadata().unwrap().len();
        names.push(entry.file_name().into_string().unwrap());
    }
    assert!(bytes < 1_000_000, "{bytes} bytes");
    for (end, many) in [(".pdf", 6), (".md", 3), (".html", 1), (".txt", 1), (".png", 1)] {
        assert_eq!(names.iter().filter(|name| name.ends_with(end)).count(), many, "{end}");
    }
}
