//! The command line, as people use it: sessions with what they print, every help text, and the
//! pages of the documentation that can be played.
//!
//! A session is a text file in `sessions/`: lines that begin with `$ ` are given to `sh`, and what
//! follows is what they print, `! ` before what went to standard error, and `[3]` for an exit code
//! that is not 0. Every session runs three times: on a data directory, on the same with a server
//! that is found by itself, and on a server that is named and wants a token. It must print the
//! same. Some run on a database too.
//! `UPDATE=1` writes down what is printed now.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod mode;
mod page;
mod plain;
#[path = "../rig/mod.rs"]
mod rig;
mod session;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

use mode::{Mode, World};

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")
}

/// Whether what is printed is to be written down.
fn updates() -> bool {
    std::env::var_os("UPDATE").is_some()
}

fn main() {
    let mut trials = Vec::new();
    for path in files("sessions") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        for mode in session::modes(&text) {
            let (path, text, name) = (path.clone(), text.clone(), name.clone());
            let trial = format!("{name}, {}", mode.name());
            trials.push(Trial::test(trial, move || played(&path, &text, &name, mode)));
        }
    }
    for path in page::all() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        trials.push(Trial::test(format!("{name} does what it says"), move || page::played(&path)));
    }
    trials.push(Trial::test("every command has its help, and no other", helps));
    trials.push(Trial::test("a changed session is noticed", a_changed_session_is_noticed));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn files(folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(here().join(folder)).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Plays a session and compares.
fn played(path: &Path, text: &str, name: &str, mode: Mode) -> Result<(), Failed> {
    let world = World::new(name, mode);
    let printed = session::play(text, &world);
    same(path, text, &printed)
}

fn same(path: &Path, expected: &str, printed: &str) -> Result<(), Failed> {
    if printed == expected {
        return Ok(());
    }
    if updates() {
        std::fs::write(path, printed)?;
        return Ok(());
    }
    let (mut old, mut new) = (expected.lines(), printed.lines());
    let differ = loop {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (old, new) => break format!("- {}\n+ {}", old.unwrap_or(""), new.unwrap_or("")),
        }
    };
    let shown = path.file_name().unwrap().to_string_lossy();
    Err(format!("{shown} is not what is printed now:\n{differ}\n\nall of it:\n{printed}").into())
}

/// The negative control: a session that says something else than what is printed fails.
fn a_changed_session_is_noticed() -> Result<(), Failed> {
    let text = "$ echo one; echo two >&2; exit 3\none\n! three\n[3]\n";
    let world = World::new("changed", Mode::Directory);
    let printed = session::play(text, &world);
    assert_eq!(printed, text.replace("three", "two"));
    if updates() {
        return Ok(());
    }
    match same(Path::new("changed.txt"), text, &printed) {
        Err(_) => Ok(()),
        Ok(()) => Err("it was not noticed".into()),
    }
}

/// The help of every command is checked in.
fn helps() -> Result<(), Failed> {
    let mut known = BTreeSet::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
        command.args(&words).arg("--help").env_clear();
        let output = command.output()?;
        assert!(output.status.success(), "{words:?}");
        let help = String::from_utf8(output.stdout)?;
        for name in below(&help) {
            open.push([words.clone(), vec![name]].concat());
        }
        let file = format!("windrow {}", words.join(" ")).trim().replace(' ', "-") + ".txt";
        let path = here().join("help").join(&file);
        same(&path, &std::fs::read_to_string(&path).unwrap_or_default(), &help)?;
        known.insert(file);
    }
    for path in files("help") {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(known.contains(&file), "{file} is the help of no command");
    }
    Ok(())
}

/// The commands that a help text lists.
fn below(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let listed = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}
