//! Programs that behave badly, each ended, with nothing left of it.

use std::time::Duration;

use super::*;
use crate::adapters::ocr::OcrError;
use crate::adapters::pdf::PdfError;
use crate::documents::ReadError;

const SHELL_TOOL: Tool = Tool { program: "sh", package: "dash" };

/// Options whose scratch directories are in a place of this test's own.
struct Bed {
    options: Options,
    scratch: PathBuf,
}

impl Bed {
    fn new(name: &str, change: impl FnOnce(&mut Limits)) -> Bed {
        let name = format!("windrow-tool-test-{}-{name}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        std::fs::create_dir(&scratch).expect("a directory of this test's own");
        let mut options = Options { scratch: Some(scratch.clone()), ..Options::default() };
        change(&mut options.limits);
        Bed { options, scratch }
    }

    async fn run(&self, line: &str) -> Result<Ran, ToolError> {
        SHELL_TOOL.run(&["-c", line], &self.options).await
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.scratch).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.scratch);
    }
}

/// How many processes have this word on their command line.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap();
    let is_one = |entry: std::io::Result<std::fs::DirEntry>| {
        // A process that has ended has none.
        let line = std::fs::read(entry.unwrap().path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|part| part == word)
    };
    processes.map(is_one).filter(|is_one| *is_one).count()
}

/// The signals that this process ignores, one bit for each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap()
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect(what);
}

/// A number of seconds that no other process of this machine sleeps for.
fn long(nth: u32) -> String {
    format!("{}", 10_000_000 + std::process::id() * 10 + nth)
}

#[tokio::test]
async fn a_tool_says_what_it_made_in_a_directory_of_its_own_that_goes() {
    let bed = Bed::new("says", |_| {});
    let ran = bed.run("printf out; echo 'by the  way' >&2; pwd > where; ls -ld . > mode").await;
    let ran = ran.unwrap();
    assert_eq!((&*ran.said, &*ran.words), (&b"out"[..], "by the way"));
    let where_it_ran = std::fs::read_to_string(ran.scratch.path().join("where")).unwrap();
    assert_eq!(Path::new(where_it_ran.trim()), ran.scratch.path().canonicalize().unwrap());
    let mode = std::fs::read_to_string(ran.scratch.path().join("mode")).unwrap();
    assert!(mode.starts_with("drwx------"), "{mode}");
    assert_eq!(bed.left(), [ran.scratch.path()]);
    drop(ran);
    assert!(bed.left().is_empty());
}

/// After a crash the pictures of pages stayed where they were drawn.
#[tokio::test]
async fn what_a_process_left_behind_goes_when_the_next_one_begins() {
    let bed = Bed::new("left-behind", |_| {});
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (gone, ours) = (gone.id(), std::process::id());
    // The tests' own parent, which waits for them.
    let alive = std::os::unix::process::parent_id();
    let made = |name: String, mode: u32| {
        let path = bed.scratch.join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("page.png"), "somebody's").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let left = made(format!("windrow-tool-{gone}-7"), 0o700);
    let mut stay = vec![
        made(format!("windrow-tool-{alive}-7"), 0o700),
        made(format!("windrow-tool-{ours}-999999"), 0o700),
        made(format!("windrow-tool-{gone}-8"), 0o755),
        made(format!("windrow-tool-{gone}-x"), 0o700),
        made(format!("windrow-other-{gone}-7"), 0o700),
        bed.scratch.join(format!("windrow-tool-{gone}-9")),
    ];
    let aim = made("aim".to_owned(), 0o700);
    std::os::unix::fs::symlink(&aim, stay.last().unwrap()).unwrap();
    stay.push(aim.clone());
    drop(bed.run("true").await.unwrap());
    assert!(!left.exists());
    stay.sort();
    let mut found = bed.left();
    found.sort();
    assert_eq!(found, stay);
    assert!(aim.join("page.png").exists());
}

