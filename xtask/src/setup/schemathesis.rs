//! schemathesis, which sends the server whatever its OpenAPI document allows and forbids.
//!
//! Decides where it lies: in a virtual environment of its own. The test looks there too, in
//! `crates/server/tests/schemathesis.rs`, and first where the variable points.

use std::process::Command;

use super::venv::Venv;

const VARIABLE: &str = "WINDROW_SCHEMATHESIS";

const VENV: Venv = Venv {
    name: "schemathesis",
    requirements: include_str!("../../requirements-schemathesis.txt"),
    modules: &["schemathesis.cli"],
};

/// Tells the tests that a command runs where it is, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE) {
        Some(_) => command,
        None => command.env(VARIABLE, VENV.root().join("bin/schemathesis")),
    }
}

pub(super) fn is_here() -> bool {
    std::env::var_os(VARIABLE).is_some() || VENV.is_here()
}

pub(super) fn install() -> anyhow::Result<()> {
    VENV.install()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned() {
        assert!(VENV.pins(&["schemathesis"]));
    }

    #[test]
    fn the_test_looks_where_we_install() {
        let test = crate::cargo::root().join("crates/server/tests/schemathesis.rs");
        let text = std::fs::read_to_string(test).unwrap();
        for part in [VARIABLE, "tools/schemathesis/bin/schemathesis"] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
    }
}
