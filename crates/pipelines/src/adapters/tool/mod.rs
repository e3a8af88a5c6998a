//! Tools: programs of others, run on files of strangers.
//!
//! A run is a child process in a group of its own, with little memory, little time, small files,
//! few of them open, a directory of its own that goes with it, and none of our environment.
//! Whatever it started ends with it, and it ends when nobody waits for it any more. The limits are
//! set by the shell that becomes the program, so they hold from its first instruction on.
//!
//! That bounds what a hostile file can make a program take. It is no sandbox: a program that a file
//! has taken over reads what we may read, and can leave its group.

mod scratch;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

pub use self::scratch::Scratch;

/// A program that somebody else wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Its name on the path, or where it is.
    pub program: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

/// How tools are run. The defaults suit one page of a document.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub limits: Limits,
    /// Where programs are looked for, as `PATH` has it; by default in our own.
    pub path: Option<OsString>,
    /// Where the directories of runs are made; by default where the system has such.
    pub scratch: Option<PathBuf>,
}

/// What one run may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long it may take, working or not.
    pub within: Duration,
    /// How long it may work.
    pub cpu_secs: u32,
    /// Its address space.
    pub memory_bytes: u64,
    /// The largest file that it may write.
    pub file_bytes: u64,
    /// How many files it may have open.
    pub files_open: u32,
    /// How much it may write on its standard output.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            within: Duration::from_secs(180),
            cpu_secs: 120,
            memory_bytes: 2 << 30,
            file_bytes: 256 << 20,
            files_open: 64,
            output_bytes: 64 << 20,
        }
    }
}

/// What a run that went well came to.
#[derive(Debug)]
pub struct Ran {
    /// What it wrote on its standard output.
    pub said: Vec<u8>,
    /// The end of what it wrote on its standard error.
    pub words: String,
    /// The directory it ran in, with the files that it made.
    pub scratch: Scratch,
}

