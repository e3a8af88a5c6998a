//! One directory, one process: whoever comes second is told who was first.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windrow_store::embedded::OpenError;
use windrow_store::embedded::disk::RealDisk;
use windrow_testkit::stepped::Stepped;

use crate::rig::options;

/// A directory of its own for each test, removed when the test ends.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(of: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("windrow-{of}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn open(&self) -> Result<Stepped, OpenError> {
        Stepped::open(Arc::new(RealDisk::open(&self.0).unwrap()), options())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _it_goes_with_the_machine = std::fs::remove_dir_all(&self.0);
    }
}

/// Another process with a store in this directory.
fn other_process(scratch: &Scratch) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    command.args(["child", "--life", "1", "--seed", "1", "--dir"]).arg(&scratch.0);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_second_handle_on_the_directory_is_refused_and_told_who_holds_it() {
    let scratch = Scratch::new("handles");
    let first = scratch.open().unwrap();
    let error = scratch.open().unwrap_err().to_string();
    let holder = format!("in use by pid {}", std::process::id());
    assert!(error.contains(&holder), "{error}");
    // That it is free once the first one is gone shows in the tests of the disk. Here, another test
    // may start a process at this moment, which has the lock for as long as it takes to start.
    drop(first);
}

#[test]
fn a_second_process_on_the_directory_is_refused_and_told_who_holds_it() {
    let scratch = Scratch::new("second");
    let first = scratch.open().unwrap();
    let refused = other_process(&scratch).wait_with_output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(&format!("in use by pid {}", std::process::id())), "{said}");
    drop(first);
}

#[test]
fn the_directory_of_a_process_that_was_killed_is_free() {
    let scratch = Scratch::new("killed");
    let mut holder = other_process(&scratch);
    let mut opened = String::new();
    let mut out = BufReader::new(holder.stdout.take().unwrap());
    out.read_line(&mut opened).unwrap();
    assert!(opened.starts_with("O "), "{opened}");
    let error = scratch.open().unwrap_err().to_string();
    assert!(error.contains(&format!("in use by pid {}", holder.id())), "{error}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let options = windrow_testkit::crash::child::options();
    let disk = RealDisk::open(&scratch.0).unwrap();
    Stepped::open(Arc::new(disk), options).expect("nobody holds it any more");
}
