//! Up: builds Windrow as users get it and runs its main job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use crate::setup::Need;
use crate::{Verb, cargo, say, setup};

pub(crate) const VERB: Verb = Verb {
    name: "up",
    summary: "builds windrow, reads examples/inbox with it, and asks it three questions",
    help: Some(HELP),
    run,
};

const HELP: &str = "\
cargo xtask up [ARGUMENTS...]

Installs poppler and tesseract if they are missing, builds the `windrow`
program in release mode, and runs `windrow up --once examples/inbox` on a data
directory in `target`: a dozen documents (PDFs, scans, pictures, texts) are
read, cut, embedded and linked, and what could not be read is said with its
reason. Then it asks three of the questions in examples/inbox-questions.json.
A second run has nothing to do and says so.

ARGUMENTS take the place of `--once examples/inbox`, and no question is asked:

  cargo xtask up ~/papers

Without cargo, once it is built:

  target/release/windrow up --help
  target/release/windrow demo
";

/// The questions that are asked, by their place: of a PDF, of a scan, and of a page of HTML.
const ASKED: [usize; 3] = [1, 5, 8];

fn run(words: Vec<OsString>) -> anyhow::Result<()> {
    // Whatever cannot be installed is named again by whoever needs it.
    if let Err(error) = setup::ensure(&[Need::Poppler, Need::Tesseract]) {
        eprintln!("set-up: {error:#}; going on without");
    }
    cargo::run(&mut cargo::cargo(&["build", "--release", "-p", "windrow-server"]))?;
    let asks = words.is_empty();
    let what = if asks { vec!["--once".into(), "examples/inbox".into()] } else { words };
    // Any port will do, so that no other server is in the way.
    let mut up = windrow("up");
    cargo::run(up.args(["--listen", "127.0.0.1:0", "--rpc-listen", "off"]).args(what))?;
    if !asks {
        return Ok(());
    }
    for question in questions()? {
        say(&format!("\n> {question}\n"))?;
        cargo::run(windrow("search").args(["--limit", "1"]).arg(question))?;
    }
    say(&format!("\n`windrow` is {0}/windrow; export PATH=\"{0}:$PATH\"\n", bin_dir().display()))
}

/// Where the program is.
fn bin_dir() -> PathBuf {
    cargo::target_dir().join("release")
}

/// The program, with a command on the data directory of this verb.
fn windrow(command: &str) -> Command {
    let mut windrow = Command::new(bin_dir().join("windrow"));
    windrow.arg(command).arg("--data-dir").arg(data_dir()).current_dir(cargo::root());
    windrow
}

/// Where the queue is: as people would write it, if it is where it usually is.
fn data_dir() -> PathBuf {
    let dir = cargo::target_dir();
    let dir = dir.strip_prefix(cargo::root()).map_or(dir.clone(), PathBuf::from);
    dir.join("up")
}

fn questions() -> anyhow::Result<Vec<String>> {
    let path = cargo::root().join("examples/inbox-questions.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let all: Vec<Value> = serde_json::from_str(&text)?;
    let asked = ASKED.iter().filter_map(|at| all.get(*at)?["question"].as_str());
    Ok(asked.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_questions_that_are_asked_are_there() {
        let questions = questions().unwrap();
        assert_eq!(questions.len(), ASKED.len());
        assert!(questions.iter().all(|question| question.ends_with('?')), "{questions:?}");
    }
}
