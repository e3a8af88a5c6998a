//! What the Python client is checked with: ruff, mypy and pytest, in a virtual environment.
//!
//! Decides where they lie and what is run with them. Leaves what they check to `clients/python`.

use std::process::Command;

use super::venv::Venv;
use crate::cargo;

pub(super) const VENV: Venv = Venv {
    name: "python-client",
    requirements: include_str!("../../requirements-python.txt"),
    modules: &["ruff", "mypy", "pytest"],
};

const CLIENT: &str = "clients/python";
const EXAMPLE: &str = "examples/python-worker";

/// Lints, types and tests of the client, and its example, against the server that is built here.
pub(crate) fn check() -> anyhow::Result<()> {
    let server = cargo::built("windrow")?;
    for words in [
        &["-m", "ruff", "check", ".", "../../examples/python-worker"][..],
        &["-m", "ruff", "format", "--check", ".", "../../examples/python-worker"],
        &["-m", "mypy"],
        &["-m", "pytest", "--quiet"],
    ] {
        let mut command = Command::new(VENV.python());
        command.args(words).current_dir(cargo::root().join(CLIENT));
        cargo::run(command.env("WINDROW_BIN", &server))?;
    }
    let mut example = Command::new(cargo::root().join(EXAMPLE).join("try.sh"));
    example.env("PYTHON", VENV.python()).env("WINDROW_BIN", &server);
    cargo::run(&mut example)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned() {
        assert!(VENV.pins(VENV.modules));
    }

    #[test]
    fn what_is_checked_is_there() {
        for path in ["clients/python/pyproject.toml", "examples/python-worker/try.sh"] {
            assert!(cargo::root().join(path).is_file(), "{path}");
        }
    }
}