#[tokio::test]
async fn a_tool_sees_nothing_of_our_environment() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to see");
    let bed = Bed::new("environment", |_| {});
    let ran = bed.run("env").await.unwrap();
    let said = String::from_utf8(ran.said).unwrap();
    let mut names: Vec<&str> = said.lines().map(|line| line.split('=').next().unwrap()).collect();
    // The shell's own.
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "OMP_THREAD_LIMIT", "PATH", "TMPDIR"]);
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_named_with_its_package() {
    let missing = Tool { program: "no-such-program", package: "no-such-package" };
    let error = missing.run(&["-v"], &Options::default()).await.unwrap_err();
    let said = "no-such-program is not installed; the package no-such-package has it";
    assert_eq!(error.to_string(), said);
    // Nor is one that is elsewhere, or that is no program.
    let bed = Bed::new("missing", |_| {});
    std::fs::write(bed.scratch.join("sh"), "no program").unwrap();
    let options = Options { path: Some(bed.scratch.clone().into()), ..Options::default() };
    let error = SHELL_TOOL.find(&options).unwrap_err();
    assert_eq!(error, ToolError::Missing { program: "sh", package: "dash" });
}

#[tokio::test]
async fn a_tool_that_fails_has_the_last_words() {
    let bed = Bed::new("fails", |_| {});
    for (line, how, words) in [
        ("echo no such page >&2; exit 3", How::Code(3), "no such page"),
        ("exit 1", How::Code(1), "it does not say why"),
        ("kill -SEGV $$", How::Signal(11), "it does not say why"),
    ] {
        let expected = ToolError::Failed { program: "sh", how, words: words.into() };
        assert_eq!(bed.run(line).await.unwrap_err(), expected);
    }
    let much = "i=0; while [ $i -lt 3000 ]; do echo $i >&2; i=$((i+1)); done; exit 1";
    let Err(ToolError::Failed { words, .. }) = bed.run(much).await else {
        panic!("it fails");
    };
    assert!(words.ends_with(" 2999") && words.len() <= WORDS_MAX, "{words}");
    assert!(bed.left().is_empty());
}

/// A stop of the service ended programs too, and their pages were given up for good.
#[tokio::test]
async fn a_tool_that_others_end_is_no_fault_of_its_input() {
    let bed = Bed::new("outside", |limits| limits.cpu_secs = 1_000);
    let ignored = ignored();
    for (name, signal) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("KILL", 9), ("TERM", 15)] {
        // What these tests were told to ignore, as `nohup` does, their programs ignore too.
        if ignored & 1 << (signal - 1) != 0 {
            continue;
        }
        let error = bed.run(&format!("kill -{name} $$")).await.unwrap_err();
        assert_eq!(error, ToolError::Ended { program: "sh", signal });
        let why = format!("sh was ended from outside (signal {signal})");
        assert_eq!(PdfError::from(error.clone()), PdfError::Ended { why: why.clone() });
        let read = ReadError::from(OcrError::from(error));
        assert_eq!(read, ReadError::Ended { why });
    }
}

#[tokio::test]
async fn a_tool_that_does_not_heed_its_limit_is_ended_by_the_work_it_did() {
    let bed = Bed::new("heedless", |limits| limits.cpu_secs = 1);
    let error = bed.run("trap '' XCPU; while :; do :; done").await.unwrap_err();
    assert_eq!(error, ToolError::TimedOut { program: "sh", secs: 1, is_cpu: true });
}

