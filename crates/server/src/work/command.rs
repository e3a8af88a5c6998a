//! One run of a command: bytes in, bytes out, and how it ended.
//!
//! The command leads a process group of its own. Whatever it left behind ends with it, and whoever
//! stops it stops all of it: first by asking, then for good.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use windrow_core::limits::RESULT_MAX;

/// How long a command that is asked to end may take before it is ended.
const GRACE: Duration = Duration::from_secs(5);
/// How long to wait for the last words after it ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How much of what it says on standard error is kept: the end of it.
const WORDS_MAX: usize = 2_048;

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
    Lost,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) ended: Ended,
    /// Its output; none if it was too much.
    pub(crate) said: Option<Vec<u8>>,
    /// The end of what it said on standard error.
    pub(crate) words: String,
}

/// Runs a program until it ends, or until `stop` says why it must.
pub(crate) async fn run(
    argv: &[String],
    environment: Vec<(&'static str, String)>,
    input: Vec<u8>,
    stop: impl Future<Output = Ended>,
) -> Ran {
    let (program, arguments) = match argv {
        [program, arguments @ ..] => (program.as_str(), arguments),
        [] => ("", argv),
    };
    let spawned = Command::new(program)
        .args(arguments)
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let words = format!("{program}: {error}");
            return Ran { ended: Ended::NotStarted, said: None, words };
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            // A command that does not want all of it closes its end.
            let _taken = stdin.write_all(&input).await;
        }
    });
    let said = tokio::spawn(async move {
        match stdout {
            Some(out) => whole(out).await,
            None => Some(Vec::new()),
        }
    });
    let words = tokio::spawn(async move {
        match stderr {
            Some(out) => last(out).await,
            None => Vec::new(),
        }
    });
    let ended = tokio::select! {
        ended = child.wait() => exited(ended),
        why = stop => {
            end(&mut child, group).await;
            why
        }
    };
    // What it started and left running would hold its output open.
    signal(group, Signal::KILL);
    let said = tokio::time::timeout(LAST_WORDS, said).await;
    let words = tokio::time::timeout(LAST_WORDS, words).await;
    let words = words.ok().and_then(Result::ok).unwrap_or_default();
    Ran {
        ended,
        said: said.ok().and_then(Result::ok).flatten(),
        words: String::from_utf8_lossy(&words).trim().to_owned(),
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
async fn end(child: &mut Child, group: Option<Pid>) {
    signal(group, Signal::TERM);
    if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
        signal(group, Signal::KILL);
        let _gone = child.wait().await;
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // Nobody may be left of it.
        let _sent = kill_process_group(group, signal);
    }
}

/// Everything that is said, if it is not too much. What is too much is read all the same, so that
/// the command comes to its end.
async fn whole(mut from: impl AsyncRead + Unpin) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let read = (&mut from).take(RESULT_MAX as u64 + 1).read_to_end(&mut all).await;
    if read.is_ok_and(|bytes| bytes > RESULT_MAX) {
        let _rest = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
        return None;
    }
    Some(all)
}

/// The end of what is said.
async fn last(mut from: impl AsyncRead + Unpin) -> Vec<u8> {
    let (mut kept, mut piece) = (VecDeque::new(), [0; 1_024]);
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        kept.extend(&piece[..read]);
        kept.drain(..kept.len().saturating_sub(WORDS_MAX));
    }
    kept.into()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

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
