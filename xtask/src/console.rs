//! Console: the tests of the web console in a real browser, on both stores.
//!
//! Decides which files are run, on which store and where pictures land. What is tested, the files
//! say themselves, in `crates/server/tests/console`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::setup::{self, Need, browser, node, postgres};
use crate::{Verb, cargo};

pub(crate) const VERB: Verb = Verb {
    name: "console",
    summary: "tests of the web console in a real browser, on both stores",
    help: Some(HELP),
    run,
};

const HELP: &str = "\
cargo xtask console [--store embedded|postgres] [NAME...]

Installs what is missing (and says so): Chromium from Debian, Playwright and
axe-core from npm into the target directory, and node from a wheel if the
machine has none of version 20 or newer. Then it builds `windrow` and runs the
files in crates/server/tests/console that end in .test.mjs, once with servers on
directories and once with servers on a PostgreSQL that is started for that.

  --store   only on that store
  NAME      only files with this in their names, such as `rig`

Pictures land in target/screenshots, those of PostgreSQL in target/screenshots/postgres;
of a test that fails there is one of each page that it had open. WINDROW_SCREENSHOTS
names another folder.
";

/// What the tests need; the server reads documents with the last two.
pub(crate) const NEEDS: [Need; 6] = [
    Need::Chromium,
    Need::Node,
    Need::BrowserPackages,
    Need::Postgres15,
    Need::Poppler,
    Need::Tesseract,
];

const TESTS: &str = "crates/server/tests/console";
const ENDING: &str = ".test.mjs";
const SCREENSHOTS: &str = "WINDROW_SCREENSHOTS";

/// No test needs this long, on a machine that is slow and busy.
const TEST_TIMEOUT: &str = "--test-timeout=180000";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Store {
    Embedded,
    Postgres,
}

#[derive(PartialEq, Eq, Debug)]
struct Asked {
    stores: Vec<Store>,
    names: Vec<String>,
}

fn run(words: Vec<OsString>) -> anyhow::Result<()> {
    let Asked { stores, names } = asked(words)?;
    let files = files(&names)?;
    setup::ensure(&NEEDS)?;
    tested(&stores, &files)
}

/// All of them on both stores.
pub(crate) fn check() -> anyhow::Result<()> {
    tested(&Store::ALL, &files(&[])?)
}

fn asked(words: Vec<OsString>) -> anyhow::Result<Asked> {
    let mut asked = Asked { stores: Store::ALL.to_vec(), names: Vec::new() };
    let mut words = words.into_iter().map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--store" => match words.next().as_deref() {
                Some("embedded") => asked.stores = vec![Store::Embedded],
                Some("postgres") => asked.stores = vec![Store::Postgres],
                _ => bail!("--store takes embedded or postgres"),
            },
            flag if flag.starts_with('-') => bail!("unexpected {flag}; try --help"),
            _ => asked.names.push(word),
        }
    }
    Ok(asked)
}

fn tested(stores: &[Store], files: &[PathBuf]) -> anyhow::Result<()> {
    let server = cargo::built("windrow")?;
    for store in stores {
        let mut command = match store {
            Store::Embedded => node::node(),
            Store::Postgres => within_postgres()?,
        };
        command.args(["--test", "--test-concurrency=2", "--test-reporter=spec", TEST_TIMEOUT]);
        command.args(files).current_dir(cargo::root()).env("WINDROW_BIN", &server);
        command.env(SCREENSHOTS, screenshots(*store));
        eprintln!("\nconsole on {}", store.name());
        cargo::run(browser::told(postgres::told(&mut command)))?;
    }
    Ok(())
}

impl Store {
    const ALL: [Store; 2] = [Store::Embedded, Store::Postgres];

    fn name(self) -> &'static str {
        match self {
            Store::Embedded => "the embedded store",
            Store::Postgres => "PostgreSQL",
        }
    }
}

/// Node under a program that starts a PostgreSQL for as long as node runs.
fn within_postgres() -> anyhow::Result<Command> {
    let mut command = Command::new(cargo::built("with-postgres")?);
    command.arg(node::node().get_program());
    Ok(command)
}

fn screenshots(store: Store) -> PathBuf {
    let named = std::env::var_os(SCREENSHOTS).map(|named| cargo::root().join(named));
    let folder = named.unwrap_or_else(|| cargo::target_dir().join("screenshots"));
    match store {
        Store::Embedded => folder,
        Store::Postgres => folder.join("postgres"),
    }
}

/// The files of tests whose names have one of these in them; all if there are no names.
fn files(names: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let folder = cargo::root().join(TESTS);
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(stem) = name.strip_suffix(ENDING) else { continue };
        if names.is_empty() || names.iter().any(|wanted| stem.contains(wanted)) {
            files.push(PathBuf::from(TESTS).join(&*name));
        }
    }
    files.sort();
    ensure!(!files.is_empty(), "no file in {TESTS} ends in {ENDING} and is called like that");
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: Option<(&[Store], &[&str])>) {
        let found = asked(words.iter().map(OsString::from).collect()).ok();
        let expected = expected.map(|(stores, names)| Asked {
            stores: stores.to_vec(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        });
        assert_eq!(found, expected, "{words:?}");
    }

    #[test]
    fn both_stores_are_tested_unless_one_is_named() {
        check(&[], Some((&Store::ALL, &[])));
        check(&["rig", "--store", "postgres"], Some((&[Store::Postgres], &["rig"])));
        check(&["--store", "embedded", "a", "b"], Some((&[Store::Embedded], &["a", "b"])));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for words in [&["--store"][..], &["--store", "redis"], &["--all"]] {
            check(words, None);
        }
    }

    #[test]
    fn files_are_found_by_their_names_and_none_is_an_error() {
        let rig = files(&["rig".to_owned()]).unwrap();
        assert_eq!(rig, [PathBuf::from(TESTS).join("rig.test.mjs")]);
        assert!(files(&["no-such-file".to_owned()]).is_err());
    }
}
