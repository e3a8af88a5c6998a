//! One run of a command: bytes in, bytes out, and how it ended.
//!
//! The command leads a process group of its own. Whatever it left behind ends with it, and whoever
//! stops it stops all of it: first by asking, then for good.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use windrow_core::limits::RESULT_MAX;
use windrow_core::trail::Progress;

use super::progress::Line;

use crate::config::secret_variables;

/// How long a command that is asked to end may take before it is ended.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the last words after it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of what it says on standard error is kept: the end of it.
const WORDS_MAX: usize = 2_048;
/// How much of its output is read at once.
const PIECE: usize = 16 * 1_024;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    NotStarted,
    /// It was stopped because it took longer than this.
    Late(Duration),
    /// It was stopped because the worker stops.
    Stopped,
    /// It was stopped because its item is not ours any more.
    Lost(Lost),
}

/// Why an item is not ours any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost(pub(crate) &'static str);

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    /// Its output; none if it was too much.
    pub(crate) said: Option<Vec<u8>>,
    /// The end of what it said on standard error.
    pub(crate) words: String,
}

/// Runs a program until it ends, or until `stop` says why it must. How far it is goes to
/// `progress`.
pub(crate) async fn run(
    argv: &[String],
    environment: Vec<(&'static str, String)>,
    input: Vec<u8>,
    progress: watch::Sender<Option<Progress>>,
    stop: impl Future<Output = Ended>,
) -> Ran {
    let (program, arguments) = match argv {
        [program, arguments @ ..] => (program.as_str(), arguments),
        [] => ("", argv),
    };
    let mut command = Command::new(program);
    // What opens the server is not for whoever works for it.
    for name in secret_variables() {
        command.env_remove(name);
    }
    command.args(arguments).envs(environment);
    let spawned = start(&mut command, progress);
    let (mut child, mut pipes) = match spawned {
        Ok(started) => started,
        Err(error) => {
            let hint = match error.raw_os_error() {
                Some(code) if code == rustix::io::Errno::NOEXEC.raw_os_error() => {
                    "; does a script lack its first line, such as `#!/bin/sh`?"
                }
                _ => "",
            };
            let words = format!("{program}: {error}{hint}");
            return Ran { ended: Ended::NotStarted, said: None, words };
        }
    };
    let group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let (said, words) = (Arc::new(Mutex::new(Said::default())), Arc::new(Mutex::default()));
    if let Some(mut stdin) = child.stdin.take() {
        pipes.spawn(async move {
            // A command that does not want all of it closes its end.
            let _taken = stdin.write_all(&input).await;
        });
    }
    if let Some(out) = child.stdout.take() {
        pipes.spawn(hear(out, Arc::clone(&said)));
    }
    if let Some(out) = child.stderr.take() {
        pipes.spawn(hear_last(out, Arc::clone(&words)));
    }
    let ended = tokio::select! {
        ended = child.wait() => exited(ended),
        why = stop => {
            end(&mut child, &group).await;
            why
        }
    };
    // What it started and left running would hold its output open. What left the group may still;
    // then what was said by now counts.
    drop(group);
    let all = async { while pipes.join_next().await.is_some() {} };
    let _heard = tokio::time::timeout(LAST_WORDS, all).await.is_ok();
    let said = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    let words = std::mem::take(&mut *words.lock().unwrap_or_else(PoisonError::into_inner));
    Ran {
        ended,
        said: (!said.is_too_much).then_some(said.bytes),
        words: String::from_utf8_lossy(&Vec::from(words)).trim().to_owned(),
    }
}

/// Starts a command with its pipes, and listens to how far it is.
fn start(
    command: &mut Command,
    progress: watch::Sender<Option<Progress>>,
) -> std::io::Result<(Child, JoinSet<()>)> {
    let line = Line::new()?;
    command
        .envs(line.variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let (child, heard) = line.start(|| command.spawn())?;
    let mut pipes = JoinSet::new();
    pipes.spawn(heard.read(progress));
    Ok((child, pipes))
}

/// What a command wrote, as far as it may.
#[derive(Debug, Default)]
struct Said {
    bytes: Vec<u8>,
    is_too_much: bool,
}

/// A process group. Nobody of it outlives this, whatever ends the run.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // Nobody may be left of it.
            let _sent = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn exited(ended: std::io::Result<std::process::ExitStatus>) -> Ended {
    match ended {
        Ok(status) => match status.code() {
            Some(code) => Ended::Code(code),
            None => Ended::Signal(status.signal().unwrap_or_default()),
        },
        Err(_) => Ended::NotStarted,
    }
}

/// Asks a command to end, and then ends it.
async fn end(child: &mut Child, group: &Group) {
    group.signal(Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        group.signal(Signal::KILL);
        let _gone = child.wait().await;
    }
}

/// Takes everything that is said, if it is not too much. What is too much is read all the same, so
/// that the command comes to its end.
async fn hear(mut from: impl AsyncRead + Unpin, into: Arc<Mutex<Said>>) {
    let mut piece = vec![0; PIECE];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let mut said = into.lock().unwrap_or_else(PoisonError::into_inner);
        if said.bytes.len() + read > RESULT_MAX {
            said.is_too_much = true;
        } else {
            said.bytes.extend_from_slice(&piece[..read]);
        }
    }
}

/// Takes the end of what is said.
async fn hear_last(mut from: impl AsyncRead + Unpin, into: Arc<Mutex<VecDeque<u8>>>) {
    let mut piece = [0; 1_024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&piece[..read]);
        let excess = kept.len().saturating_sub(WORDS_MAX);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    async fn run(
        argv: &[String],
        environment: Vec<(&'static str, String)>,
        input: Vec<u8>,
        stop: impl Future<Output = Ended>,
    ) -> Ran {
        super::run(argv, environment, input, watch::Sender::new(None), stop).await
    }

    #[tokio::test]
    async fn a_command_says_how_far_it_is_on_a_line_of_its_own() {
        let line = "echo '1/2 half' > \"$WINDROW_PROGRESS\"; echo '2/2 whole' > $WINDROW_PROGRESS";
        let (said, mut heard) = (watch::Sender::new(None), Vec::new());
        let mut told = said.subscribe();
        let ran = super::run(&shell(line), Vec::new(), Vec::new(), said, pending()).await;
        assert_eq!((ran.ended, ran.words.as_str()), (Ended::Code(0), ""));
        heard.extend(told.borrow_and_update().clone());
        let Progress { current, total, message } = heard.remove(0);
        assert_eq!((current, total, message.as_str()), (2, 2, "whole"));
    }

    fn shell(line: &str) -> Vec<String> {
        ["sh", "-c", line].map(str::to_owned).to_vec()
    }

    #[tokio::test]
    async fn a_command_gets_its_input_and_environment_and_says_what_it_made() {
        let line = "cat; printf %s \"$WINDROW_ID\"; echo why >&2; exit 3";
        let environment = vec![("WINDROW_ID", "-7".to_owned())];
        let ran = run(&shell(line), environment, b"in".to_vec(), pending()).await;
        assert_eq!((ran.ended, ran.said.as_deref()), (Ended::Code(3), Some(&b"in-7"[..])));
        assert_eq!(ran.words, "why");
    }

    #[tokio::test]
    async fn much_input_that_nobody_reads_and_much_output_hold_nothing_up() {
        let input = vec![b'x'; 1 << 20];
        let ran = run(&shell("exit 0"), Vec::new(), input, pending()).await;
        assert_eq!((ran.ended, ran.said), (Ended::Code(0), Some(Vec::new())));
        let line = "head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2";
        let ran = run(&shell(line), Vec::new(), Vec::new(), pending()).await;
        assert_eq!((ran.ended, ran.said), (Ended::Code(0), None));
        assert_eq!(ran.words.len(), WORDS_MAX);
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_ends_with_it() {
        let line = "sleep 600 & echo $!";
        let ran = run(&shell(line), Vec::new(), Vec::new(), pending()).await;
        assert_eq!(ran.ended, Ended::Code(0));
        let said = ran.said.expect("its output is not held open");
        let left: i32 = String::from_utf8_lossy(&said).trim().parse().expect("a process");
        let is_there = || {
            let stat = std::fs::read_to_string(format!("/proc/{left}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        let gone = async {
            while is_there() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(GRACE, gone).await.expect("it was killed");
    }

    #[tokio::test]
    async fn what_left_the_group_holds_nothing_up_and_nothing_of_the_output_back() {
        let line = "echo done; setsid sleep 30 & exit 0";
        let ran = run(&shell(line), Vec::new(), Vec::new(), pending()).await;
        assert_eq!((ran.ended, ran.said.as_deref()), (Ended::Code(0), Some(&b"done\n"[..])));
    }

    #[tokio::test]
    async fn a_run_that_is_dropped_leaves_nobody_behind() {
        let mark = format!("{}", 1_000_000 + std::process::id());
        let argv = shell(&format!("sleep {mark}; true"));
        let begun = run(&argv, Vec::new(), Vec::new(), pending());
        let there = || {
            let mut look = std::process::Command::new("pgrep");
            look.args(["-x", "-f", &format!("sleep {mark}")]);
            look.output().is_ok_and(|found| found.status.success())
        };
        let until_there = async {
            while !there() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ran = begun => panic!("it does not end"),
            () = until_there => {}
        }
        let gone = async {
            while there() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(GRACE, gone).await.expect("it was killed");
    }

    #[tokio::test]
    async fn a_command_that_is_stopped_ends_also_if_it_does_not_want_to() {
        let why = Ended::Late(Duration::from_millis(1));
        let ran = run(&shell("sleep 600"), Vec::new(), Vec::new(), async { why }).await;
        assert_eq!(ran.ended, why);
        let ran = run(&shell("kill -9 $$"), Vec::new(), Vec::new(), pending()).await;
        assert_eq!(ran.ended, Ended::Signal(9));
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let ran = run(&["/no/such/program".into()], Vec::new(), Vec::new(), pending()).await;
        assert_eq!(ran.ended, Ended::NotStarted);
        assert!(ran.words.starts_with("/no/such/program: "), "{}", ran.words);
    }
}
