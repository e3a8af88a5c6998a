//! What the Python client is checked with: ruff, mypy and pytest, in a virtual environment.
//!
//! Decides where they lie and what is run with them. Leaves what they check to `clients/python`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::postgres::apt_install;
use crate::cargo;

/// What is wanted. A copy lies beside what was installed and says whether it is that.
const REQUIREMENTS: &str = include_str!("../../requirements-python.txt");
const REQUIREMENTS_NAME: &str = "requirements-python.txt";

const CLIENT: &str = "clients/python";
const EXAMPLE: &str = "examples/python-worker";

/// Lints, types and tests of the client, and its example, against the server that is built here.
pub(crate) fn check() -> anyhow::Result<()> {
    cargo::run(&mut cargo::cargo(&["build", "-p", "windrow-server"]))?;
    let server = cargo::target_dir().join("debug/windrow");
    for words in [
        &["-m", "ruff", "check", ".", "../../examples/python-worker"][..],
        &["-m", "ruff", "format", "--check", ".", "../../examples/python-worker"],
        &["-m", "mypy"],
        &["-m", "pytest", "--quiet"],
    ] {
        let mut command = Command::new(interpreter(&root()));
        command.args(words).current_dir(cargo::root().join(CLIENT));
        cargo::run(command.env("WINDROW_BIN", &server))?;
    }
    let mut example = Command::new(cargo::root().join(EXAMPLE).join("try.sh"));
    example.env("PYTHON", interpreter(&root())).env("WINDROW_BIN", &server);
    cargo::run(&mut example)
}

pub(super) fn is_here() -> bool {
    let installed = fs::read_to_string(root().join(REQUIREMENTS_NAME));
    installed.is_ok_and(|text| text == REQUIREMENTS)
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
    let mut pip = Command::new(interpreter(&root));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--no-deps", "--only-binary=:all:", "--requirement"]).arg(&wanted);
    cargo::run(&mut pip)?;
    for tool in ["ruff", "mypy", "pytest"] {
        let runs = cargo::answers(Command::new(interpreter(&root)).args(["-m", tool, "--version"]));
        ensure!(runs, "{tool} was installed and does not run here");
    }
    Ok(fs::rename(wanted, root.join(REQUIREMENTS_NAME))?)
}

fn interpreter(root: &Path) -> PathBuf {
    root.join("bin/python")
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/python-client")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned() {
        let lines = REQUIREMENTS.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().all(|line| line.contains("==")));
        for tool in ["ruff==", "mypy==", "pytest=="] {
            assert!(lines.clone().any(|line| line.starts_with(tool)), "{tool}");
        }
    }

    #[test]
    fn what_is_checked_is_there() {
        for path in ["clients/python/pyproject.toml", "examples/python-worker/try.sh"] {
            assert!(cargo::root().join(path).is_file(), "{path}");
        }
    }
}
