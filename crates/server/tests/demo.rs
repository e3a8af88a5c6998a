//! `windrow demo`: it keeps its word in a small world too, and cleans up behind itself.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

fn demo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.arg("demo").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_small_world_with_many_workers_loses_a_worker_and_its_process_and_nothing_else() {
    // Nobody died in it: the doomed worker had to see more work than there was.
    let run = demo().args(["--documents", "3", "--workers", "64"]).output().unwrap();
    let summary = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(summary.contains("items in 3 documents"), "{summary}");
    assert!(summary.contains("lost: 0   settled twice: 0"), "{summary}");
    assert!(summary.contains("dead workers: 1   killed processes: 1"), "{summary}");
}

#[test]
fn an_interrupt_removes_the_temporary_directory_and_says_so() {
    let mut running = demo().spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap());
    let mut first = String::new();
    said.read_line(&mut first).unwrap();
    let directory = first.trim_end().split_once("the queue is in ").unwrap().1;
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(!running.wait().unwrap().success());
    assert!(rest.contains(&format!("windrow: interrupted; {directory} is removed")), "{rest}");
    assert!(!Path::new(directory).exists());
}

#[test]
fn a_directory_that_holds_something_is_refused() {
    let directory = std::env::temp_dir().join(format!("windrow-full-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("letter"), "dear").unwrap();
    let run = demo().arg("--data-dir").arg(&directory).output().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let expected = format!("windrow: {} is not empty; give an empty one\n", directory.display());
    assert_eq!(String::from_utf8(run.stderr).unwrap(), expected);
    assert!(!run.status.success());
}
