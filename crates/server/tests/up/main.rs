//! `windrow up` with the real tools: folders are read to their end, found again, and watched.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod inbox;
#[path = "../rig/mod.rs"]
mod rig;
mod watched;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rig::Data;

/// The documents that everybody can try.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

/// The binary with nothing around it but a home of its own, on a queue of that home.
fn windrow(home: &Data, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windrow"));
    command.args(words).current_dir(&home.0).env_clear().stdin(Stdio::null());
    command.env("HOME", &home.0).env("TERM", "dumb");
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command.env("WINDROW_STORE__DATA_DIR", home.0.join("store"));
    command.env("WINDROW_SERVER__LISTEN", "127.0.0.1:0");
    command.env("WINDROW_SERVER__RPC_LISTEN", "off");
    command
}

/// What a command printed, and the code that it ended with.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

#[track_caller]
fn says(text: &str, all: &[&str]) {
    for part in all {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
