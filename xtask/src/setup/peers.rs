//! The peers that `bench postgres` measures beside Windrow: packages of npm, pinned by a lock file.
//!
//! Decides where they lie. The bench looks there too, in `crates/testkit/src/bench/postgres`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::cargo;

/// What is wanted and exactly what that means; copies lie beside what was installed.
const WANTED: [&str; 2] = ["package.json", "package-lock.json"];

pub(super) fn are_here() -> bool {
    let same = |name: &&str| {
        let (wanted, here) = (fs::read(source().join(name)), fs::read(root().join(name)));
        matches!((wanted, here), (Ok(wanted), Ok(here)) if wanted == here)
    };
    WANTED.iter().all(same) && root().join("node_modules").is_dir()
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    for dir in [&root, &new] {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
    }
    fs::create_dir_all(&new)?;
    for name in WANTED {
        fs::copy(source().join(name), new.join(name))?;
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    // What it says is for people, and standard output may be for a program.
    let mut npm = Command::new("npm");
    npm.args(words).current_dir(&new).stdout(Stdio::null());
    cargo::run(&mut npm).context("that takes npm and node, and a package registry within reach")?;
    Ok(fs::rename(&new, &root)?)
}

fn source() -> PathBuf {
    cargo::root().join("crates/testkit/peers")
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bench_looks_where_we_install() {
        let bench = cargo::root().join("crates/testkit/src/bench/postgres/peers.rs");
        assert!(fs::read_to_string(bench).unwrap().contains("\"tools/peers\""));
    }

    #[test]
    fn the_lock_file_pins_every_package_and_names_no_host() {
        let lock = fs::read_to_string(source().join("package-lock.json")).unwrap();
        assert!(lock.matches("\"integrity\"").count() > 50 && !lock.contains("\"resolved\""));
    }
}
