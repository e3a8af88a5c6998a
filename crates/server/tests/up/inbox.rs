//! `windrow up --once` over the examples.

use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;
use windrow_testkit::servers::listening::Listening;

use crate::rig::Data;
use crate::{examples, ran, says, windrow};

/// How many items there are in the queue of documents, by status.
fn items(home: &Data) -> Value {
    let all = ran(&mut windrow(home, &["stats", "--queue", "documents", "--json"]));
    assert_eq!(all.code, Some(0), "{}", all.err);
    serde_json::from_str(&all.out).unwrap()
}

#[test]
fn the_examples_are_read_to_the_end_and_their_questions_answered() {
    let home = Data::new("up-inbox");
    let inbox = examples().join("inbox");
    let inbox = inbox.to_str().unwrap();
    let first = ran(&mut windrow(&home, &["up", "--once", inbox]));
    assert_eq!(first.code, Some(0), "{}", first.err);
    let summary = [
        "12 added in",
        "12 documents (1 failed, 11 live): 17 pages",
        "4 by ocr, 5 as text, 8 by their text layer",
        "failed:\n  corrupt-ledger.pdf: pdfinfo failed",
        "search it: windrow search",
    ];
    says(&first.out, &summary);
    says(&first.err, &["is at http://", &format!("watching {inbox} (collection inbox)")]);

    // Once more: nothing is to be done, and nothing is done, not even what failed.
    let before = items(&home);
    let second = ran(&mut windrow(&home, &["up", "--once", inbox]));
    assert_eq!(second.code, Some(0), "{}", second.err);
    says(&second.out, &["nothing was to be done: 12 files are as they were", "corrupt-ledger.pdf"]);
    let strict = ran(&mut windrow(&home, &["up", "--once", "--strict", inbox]));
    assert_eq!((strict.code, strict.out), (Some(7), second.out), "{}", strict.err);
    assert_eq!(items(&home), before);

    let questions = std::fs::read_to_string(examples().join("inbox-questions.json")).unwrap();
    let questions: Vec<Value> = serde_json::from_str(&questions).unwrap();
    assert_eq!(questions.len(), 10);
    let is_found = |question: &&Value| {
        let words = question["question"].as_str().unwrap();
        let found = ran(&mut windrow(&home, &["search", words, "--limit", "5", "--json"]));
        assert_eq!(found.code, Some(0), "{}", found.err);
        let mut hits = found.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        hits.any(|hit| hit["name"] == question["file"] && hit["page"] == question["page"])
    };
    let found = questions.iter().filter(is_found).count();
    assert!(found >= 9, "only {found} of 10 were found");
}

#[test]
fn with_nothing_failed_strict_is_content() {
    let home = Data::new("up-strict");
    std::fs::create_dir(home.0.join("notes")).unwrap();
    std::fs::write(home.0.join("notes/a.md"), "# Apples\n\nThey keep until spring.").unwrap();
    std::fs::write(home.0.join("notes/.hidden"), "x").unwrap();
    let well = ran(&mut windrow(&home, &["up", "--once", "--strict", "notes"]));
    assert_eq!(well.code, Some(0), "{}{}", well.out, well.err);
    says(&well.out, &["1 added", "1 document (1 live): 1 page, 1 chunk", "left out: 1 hidden"]);
    // The same pages under another name are remembered; of a text there is nothing to remember.
    let trials = examples().join("inbox/sourdough-trials.pdf");
    std::fs::copy(&trials, home.0.join("notes/b.pdf")).unwrap();
    let read = ran(&mut windrow(&home, &["up", "--once", "notes"]));
    assert!(read.out.contains("1 added") && !read.out.contains("remembered"), "{}", read.out);
    std::fs::copy(&trials, home.0.join("notes/c.pdf")).unwrap();
    let again = ran(&mut windrow(&home, &["up", "--once", "notes"]));
    says(&again.out, &["1 added", "remembered from before, and not done again: ", "2 pages"]);
    std::fs::write(home.0.join("notes/a.md"), "# Apples\n\nThey went into the press.").unwrap();
    let changed = ran(&mut windrow(&home, &["up", "--once", "notes/a.md", "notes"]));
    says(&changed.out, &["1 added, 1 changed"]);
    // The file by itself is another source, in a collection of its own.
    says(&changed.err, &["(collection default)", "(collection notes)"]);
}

