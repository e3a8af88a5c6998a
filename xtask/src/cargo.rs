//! Calling cargo and its friends from the root of the workspace.
//!
//! Decides where the root is and what a failed command sounds like. Reads no output except where
//! [`answers`] asks only whether a command succeeds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// The workspace's root: where cargo ran us from, or, without cargo, where we were built.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or(here.clone(), Path::to_path_buf)
}

/// Where cargo builds, so that what we install lies beside it and `cargo clean` removes it.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A cargo command at the root, by the cargo that runs us.
pub(crate) fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root());
    command
}

/// A program of the workspace, as the tests have it: built with the features that all of the
/// workspace asks for. Alone it would ask for fewer, and most of what it stands on be built again.
pub(crate) fn built(program: &str) -> anyhow::Result<PathBuf> {
    run(&mut cargo(&["build", "--quiet", "--workspace", "--bin", program]))?;
    Ok(target_dir().join("debug").join(program))
}

/// Runs a command in the open. An error names the command, so that it can be repeated by hand.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Whether a command exists and succeeds; what it prints is dropped.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut text = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for word in command.get_args() {
        text.push(' ');
        text.push_str(&word.to_string_lossy());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn a_failed_command_is_named_so_that_it_can_be_repeated() {
        let error = run(&mut cargo(&["no-such-verb", "--really"])).unwrap_err();
        assert!(error.to_string().contains("cargo no-such-verb --really failed"), "{error}");
    }

    #[test]
    fn a_command_that_does_not_exist_does_not_answer() {
        assert!(!answers(&mut Command::new("windrow-has-no-such-program")));
    }
}
