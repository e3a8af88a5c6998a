//! Deny: what Windrow may depend on, by the rules of `deny.toml`.
//!
//! Bans, licences and sources are judged everywhere. Advisories need a database from the network;
//! where it cannot be fetched the run goes on and says loudly what it did not look at.

use std::ffi::OsString;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::setup::{self, Need};
use crate::{Verb, cargo, takes_no_words};

pub(crate) const VERB: Verb = Verb {
    name: "deny",
    summary: "judges the dependencies: bans, licences, sources, advisories",
    help: Some(HELP),
    run: |words: Vec<OsString>| {
        takes_no_words(&words)?;
        setup::ensure(&[Need::CargoDeny])?;
        if let Some(skipped) = check()? {
            eprintln!("{skipped}");
        }
        Ok(())
    },
};

const HELP: &str = "\
cargo xtask deny

Judges every crate in Cargo.lock by the rules of deny.toml: none that is
banned, none under a licence we cannot ship, none from anywhere but crates.io.
Known vulnerabilities are looked up where the advisory database can be
fetched; where it cannot, that is said loudly and the rest still counts.

A new dependency is refused? Read the reason in deny.toml first. A rule that
no longer fits is changed there, in a commit that says why.
";

/// A host that drops packets must not eat the budget of the tests.
const FETCH_PATIENCE: Duration = Duration::from_secs(60);

const SKIPPED: &str = "\
****************************************************************************
** SKIPPED: advisories. The database of known vulnerabilities could not be
** fetched from here, so no dependency was checked against it in this run.
** Run `cargo xtask deny` where the network allows it.
****************************************************************************";

/// `Some` is the loud sentence about what was skipped.
pub(crate) fn check() -> anyhow::Result<Option<&'static str>> {
    let offline_checks = ["--workspace", "check", "bans", "licenses", "sources"];
    cargo::run(setup::cargo_deny().args(offline_checks))?;
    if !fetch_advisories()? {
        return Ok(Some(SKIPPED));
    }
    cargo::run(setup::cargo_deny().args(["--workspace", "--offline", "check", "advisories"]))?;
    Ok(None)
}

fn fetch_advisories() -> anyhow::Result<bool> {
    let mut fetch = setup::cargo_deny();
    fetch.args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0");
    let child = fetch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let status = wait_at_most(FETCH_PATIENCE, child)?;
    Ok(status.is_some_and(|status| status.success()))
}

/// `None` when patience ran out; the child is gone then.
fn wait_at_most(patience: Duration, mut child: Child) -> anyhow::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_fetch_that_never_answers_is_given_up() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(wait_at_most(Duration::ZERO, child).unwrap().is_none());
    }

    #[test]
    fn a_fetch_that_answers_tells_how_it_went() {
        for (program, succeeds) in [("true", true), ("false", false)] {
            let child = Command::new(program).spawn().unwrap();
            let status = wait_at_most(Duration::from_secs(60), child).unwrap();
            assert_eq!(status.unwrap().success(), succeeds, "{program}");
        }
    }
}