/// Poppler and nothing else on the path.
fn only_poppler(at: &Path) {
    std::fs::create_dir(at).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for program in ["pdfinfo", "pdftotext", "pdftoppm"] {
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(program));
        symlink(found.find(|program| program.is_file()).unwrap(), at.join(program)).unwrap();
    }
}

#[test]
fn scanned_pages_wait_for_a_missing_program_and_go_on_when_it_is_there() {
    let home = Data::new("up-missing");
    let tools = home.0.join("tools");
    only_poppler(&tools);
    let inbox = examples().join("inbox");
    let inbox = inbox.to_str().unwrap();
    let without = ran(windrow(&home, &["up", "--once", inbox]).env("PATH", &tools));
    assert_eq!(without.code, Some(0), "{}", without.err);
    let waits = "waiting:\n  4 pages wait for tesseract; install tesseract-ocr";
    says(&without.out, &["12 documents (1 failed, 8 live, 3 unfinished): 13 pages", waits]);
    let strict = ["up", "--once", "--strict", inbox];
    let strict = ran(windrow(&home, &strict).env("PATH", &tools));
    assert_eq!(strict.code, Some(7), "{}", strict.out);
    says(&strict.out, &[waits]);
    // What could be read is found meanwhile.
    let words = ["search", "oxalic acid against varroa", "--json", "--limit", "1"];
    says(&ran(&mut windrow(&home, &words)).out, &["beekeeping-year.pdf"]);
    let documents = ["list", "kind:document", "--all", "--json"];
    let before = ran(&mut windrow(&home, &documents)).out.lines().count();
    assert_eq!(before, 12);

    let with = ran(&mut windrow(&home, &["up", "--once", inbox]));
    assert_eq!(with.code, Some(0), "{}", with.err);
    let went_on = ["went on with what waited", "12 documents (1 failed, 11 live): 17 pages"];
    says(&with.out, &went_on);
    let after = ran(&mut windrow(&home, &documents)).out.lines().count();
    assert_eq!(after, before, "none was begun again");
    let words = ["search", "Mill Lane bridge", "--json", "--limit", "1"];
    says(&ran(&mut windrow(&home, &words)).out, &["scan-tram-minutes.pdf"]);
}

/// It was `unfinished` without a word of why, and strict was content.
#[test]
fn a_document_that_nobody_goes_on_with_is_no_success() {
    let home = Data::new("up-cancelled");
    std::fs::create_dir(home.0.join("notes")).unwrap();
    std::fs::write(home.0.join("notes/a.md"), "# Apples\n\nThey keep until spring.").unwrap();
    std::fs::create_dir(home.0.join("empty")).unwrap();
    let made = ran(&mut windrow(&home, &["up", "--once", "empty"]));
    assert_eq!(made.code, Some(0), "{}", made.err);
    let added = ran(&mut windrow(&home, &["add", "notes/a.md", "--collection", "notes"]));
    assert_eq!(added.code, Some(0), "{}", added.err);
    let listed = ran(&mut windrow(&home, &["list", "kind:document", "--json"]));
    let item: Value = serde_json::from_str(&listed.out).unwrap();
    let cancelled = ran(&mut windrow(&home, &["cancel", item["id"].as_str().unwrap()]));
    assert_eq!(cancelled.code, Some(0), "{}", cancelled.err);
    let strict = ran(&mut windrow(&home, &["up", "--once", "--strict", "notes"]));
    says(&strict.out, &["1 document (1 unfinished)", "a.md: its item was cancelled"]);
    assert_eq!(strict.code, Some(7), "{}", strict.err);
}

/// A command that is under way, and what it says.
struct Under {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Under {
    fn start(command: &mut Command) -> Under {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Under { child, lines }
    }

