//! The graph database that tests start: ArcadeDB, with the Java that it runs on, from a wheel.
//!
//! Decides where it comes from and where it lies. Tests look in the same place, in
//! `crates/testkit/src/servers/arcadedb.rs`, and first where the variable points.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::postgres::{remove, unpack};
use crate::cargo;

const VARIABLE: &str = "WINDROW_ARCADEDB";
const REQUIREMENT: &str = include_str!("../../requirements-arcadedb.txt");
const REQUIREMENT_NAME: &str = "requirements-arcadedb.txt";
const IN_WHEEL: &str = "arcadedb_embedded";
/// What of the wheel is a program. Unpacking forgets that.
const PROGRAMS: [&str; 2] = ["jre/bin/java", "jre/lib/jspawnhelper"];

/// Tells the tests that a command runs where the server is, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE) {
        Some(_) => command,
        None => command.env(VARIABLE, root().join(IN_WHEEL)),
    }
}

pub(super) fn is_here() -> bool {
    let unpacked = || fs::read_to_string(root().join(REQUIREMENT_NAME));
    std::env::var_os(VARIABLE).is_some() || unpacked().is_ok_and(|text| text == REQUIREMENT)
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    unpack(&new, REQUIREMENT_NAME, REQUIREMENT)?;
    let server = new.join(IN_WHEEL);
    for program in PROGRAMS.map(|program| server.join(program)) {
        if program.exists() {
            fs::set_permissions(program, fs::Permissions::from_mode(0o755))?;
        }
    }
    let runs = cargo::answers(Command::new(server.join(PROGRAMS[0])).arg("-version"));
    ensure!(runs, "the Java that was unpacked does not run here");
    remove(&root)?;
    Ok(fs::rename(&new, &root)?)
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/arcadedb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheel_is_the_one_whose_hash_we_know() {
        let lines = REQUIREMENT.lines().filter(|line| !line.starts_with('#'));
        let pinned = |line: &str| line.contains("==") && line.contains(" --hash=sha256:");
        assert_eq!(lines.map(pinned).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn the_tests_look_where_we_install() {
        let tests = cargo::root().join("crates/testkit/src/servers/arcadedb.rs");
        let text = fs::read_to_string(tests).unwrap();
        for part in [VARIABLE, "tools/arcadedb/arcadedb_embedded", PROGRAMS[0]] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
    }
}
