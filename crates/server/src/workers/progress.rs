//! How far a command is: lines that it writes to a file descriptor of its own.
//!
//! `3/40 reading` says that three of forty are done, `30%` the same of a hundred, and any other
//! line is a message. The last line counts. The descriptor's number is in WINDROW_PROGRESS_FD, and
//! a path that leads to it in WINDROW_PROGRESS, for shells that cannot name a large number.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use windrow_core::trail::Progress;

/// Bytes of a line that are read, and of a message that are kept.
const LINE_MAX: usize = 1_024;
const MESSAGE_MAX: usize = 200;

/// What a command can be told to say how far it is.
pub(super) struct Line {
    /// The command's end.
    end: OwnedFd,
    heard: Receiver,
}

/// One command is started at a time: what it inherits, no other does.
static STARTING: Mutex<()> = Mutex::new(());

impl Line {
    pub(super) fn new() -> io::Result<Line> {
        let (heard, end) = io::pipe()?;
        Ok(Line { end: end.into(), heard: Receiver::from_owned_fd(heard.into())? })
    }

    /// What the command finds in its environment.
    pub(super) fn variables(&self) -> [(&'static str, String); 2] {
        let number = self.end.as_raw_fd();
        [
            ("WINDROW_PROGRESS_FD", number.to_string()),
            ("WINDROW_PROGRESS", format!("/dev/fd/{number}")),
        ]
    }

    /// Starts a command that inherits its end, and gives what it says.
    pub(super) fn start<T>(self, start: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Heard)> {
        let Line { end, heard } = self;
        let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        fcntl_setfd(&end, FdFlags::empty())?;
        let started = start();
        drop(end);
        Ok((started?, Heard(heard)))
    }
}

/// Where the lines of a command arrive.
pub(super) struct Heard(Receiver);

impl Heard {
    /// Reads lines until there are no more.
    pub(super) async fn read(mut self, into: watch::Sender<Option<Progress>>) {
        let (mut line, mut piece) = (Vec::new(), [0; LINE_MAX]);
        while let Ok(read @ 1..) = self.0.read(&mut piece).await {
            for byte in &piece[..read] {
                match byte {
                    b'\n' => {
                        into.send_modify(|said| *said = Some(parse(&line, said.take())));
                        line.clear();
                    }
                    byte if line.len() < LINE_MAX => line.push(*byte),
                    _ => {}
                }
            }
        }
    }
}

/// What a line says, given what was said before.
fn parse(line: &[u8], before: Option<Progress>) -> Progress {
    let line = String::from_utf8_lossy(line);
    let (first, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let of = |current: &str, total: &str| Some((current.parse().ok()?, total.parse().ok()?));
    let counted = match (first.split_once('/'), first.strip_suffix('%')) {
        (Some((current, total)), _) => of(current, total),
        (None, Some(percent)) => of(percent, "100"),
        (None, None) => None,
    };
    let message = |text: &str| text.trim().chars().take(MESSAGE_MAX).collect::<String>();
    match counted {
        Some((current, total)) => Progress { current, total, message: message(rest) },
        None => Progress { message: message(&line), ..before.unwrap_or_default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_of_how_many_or_only_something() {
        let check = |line: &str| {
            let Progress { current, total, message } = parse(line.as_bytes(), None);
            (current, total, message)
        };
        assert_eq!(check("3/40 reading page 3"), (3, 40, "reading page 3".into()));
        assert_eq!(check("30%"), (30, 100, String::new()));
        assert_eq!(check("warming up"), (0, 0, "warming up".into()));
        assert_eq!(check("a/b c"), (0, 0, "a/b c".into()));
        let before = Progress { current: 3, total: 40, message: "x".into() };
        let after = parse(b"still there", Some(before));
        assert_eq!((after.current, after.message.as_str()), (3, "still there"));
        assert_eq!(check(&"x".repeat(900)).2.len(), MESSAGE_MAX);
    }
}
