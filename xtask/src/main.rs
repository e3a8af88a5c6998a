//! `cargo xtask`: everything a contributor does to this repository, one word each.
//!
//! This file knows which words exist and nothing else. Each word lives in the file of its name; it
//! receives the rest of the command line and says in its help what it is for.

mod cargo;
mod codegen;
mod console;
mod delegate;
mod deny;
mod setup;
mod suites;
mod test;
mod tidy;
mod up;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// One word of the command line.
struct Verb {
    name: &'static str,
    summary: &'static str,
    /// `None` where the program behind the verb answers `--help` itself.
    help: Option<&'static str>,
    run: fn(Vec<OsString>) -> anyhow::Result<()>,
}

const VERBS: &[Verb] = &[
    up::VERB,
    test::VERB,
    tidy::VERB,
    deny::VERB,
    codegen::VERB,
    console::VERB,
    delegate::CRASH,
    delegate::SIM,
    delegate::PLANTED,
    delegate::BENCH,
];

fn main() -> ExitCode {
    match answer(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn answer(mut words: Vec<OsString>) -> anyhow::Result<()> {
    if words.is_empty() || asks_for_help(&words[0]) || words[0] == "help" {
        return say(&overview());
    }
    let name = words.remove(0);
    let Some(verb) = VERBS.iter().find(|verb| name == verb.name) else {
        anyhow::bail!("no verb {}\n\n{}", name.display(), overview());
    };
    match verb.help {
        Some(help) if words.iter().any(asks_for_help) => say(help),
        _ => (verb.run)(words),
    }
}

fn asks_for_help(word: &OsString) -> bool {
    word == "--help" || word == "-h"
}

/// For verbs that take no words.
fn takes_no_words(words: &[OsString]) -> anyhow::Result<()> {
    match words.first() {
        None => Ok(()),
        Some(word) => anyhow::bail!("unexpected {}; try --help", word.display()),
    }
}

fn overview() -> String {
    let mut text = String::from("Everything one does to this repository.\n\n");
    for verb in VERBS {
        let _ = writeln!(text, "  cargo xtask {:<8} {}", verb.name, verb.summary);
    }
    text.push_str(
        "\n`cargo xtask VERB --help` says more. New here? Start with `cargo xtask up`.\n",
    );
    text
}

/// A closed pipe (`cargo xtask | head -1`) is not an error worth a panic.
fn say(text: &str) -> anyhow::Result<()> {
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overview_names_every_verb_once() {
        let text = overview();
        for verb in VERBS {
            let line = format!("cargo xtask {} ", verb.name);
            assert_eq!(text.matches(&line).count(), 1, "{} in\n{text}", verb.name);
        }
    }

    #[test]
    fn an_unknown_verb_is_refused_and_taught() {
        let error = answer(vec!["tset".into()]).expect_err("tset is no verb");
        assert!(error.to_string().contains("cargo xtask test"), "{error}");
    }

    #[test]
    fn every_help_begins_with_how_the_verb_is_called() {
        for verb in VERBS {
            let Some(help) = verb.help else { continue };
            assert!(help.starts_with(&format!("cargo xtask {}", verb.name)), "{}", verb.name);
        }
    }
}