    /// The first line with some words.
    #[track_caller]
    fn says(&mut self, words: &str) -> String {
        let line = self.lines.find_map(|line| line.ok().filter(|line| line.contains(words)));
        line.unwrap_or_else(|| panic!("it ended without {words:?}"))
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        let _ended = (self.child.kill(), self.child.wait());
    }
}

/// Both hung without a word.
#[test]
fn who_waits_for_what_only_somebody_can_change_is_told_so() {
    let home = Data::new("up-held");
    let tools = home.0.join("tools");
    only_poppler(&tools);
    std::fs::create_dir(home.0.join("notes")).unwrap();
    std::fs::write(home.0.join("notes/a.md"), "# Apples\n\nThey keep until spring.").unwrap();
    let mut serve = Listening::start(windrow(&home, &["serve"]).env("PATH", &tools)).unwrap();
    assert_eq!(ran(&mut windrow(&home, &["pause", "documents"])).code, Some(0));
    let mut up = Under::start(&mut windrow(&home, &["up", "--once", "notes"]));
    says(&up.says("nothing moves"), &["paused", "waits for resuming queue documents"]);
    let mut add = Under::start(&mut windrow(&home, &["add", "notes/a.md"]));
    says(&add.says("nothing moves"), &["paused"]);
    assert_eq!(ran(&mut windrow(&home, &["resume", "documents"])).code, Some(0));
    assert_eq!(up.child.wait().unwrap().code(), Some(0));
    assert_eq!(add.child.wait().unwrap().code(), Some(0));

    let scan = examples().join("inbox/scan-tram-minutes.pdf");
    let mut add = Under::start(&mut windrow(&home, &["add", scan.to_str().unwrap()]));
    says(&add.says("for tesseract"), &["install tesseract-ocr"]);
    drop(add);
    serve.stop();
}

#[test]
fn a_folder_without_a_file_is_told_with_what_would_be_read() {
    let home = Data::new("up-empty");
    std::fs::create_dir(home.0.join("notes")).unwrap();
    let empty = ran(&mut windrow(&home, &["up", "--once", "--strict", "notes"]));
    assert_eq!(empty.code, Some(0), "{}", empty.err);
    let reads = "notes; text, Markdown, HTML, PDF, PNG, JPEG and TIFF are read";
    says(&empty.out, &["there is no file to read in ", reads]);
    assert_eq!(empty.out.lines().count(), 1, "{}", empty.out);
    // Whoever watches is told too, before anything comes.
    let printed = home.0.join("printed");
    let mut command = windrow(&home, &["up", "notes"]);
    command.stdout(std::fs::File::create(&printed).unwrap());
    let mut up = Listening::start(&mut command).unwrap();
    up.hears(|line| line.contains("watching for new and changed files").then_some(())).unwrap();
    up.stop();
    says(&std::fs::read_to_string(printed).unwrap(), &["there is no file to read in "]);
}

#[test]
fn what_takes_too_long_ends_and_goes_on_later() {
    let home = Data::new("up-late");
    std::fs::create_dir(home.0.join("notes")).unwrap();
    std::fs::write(home.0.join("notes/a.md"), "Apples keep until spring.").unwrap();
    let late = ran(&mut windrow(&home, &["up", "--once", "--timeout", "0s", "notes"]));
    assert_eq!(late.code, Some(6), "{}", late.err);
    says(&late.err, &["the time is over, and not everything is read"]);
    let later = ran(&mut windrow(&home, &["up", "--once", "--timeout", "10m", "notes"]));
    assert_eq!(later.code, Some(0), "{}", later.err);
    says(&later.out, &["1 document (1 live): 1 page"]);
}

#[test]
fn what_cannot_be_begun_is_said_before_anything_is_made() {
    let home = Data::new("up-refused");
    let nothing = ran(&mut windrow(&home, &["up", "--once", "nothing"]));
    assert_eq!(nothing.code, Some(3), "{}", nothing.err);
    says(&nothing.err, &["nothing is not there"]);
    std::fs::create_dir(home.0.join("notes")).unwrap();
    let mut off = windrow(&home, &["up", "notes"]);
    let off = ran(off.env("WINDROW_DOCUMENTS__ENABLED", "false"));
    assert_eq!(off.code, Some(2), "{}", off.err);
    says(&off.err, &["documents.enabled is false (from WINDROW_DOCUMENTS__ENABLED)"]);
    let strict = ran(&mut windrow(&home, &["up", "--strict", "notes"]));
    assert_eq!(strict.code, Some(2), "{}", strict.err);
    assert!(!home.0.join("store").exists());
}
