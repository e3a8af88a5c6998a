//! A virtual environment of Python with pinned packages, in the target directory.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::postgres::apt_install;
use crate::cargo;

/// Says what was installed, once all of it was.
const INSTALLED: &str = "installed.txt";

pub(super) struct Venv {
    /// Its folder among the tools.
    pub(super) name: &'static str,
    /// What is wanted, as pip reads it.
    pub(super) requirements: &'static str,
    /// Modules that must run afterwards.
    pub(super) modules: &'static [&'static str],
}

impl Venv {
    pub(super) fn root(&self) -> PathBuf {
        cargo::target_dir().join("tools").join(self.name)
    }

    pub(super) fn python(&self) -> PathBuf {
        self.root().join("bin/python")
    }

    pub(super) fn is_here(&self) -> bool {
        let installed = fs::read_to_string(self.root().join(INSTALLED));
        installed.is_ok_and(|text| text == self.requirements)
    }

    /// A virtual environment knows its own path, so it is made where it will be; what says that it
    /// is whole is written last.
    pub(super) fn install(&self) -> anyhow::Result<()> {
        let root = self.root();
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        let make = || cargo::answers(Command::new("python3").args(["-m", "venv"]).arg(&root));
        if !make() {
            eprintln!("set-up: that takes python's venv, which is missing as well, installing it");
            apt_install("python3-venv")
                .context("without apt, install python3 with venv and pip")?;
            ensure!(make(), "python3 -m venv does not work here");
        }
        let wanted = root.join("wanted.txt");
        fs::write(&wanted, self.requirements)?;
        let mut pip = Command::new(self.python());
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--only-binary=:all:", "--requirement"]).arg(&wanted);
        cargo::run(&mut pip)?;
        for module in self.modules {
            let mut asked = Command::new(self.python());
            let runs = cargo::answers(asked.args(["-m", module, "--version"]));
            ensure!(runs, "{module} was installed and does not run here");
        }
        Ok(fs::rename(wanted, root.join(INSTALLED))?)
    }
}

#[cfg(test)]
impl Venv {
    /// Whether each package has a version, and these are among them.
    pub(super) fn pins(&self, packages: &[&str]) -> bool {
        let lines: Vec<&str> =
            self.requirements.lines().filter(|line| !line.starts_with('#')).collect();
        let has =
            |package: &&str| lines.iter().any(|line| line.starts_with(&format!("{package}==")));
        lines.iter().all(|line| line.contains("==")) && packages.iter().all(has)
    }
}