/// Why a run came to nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToolError {
    #[error("{program} is not installed; the package {package} has it")]
    Missing { program: &'static str, package: &'static str },
    /// Nothing was run, and that is not the input's fault.
    #[error("{program} could not be run: {why}")]
    NotRun { program: &'static str, why: String },
    /// It ran, and says or shows that it failed.
    #[error("{program} failed ({how}): {words}")]
    Failed { program: &'static str, how: How, words: String },
    /// Somebody else ended it: whoever stops the service, or the system for want of memory.
    #[error("{program} was ended from outside (signal {signal})")]
    Ended { program: &'static str, signal: i32 },
    /// It waited or worked for too long, and was ended.
    #[error("{program} was ended after {secs} s{}", if *.is_cpu { " of work" } else { "" })]
    TimedOut {
        program: &'static str,
        secs: u64,
        /// Whether it was work, which takes as long the next time, or waiting.
        is_cpu: bool,
    },
    /// It wrote too much, and was ended.
    #[error("{program} was ended because it wrote more than {bytes} bytes")]
    TooLarge { program: &'static str, bytes: u64 },
}

/// How a program ended that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Code(i32),
    Signal(i32),
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            How::Code(code) => write!(f, "exit code {code}"),
            How::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Sets the limits and becomes the program. What the shell cannot set, it says, and nothing is run.
///
/// The limit on work is a soft one first: its signal is one of its own, where the hard one kills.
const SHELL: &str = "ulimit -c 0 && ulimit -S -t \"$1\" && ulimit -H -t \"$2\" && ulimit -f \"$3\" \
                     && ulimit -v \"$4\" && ulimit -n \"$5\" || exit 125; shift 5; exec \"$@\"";

/// How much longer than its limit a program may work that does not heed the signal.
const HEEDLESS_SECS: u32 = 2;
/// What others end a program with. None of our limits does, but for the hard one on work.
const FROM_OUTSIDE: [Signal; 5] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::KILL, Signal::TERM];
/// The shell's exit code when a limit could not be set.
const UNLIMITED: i32 = 125;
/// The unit in which the shell counts the size of files.
const BLOCK: u64 = 512;
/// Where programs are when nobody says.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// How much of what a tool says on standard error is kept: the end of it.
const WORDS_MAX: usize = 2_048;
/// How much is read at once.
const PIECE: usize = 16 << 10;

impl Tool {
    /// Where the program is.
    pub fn find(&self, options: &Options) -> Result<PathBuf, ToolError> {
        let path = path(options);
        let is_program = |file: &PathBuf| {
            let about = std::fs::metadata(file);
            about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        };
        let mut places = std::env::split_paths(&path).map(|folder| folder.join(self.program));
        places
            .find(is_program)
            .ok_or(ToolError::Missing { program: self.program, package: self.package })
    }

    /// Runs it to its end.
    pub async fn run(
        &self,
        arguments: &[impl AsRef<OsStr> + Sync],
        options: &Options,
    ) -> Result<Ran, ToolError> {
        let program = self.find(options)?;
        let not_run = |error: std::io::Error| ToolError::NotRun {
            program: self.program,
            why: error.to_string(),
        };
        let limits = &options.limits;
        // Declared first and so dropped last: what still runs there is ended before.
        let scratch = Scratch::new(options.scratch.as_deref()).map_err(not_run)?;
        let mut command = limited(&program, limits);
        command.args(arguments).current_dir(scratch.path()).env_clear().envs([
            ("PATH", path(options).as_os_str()),
            ("LANG", OsStr::new("C.UTF-8")),
            ("OMP_THREAD_LIMIT", OsStr::new("1")),
            ("HOME", scratch.path().as_os_str()),
            ("TMPDIR", scratch.path().as_os_str()),
        ]);
        let begun = Instant::now();
        let mut child = command.spawn().map_err(not_run)?;
        let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let ended = timeout(limits.within, watch(&mut child, &mut group, limits)).await;
        group.end();
        match ended {
            Err(_) => Err(ToolError::TimedOut {
                program: self.program,
                secs: limits.within.as_secs(),
                is_cpu: false,
            }),
            Ok(Err(Unheard::TooMuch)) => Err(ToolError::TooLarge {
                program: self.program,
                bytes: limits.output_bytes as u64,
            }),
            Ok(Err(Unheard::Broken(error))) => Err(not_run(error)),
            Ok(Ok((said, words, status))) => {
                self.judged(status, &words, limits, begun.elapsed())?;
                Ok(Ran { said, words, scratch })
            }
        }
    }

    /// What the end of a program means that ran for so long.
    fn judged(
        &self,
        status: ExitStatus,
        words: &str,
        limits: &Limits,
        ran: Duration,
    ) -> Result<(), ToolError> {
        let program = self.program;
        let how = match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(()),
            (Some(UNLIMITED), _) => {
                return Err(ToolError::NotRun { program, why: words.to_owned() });
            }
            (Some(code), _) => How::Code(code),
            (None, signal) => How::Signal(signal.unwrap_or_default()),
        };
        let worked = limits.cpu_secs.saturating_add(HEEDLESS_SECS);
        let is_at_work_limit = ran >= Duration::from_secs(worked.into());
        Err(match how {
            How::Signal(signal)
                if signal == Signal::XCPU.as_raw()
                    || signal == Signal::KILL.as_raw() && is_at_work_limit =>
            {
                ToolError::TimedOut { program, secs: limits.cpu_secs.into(), is_cpu: true }
            }
            How::Signal(signal) if signal == Signal::XFSZ.as_raw() => {
                ToolError::TooLarge { program, bytes: limits.file_bytes }
            }
            How::Signal(signal) if FROM_OUTSIDE.iter().any(|one| one.as_raw() == signal) => {
                ToolError::Ended { program, signal }
            }
            _ => {
                let words = if words.is_empty() { "it does not say why" } else { words };
                ToolError::Failed { program, how, words: words.to_owned() }
            }
        })
    }
}

fn path(options: &Options) -> OsString {
    let given = options.path.clone().or_else(|| std::env::var_os("PATH"));
    given.unwrap_or_else(|| PATH.into())
}

/// The shell that will be the program.
fn limited(program: &Path, limits: &Limits) -> Command {
    let mut command = Command::new("/bin/sh");
    let kibibytes = limits.memory_bytes.div_ceil(1_024);
    command.args(["-c", SHELL, "windrow"]);
    let heedless = limits.cpu_secs.saturating_add(HEEDLESS_SECS);
    command.arg(limits.cpu_secs.to_string()).arg(heedless.to_string());
    command.arg(limits.file_bytes.div_ceil(BLOCK).to_string()).arg(kibibytes.to_string());
    command.arg(limits.files_open.to_string()).arg(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    command
}

/// A process group. Nobody of it outlives this, whatever ends the run.
struct Group(Option<Pid>);

impl Group {
    fn end(&mut self) {
        // Once only: afterwards the number may be somebody else's.
        if let Some(group) = self.0.take() {
            // Nobody may be left of it.
            let _sent = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Why a program was not heard to its end.
enum Unheard {
    TooMuch,
    Broken(std::io::Error),
}

impl From<std::io::Error> for Unheard {
    fn from(error: std::io::Error) -> Unheard {
        Unheard::Broken(error)
    }
}

/// Waits for the end of a program, and hears what it says until then.
async fn watch(
    child: &mut Child,
    group: &mut Group,
    limits: &Limits,
) -> Result<(Vec<u8>, String, ExitStatus), Unheard> {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ending = async {
        let status = child.wait().await?;
        // What it left behind would hold its output open.
        group.end();
        Ok(status)
    };
    tokio::try_join!(hear(out, limits.output_bytes), hear_last(err), ending)
}

/// Everything that is said, if it is not too much.
async fn hear(from: Option<impl AsyncRead + Unpin>, max: usize) -> Result<Vec<u8>, Unheard> {
    let mut said = Vec::new();
    if let Some(mut from) = from {
        let mut piece = vec![0; PIECE];
        while let read @ 1.. = from.read(&mut piece).await? {
            if said.len() + read > max {
                return Err(Unheard::TooMuch);
            }
            said.extend_from_slice(&piece[..read]);
        }
    }
    Ok(said)
}

/// The end of what is said, on one line.
async fn hear_last(from: Option<impl AsyncRead + Unpin>) -> Result<String, Unheard> {
    let mut kept = VecDeque::new();
    if let Some(mut from) = from {
        let mut piece = [0; 1_024];
        while let read @ 1.. = from.read(&mut piece).await? {
            kept.extend(&piece[..read]);
            let excess = kept.len().saturating_sub(WORDS_MAX);
            kept.drain(..excess);
        }
    }
    let words = String::from_utf8_lossy(kept.make_contiguous()).replace(char::is_control, " ");
    Ok(words.split_whitespace().collect::<Vec<_>>().join(" "))
}
