//! Runs suites, several at a time, and keeps what each said until it ended.
//!
//! Decides what a suite's process is given (the directory and the variables that cargo gives it)
//! and how long it may run. Writes what it says to a file in the target directory, so that what
//! several say at once stays apart. Leaves to its caller what is told of it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::built::Suite;
use crate::cargo;

/// No suite needs this long, on a machine that is slow and busy. What hangs is ended, because
/// nobody sees what it said before it ends.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// How often somebody who looks on hears of suites that still run.
const REMINDER: Duration = Duration::from_secs(60);

/// A suite that ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) took: Duration,
    pub(super) how: How,
    /// Everything that it printed.
    pub(super) said: String,
}

#[derive(Debug)]
pub(super) enum How {
    Itself(ExitStatus),
    /// It was killed when our patience ended.
    Late,
    /// It could not be run at all.
    Not(anyhow::Error),
}

pub(super) enum News<'a> {
    Ended(&'a Ended),
    /// Nothing ended for a while; these still run, each for so long.
    Waits(&'a [(String, Instant)]),
}

/// What all suites have in common.
pub(super) struct Pool {
    /// Where they write.
    pub(super) logs: PathBuf,
    /// Tells a process where the servers are that it starts.
    pub(super) told: fn(&mut Command),
    pub(super) patience: Duration,
}

impl Pool {
    pub(super) fn new(told: fn(&mut Command)) -> anyhow::Result<Pool> {
        let logs = cargo::target_dir().join("suites");
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        Ok(Pool { logs, told, patience: PATIENCE })
    }

    /// Runs suites in their order, so many at a time, and answers them in the order of their ends.
    pub(super) fn run(
        &self,
        suites: &[Suite],
        at_once: usize,
        mut tell: impl FnMut(News<'_>),
    ) -> Vec<Ended> {
        let next = AtomicUsize::new(0);
        let (happens, happened) = mpsc::channel();
        let mut all = Vec::new();
        thread::scope(|scope| {
            for _ in 0..at_once.min(suites.len()) {
                let (next, happens) = (&next, happens.clone());
                scope.spawn(move || self.work(suites, next, &happens));
            }
            drop(happens);
            let mut running = Vec::new();
            loop {
                match happened.recv_timeout(REMINDER) {
                    Ok(Event::Began(name)) => running.push((name, Instant::now())),
                    Ok(Event::Ended(ended)) => {
                        running.retain(|(name, _)| *name != ended.name);
                        tell(News::Ended(&ended));
                        all.push(ended);
                    }
                    Err(RecvTimeoutError::Timeout) => tell(News::Waits(&running)),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        all
    }

    /// Takes one suite after another until none is left.
    fn work(&self, suites: &[Suite], next: &AtomicUsize, happens: &Sender<Event>) {
        while let Some(suite) = suites.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _ = happens.send(Event::Began(suite.name.clone()));
            let _ = happens.send(Event::Ended(self.one(suite)));
        }
    }

    fn one(&self, suite: &Suite) -> Ended {
        let log = self.logs.join(format!("{}.txt", suite.name.replace(' ', "")));
        let began = Instant::now();
        let how = self.process(suite, &log).unwrap_or_else(How::Not);
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ended { name: suite.name.clone(), took: began.elapsed(), how, said }
    }

    fn process(&self, suite: &Suite, log: &Path) -> anyhow::Result<How> {
        let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = command(suite)?;
        (self.told)(&mut command);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let starts = || format!("cannot start {}", suite.executable.display());
        let mut child = command.spawn().with_context(starts)?;
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(How::Itself(status));
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                return Ok(How::Late);
            }
            thread::sleep(LOOKS_EVERY);
        }
    }
}

/// Short beside a suite, and long beside a look.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

enum Event {
    Began(String),
    Ended(Ended),
}

/// The suite's process as `cargo test` starts it: in the directory of its package, with what cargo
/// says of that package in place of what it said of ours. The rest is the same for both.
///
/// The terminal's Ctrl-C reaches it as it reaches us, but some tests listen to that. So where there
/// is `setpriv`, it is killed when the thread ends that waits for it: with us, however we end.
fn command(suite: &Suite) -> anyhow::Result<Command> {
    let directory = suite.manifest.parent().context("a manifest lies in a directory")?;
    let mut command = if Path::new(SETPRIV).exists() {
        let mut setpriv = Command::new(SETPRIV);
        setpriv.args(["--pdeathsig", "KILL"]).arg(&suite.executable);
        setpriv
    } else {
        Command::new(&suite.executable)
    };
    command.env("CARGO_PKG_NAME", &suite.package);
    command.env("CARGO_MANIFEST_DIR", directory).env("CARGO_MANIFEST_PATH", &suite.manifest);
    command.current_dir(directory);
    Ok(command)
}

const SETPRIV: &str = "/usr/bin/setpriv";

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// A directory of its own for each test, removed with it.
    struct Place(PathBuf);

    impl Place {
        fn new(test: &str) -> Place {
            let dir = std::env::temp_dir().join(format!("xtask-{test}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Place(dir)
        }

        /// A suite that is a script. Another process writes it down: a program that somebody has
        /// open for writing does not run, and any process that we start meanwhile has it open.
        fn suite(&self, name: &str, script: &str) -> Suite {
            let (manifest, executable) = (self.0.join("Cargo.toml"), self.0.join(name));
            let mut install = Command::new("install");
            install.args(["-m", "755", "/dev/stdin"]).arg(&executable).stdin(Stdio::piped());
            let mut child = install.spawn().unwrap();
            let text = format!("#!/bin/sh\n{script}\n");
            child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            assert!(child.wait().unwrap().success());
            Suite { manifest, executable, ..Suite::named(name) }
        }

        fn pipe(&self) {
            let made = Command::new("mkfifo").arg(self.0.join("pipe")).status().unwrap();
            assert!(made.success());
        }

        fn pool(&self, patience: Duration) -> Pool {
            let told = |command: &mut Command| {
                command.env("TOLD", "yes");
            };
            Pool { logs: self.0.clone(), told, patience }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Two suites, each of which ends only if the other runs meanwhile.
    fn meeting(place: &Place) -> [Suite; 2] {
        place.pipe();
        [place.suite("writes", "echo hello > pipe"), place.suite("reads", "read hello < pipe")]
    }

    #[test]
    fn several_suites_run_at_a_time() {
        let place = Place::new("together");
        let mut told = 0;
        let news = |news: News<'_>| told += usize::from(matches!(news, News::Ended(_)));
        let all = place.pool(PATIENCE).run(&meeting(&place), 2, news);
        assert!(all.iter().all(Ended::passed), "{all:?}");
        assert_eq!((all.len(), told), (2, 2));
    }

    #[test]
    fn one_at_a_time_means_that_no_other_runs_and_what_hangs_is_ended() {
        let place = Place::new("alone");
        let pool = place.pool(Duration::from_millis(300));
        let all = pool.run(&meeting(&place), 1, |_| {});
        let are_late = all.iter().all(|ended| matches!(ended.how, How::Late));
        assert!(all.len() == 2 && are_late, "{all:?}");
    }

    #[test]
    fn a_suite_finds_what_cargo_would_give_it_and_all_that_it_says_is_kept() {
        let place = Place::new("given");
        let script = "echo out $CARGO_PKG_NAME $TOLD; echo err >&2; \
                      test $PWD = $CARGO_MANIFEST_DIR && test -z \"$(cat)\"; exit $?";
        let suite = place.suite("says", script);
        let ended = place.pool(PATIENCE).run(&[suite], 3, |_| {}).remove(0);
        assert_eq!(ended.said, "out package yes\nerr\n");
        assert!(ended.passed(), "{ended:?}");
    }

    #[test]
    fn a_suite_that_is_not_there_has_failed_and_stops_no_other() {
        let place = Place::new("missing");
        let gone = Suite { executable: place.0.join("gone"), ..place.suite("x", "") };
        let suites = [gone, place.suite("there", "true")];
        let passed: Vec<bool> =
            place.pool(PATIENCE).run(&suites, 1, |_| {}).iter().map(Ended::passed).collect();
        assert_eq!(passed, [false, true]);
    }

    #[test]
    fn a_suite_ends_with_whoever_waits_for_it() {
        let place = Place::new("left");
        place.pipe();
        let suite = place.suite("waits", "echo ready; read never < pipe");
        let start = move || {
            let mut child = command(&suite).unwrap().stdout(Stdio::piped()).spawn().unwrap();
            // Once it speaks, it has been told whom it ends with.
            let mut ready = [0; 6];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
            child
        };
        let mut child = thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
