//! What turns schemas into code: the compiler from Debian, its part for Rust from crates.io.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use super::postgres::apt_install;
use super::tools;
use crate::cargo;

/// The version that wrote the code that is checked in. Goes with `capnp` in Cargo.toml.
const PLUGIN_VERSION: &str = "0.27.0";

pub(super) fn compiler_is_here() -> bool {
    cargo::answers(Command::new("capnp").arg("--version"))
}

pub(super) fn install_compiler() -> anyhow::Result<()> {
    apt_install("capnproto").context("without apt, install capnp, the compiler of Cap'n Proto")
}

/// It does not say which version it is, so it lies in a directory that does.
pub(crate) fn plugin() -> PathBuf {
    root().join("bin/capnpc-rust")
}

pub(super) fn plugin_is_here() -> bool {
    plugin().exists()
}

pub(super) fn install_plugin() -> anyhow::Result<()> {
    let words = ["install", "capnpc", "--quiet", "--debug", "--force", "--version", PLUGIN_VERSION];
    let mut command = cargo::cargo(&words);
    command.arg("--root").arg(root());
    command.env("CARGO_PROFILE_DEV_DEBUG", "false").env_remove("CARGO_TARGET_DIR");
    cargo::run(&mut command)
}

fn root() -> PathBuf {
    tools().join(format!("capnpc-{PLUGIN_VERSION}"))
}