#[tokio::test]
async fn a_tool_that_eats_memory_is_ended() {
    let bed = Bed::new("memory", |limits| limits.memory_bytes = 64 << 20);
    let line = "x=xxxxxxxx; while :; do x=$x$x; done";
    let error = bed.run(line).await.unwrap_err();
    assert!(matches!(error, ToolError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_tool_that_spins_is_ended_by_the_work_it_did() {
    let bed = Bed::new("spins", |limits| limits.cpu_secs = 1);
    let error = bed.run("while :; do :; done").await.unwrap_err();
    assert_eq!(error, ToolError::TimedOut { program: "sh", secs: 1, is_cpu: true });
    assert_eq!(error.to_string(), "sh was ended after 1 s of work");
}

#[tokio::test]
async fn a_tool_that_waits_is_ended_with_all_that_it_started() {
    let (bed, long) = (Bed::new("waits", |_| {}), long(1));
    let mut options = bed.options.clone();
    // Long enough to start them on a busy machine.
    options.limits.within = Duration::from_secs(3);
    let line = format!("for i in 1 2 3 4 5; do (sleep {long}; :) & done; wait");
    let words = ["-c", &*line];
    let run = SHELL_TOOL.run(&words, &options);
    let seen = until("it has started all of them", || running(&long) == 5);
    let (ran, ()) = tokio::join!(run, seen);
    assert_eq!(ran.unwrap_err(), ToolError::TimedOut { program: "sh", secs: 3, is_cpu: false });
    until("all are gone", || running(&long) == 0).await;
    assert!(bed.left().is_empty());
}

#[tokio::test]
async fn what_a_tool_leaves_running_ends_with_it() {
    let (bed, long) = (Bed::new("leaves", |_| {}), long(2));
    let ran = bed.run(&format!("sleep {long} & echo done")).await.unwrap();
    assert_eq!(ran.said, b"done\n");
    until("it is gone", || running(&long) == 0).await;
}

#[tokio::test]
async fn a_tool_that_writes_without_end_is_ended() {
    let bed = Bed::new("writes", |limits| {
        (limits.output_bytes, limits.file_bytes) = (1 << 20, 2 << 20);
    });
    let error = bed.run("exec yes").await.unwrap_err();
    assert_eq!(error, ToolError::TooLarge { program: "sh", bytes: 1 << 20 });
    let error = bed.run("exec cat /dev/zero > file").await.unwrap_err();
    assert_eq!(error, ToolError::TooLarge { program: "sh", bytes: 2 << 20 });
    // What it says on standard error is read, and not kept.
    let error = bed.run("head -c 5000000 /dev/zero >&2; exit 1").await.unwrap_err();
    assert!(matches!(error, ToolError::Failed { .. }), "{error:?}");
    assert!(bed.left().is_empty());
}

#[tokio::test]
async fn a_tool_opens_few_files_and_leaves_no_core() {
    let bed = Bed::new("files", |limits| limits.files_open = 16);
    let ran = bed.run("ulimit -n; ulimit -H -n; ulimit -c").await.unwrap();
    assert_eq!(ran.said, b"16\n16\n0\n");
}

#[tokio::test]
async fn a_run_that_nobody_waits_for_leaves_nobody_behind() {
    let (bed, long) = (Bed::new("dropped", |_| {}), long(3));
    let line = format!("sleep {long} & touch made; sleep {long}; :");
    tokio::select! {
        ran = bed.run(&line) => panic!("it does not end: {ran:?}"),
        () = until("both have started", || running(&long) == 2) => {}
    }
    until("both are gone", || running(&long) == 0).await;
    assert!(bed.left().is_empty());
}

#[tokio::test]
async fn a_limit_that_cannot_be_set_runs_nothing() {
    // Nobody may have so many files open, not even whoever may do anything.
    let bed = Bed::new("unlimited", |limits| limits.files_open = u32::MAX);
    let error = bed.run("echo ran > /dev/stderr").await.unwrap_err();
    assert!(matches!(&error, ToolError::NotRun { why, .. } if !why.contains("ran")), "{error:?}");
}

#[tokio::test]
async fn without_a_place_for_scratch_nothing_is_run() {
    let bed = Bed::new("nowhere", |_| {});
    let mut options = bed.options.clone();
    options.scratch = Some(bed.scratch.join("not there"));
    let error = SHELL_TOOL.run(&["-c", "true"], &options).await.unwrap_err();
    assert!(
        matches!(&error, ToolError::NotRun { why, .. } if why.contains("not there")),
        "{error:?}"
    );
}
