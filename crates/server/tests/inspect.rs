//! `windrow check` and `windrow dump`: what they say about a directory, and that they leave it as
//! it is.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use windrow_core::command::NewItem;
use windrow_core::item::Body;
use windrow_engine::{Engine, Limits, SystemClock};
use windrow_store::embedded::disk::RealDisk;
use windrow_store::embedded::{Embedded, Options};

/// A process that is being started has every open file of this one for a moment, locks included.
static STARTING: Mutex<()> = Mutex::new(());

/// A directory of its own for each test, removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(of: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("windrow-cli-{of}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// With a store of three items.
    fn filled(of: &str) -> Scratch {
        let scratch = Scratch::new(of);
        let _nobody_starts = STARTING.lock().unwrap();
        let options = Options { segment_bytes: 1 << 20, reserve_segments: 1, ..Options::default() };
        let disk = Arc::new(RealDisk::open(&scratch.0).unwrap());
        let store = Embedded::open(disk, options).unwrap().run().unwrap();
        let clock = SystemClock::new(store.latest());
        let queue = Engine::new((*store).clone(), clock, Limits::default(), usize::MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..3 {
            let item = NewItem::new(Body::new("acme", "thumbs"));
            runtime.block_on(queue.enqueue(vec![item], None)).unwrap();
        }
        scratch
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    /// The segment, and where the last byte that is not zero lies in it.
    fn last_byte(&self) -> (PathBuf, usize) {
        let segment = self.0.join("segment-0000000001.log");
        let bytes = std::fs::read(&segment).unwrap();
        (segment, bytes.iter().rposition(|byte| *byte != 0).unwrap())
    }

    fn overwrite(&self, at: usize, with: &[u8]) {
        let (segment, _) = self.last_byte();
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[at..at + with.len()].copy_from_slice(with);
        std::fs::write(segment, bytes).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _it_goes_with_the_machine = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the program succeeded, and what it said.
fn windrow(words: &[&str], dir: &Path) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    let command = command.args(words).arg(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = {
        let _nobody_has_a_lock = STARTING.lock().unwrap();
        command.spawn().unwrap()
    };
    let run = started.wait_with_output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8(said).unwrap())
}

#[track_caller]
fn refused(words: &[&str], dir: &Path, expected: &str) {
    let (success, said) = windrow(words, dir);
    assert!(!success, "{said}");
    assert_eq!(said.trim_end(), format!("windrow: {expected}"), "{words:?}");
}

#[test]
fn a_directory_is_given_by_place_or_by_flag_and_stays_as_it_was() {
    let scratch = Scratch::filled("sound");
    let before = scratch.files();
    for words in [&["check"][..], &["check", "--data-dir"]] {
        let (success, said) = windrow(words, &scratch.0);
        assert!(success, "{said}");
        assert!(said.starts_with("1 segment, "), "{said}");
        assert!(said.contains("3 live items, 0 ended, 0 trees\nall well"), "{said}");
    }
    for words in [&["dump"][..], &["dump", "--data-dir"]] {
        let (success, said) = windrow(words, &scratch.0);
        assert!(success, "{said}");
        assert_eq!(said.lines().count(), 3, "{said}");
    }
    assert_eq!(scratch.files(), before);
}

#[test]
fn a_copy_without_its_lock_is_checked_and_gets_none() {
    let scratch = Scratch::filled("unlocked");
    std::fs::remove_file(scratch.0.join("LOCK")).unwrap();
    let before = scratch.files();
    assert!(windrow(&["check"], &scratch.0).0);
    assert_eq!(scratch.files(), before);
}

#[test]
fn a_torn_tail_is_told_and_left_for_whoever_opens_the_store() {
    let scratch = Scratch::filled("torn");
    let (_, last) = scratch.last_byte();
    scratch.overwrite(last - 15, &[0; 16]);
    let before = scratch.files();
    let (success, said) = windrow(&["check"], &scratch.0);
    assert!(success, "{said}");
    let torn = "the last group of the log is torn, segment-0000000001.log at byte ";
    assert!(said.contains(torn), "{said}");
    assert!(said.contains("2 live items"), "{said}");
    assert_eq!(windrow(&["dump"], &scratch.0).1.lines().count(), 2);
    assert_eq!(scratch.files(), before);
}

#[test]
fn damage_names_the_directory_the_file_and_the_place() {
    let scratch = Scratch::filled("damaged");
    scratch.overwrite(4096, &[0; 64]);
    for verb in ["check", "dump"] {
        let (success, said) = windrow(&[verb], &scratch.0);
        assert!(!success);
        let dir = scratch.0.display();
        let where_it_is =
            format!("windrow: {dir}: segment-0000000001.log is damaged at byte 4096:");
        assert!(said.starts_with(&where_it_is), "{said}");
        assert!(said.trim_end().ends_with("; restore a backup"), "{said}");
    }
}

#[test]
fn what_holds_no_store_is_refused_and_nothing_is_made_there() {
    let scratch = Scratch::new("empty");
    let dir = scratch.0.display();
    let missing = scratch.0.join("missing");
    let file = scratch.0.join("file");
    for verb in ["check", "dump"] {
        let empty = "there is no segment and no snapshot in it";
        let advice = "give the directory that the store was opened with";
        refused(&[verb], &scratch.0, &format!("{dir} holds no store: {empty}; {advice}"));
        assert!(scratch.files().is_empty());
        refused(&[verb], &missing, &format!("{dir}/missing does not exist"));
        assert!(!missing.exists());
    }
    std::fs::write(&file, "").unwrap();
    let expected = format!("{dir}/file is not a directory; give the data directory of a store");
    refused(&["check"], &file, &expected);
}

#[test]
fn a_directory_in_use_is_refused_with_the_holder_and_what_to_do() {
    let scratch = Scratch::filled("used");
    let disk = Arc::new(RealDisk::open(&scratch.0).unwrap());
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let _held = Embedded::open(disk, options).unwrap();
    let (dir, pid) = (scratch.0.display(), std::process::id());
    let advice = "which is no server that can be asked; wait until it ends, or stop that process";
    refused(&["check"], &scratch.0, &format!("{dir} is in use by pid {pid}, {advice}"));
}
