//! What browser tests run on: Chromium from Debian, Playwright and axe-core from npm.
//!
//! Decides where they lie: the packages in the target directory and never in the repository, which
//! has only their names and hashes. The tests look there too, in
//! `crates/server/tests/console/browser.mjs`, and first where the variables point.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::debian::Debian;
use super::node;
use super::postgres::remove;
use crate::cargo;

const CHROMIUM: Debian = Debian { package: "chromium", program: "/usr/bin/chromium" };

const VARIABLE_CHROMIUM: &str = "WINDROW_CHROMIUM";
const VARIABLE_PACKAGES: &str = "WINDROW_BROWSER";

/// What is wanted and exactly what that means; copies lie beside what was installed.
const WANTED: [&str; 2] = ["package.json", "package-lock.json"];

/// Tells the tests that a command runs where the packages are, unless they were told already.
pub(crate) fn told(command: &mut Command) -> &mut Command {
    match std::env::var_os(VARIABLE_PACKAGES) {
        Some(_) => command,
        None => command.env(VARIABLE_PACKAGES, root()),
    }
}

pub(super) fn chromium_is_here() -> bool {
    std::env::var_os(VARIABLE_CHROMIUM).is_some() || CHROMIUM.is_here()
}

pub(super) fn install_chromium() -> anyhow::Result<()> {
    CHROMIUM.install().with_context(|| format!("or set {VARIABLE_CHROMIUM} to the program"))
}

pub(super) fn packages_are_here() -> bool {
    let same = |name: &&str| {
        let (wanted, here) = (fs::read(source().join(name)), fs::read(root().join(name)));
        matches!((wanted, here), (Ok(wanted), Ok(here)) if wanted == here)
    };
    let is_installed = || WANTED.iter().all(same) && root().join("node_modules").is_dir();
    std::env::var_os(VARIABLE_PACKAGES).is_some() || is_installed()
}

/// Everything happens beside the place and moves there at the end, so that what is there is whole.
pub(super) fn install_packages() -> anyhow::Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    remove(&new)?;
    fs::create_dir_all(&new)?;
    for name in WANTED {
        fs::copy(source().join(name), new.join(name))?;
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    let mut npm = node::npm();
    npm.args(words).current_dir(&new).stdout(Stdio::null());
    cargo::run(&mut npm).context("that takes a package registry of npm within reach")?;
    remove(&root)?;
    Ok(fs::rename(&new, &root)?)
}

fn source() -> PathBuf {
    cargo::root().join("crates/server/tests/console")
}

fn root() -> PathBuf {
    cargo::target_dir().join("tools/browser")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_look_where_we_install() {
        let text = fs::read_to_string(source().join("browser.mjs")).unwrap();
        for part in [VARIABLE_CHROMIUM, VARIABLE_PACKAGES] {
            assert!(text.contains(&format!("process.env.{part} ")), "{part}");
        }
        for part in [CHROMIUM.program, "tools/browser"] {
            assert!(text.contains(&format!("'{part}'")), "{part}");
        }
    }

    #[test]
    fn the_lock_file_pins_every_package_and_names_no_host() {
        let lock = fs::read_to_string(source().join("package-lock.json")).unwrap();
        assert_eq!(lock.matches("\"integrity\"").count(), 2);
        assert!(!lock.contains("\"resolved\""));
    }
}
