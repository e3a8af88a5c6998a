//! schemathesis, which sends the server whatever its OpenAPI document allows and forbids.
//!
//! Decides where it lies: in a virtual environment of its own. The test looks there too, in
//! `crates/server/tests/schemathesis.rs`, and first where the variable points.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::postgres::apt_install;
use crate::cargo;

const VARIABLE: &str = "WINDROW_SCHEMATHESIS";

/// What is wanted. A copy lies beside what was installed and says whether it is that.
const REQUIREMENTS: &str = include_str!("../../requirements-schemathesis.txt");
const REQUIREMENTS_NAME: &str = "requirements-schemathesis.txt";

/// Tells the tests that a command runs where it is, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE) {
        Some(_) => command,
        None => command.env(VARIABLE, program(&root())),
    }
}

pub(super) fn is_here() -> bool {
    let installed = || fs::read_to_string(root().join(REQUIREMENTS_NAME));
    std::env::var_os(VARIABLE).is_some() || installed().is_ok_and(|text| text == REQUIREMENTS)
}

/// A virtual environment knows its own path, so it is made where it will be; what says that it is
/// whole is written last.
pub(super) fn install() -> anyhow::Result<()> {
    let root = root();
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    let make = || cargo::answers(Command::new("python3").args(["-m", "venv"]).arg(&root));
    if !make() {
        eprintln!("set-up: that takes python's venv, which is missing as well, installing it");
        apt_install("python3-venv").context("without apt, install python3 with venv and pip")?;
        ensure!(make(), "python3 -m venv does not work here");
    }
    let wanted = root.join("wanted.txt");
    fs::write(&wanted, REQUIREMENTS)?;
    let mut pip = Command::new(root.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--only-binary=:all:", "--requirement"]).arg(&wanted);
    cargo::run(&mut pip)?;
    let runs = cargo::answers(Command::new(program(&root)).arg("--version"));
    ensure!(runs, "what was installed does not run here");
    Ok(fs::rename(wanted, root.join(REQUIREMENTS_NAME))?)
}

fn program(root: &Path) -> PathBuf {
    root.join("bin/schemathesis")
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/schemathesis")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned() {
        let lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().count() > 20 && lines.clone().all(|line| line.contains("==")));
        assert!(lines.into_iter().any(|line| line.starts_with("schemathesis==")));
    }

    #[test]
    fn the_test_looks_where_we_install() {
        let test = cargo::root().join("crates/server/tests/schemathesis.rs");
        let text = fs::read_to_string(test).unwrap();
        for part in [VARIABLE, "tools/schemathesis/bin/schemathesis"] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
    }
}
