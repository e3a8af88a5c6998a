//! The examples, with what they need.
//!
//! Decides what is run. What must come of it, each says itself, in its `try.sh`.

use std::process::Command;

use super::debian::Debian;
use crate::cargo;

pub(super) const NETPBM: Debian = Debian { package: "netpbm", program: "/usr/bin/pamscale" };
pub(super) const JQ: Debian = Debian { package: "jq", program: "/usr/bin/jq" };

const EXAMPLES: [&str; 2] = ["examples/rust-worker", "examples/thumbnails"];

/// Runs each against the server that is built here.
pub(crate) fn check() -> anyhow::Result<()> {
    let build = ["build", "--quiet", "-p", "windrow-server", "-p", "count-words"];
    cargo::run(&mut cargo::cargo(&build))?;
    let built = cargo::target_dir().join("debug");
    for example in EXAMPLES {
        let mut script = Command::new(cargo::root().join(example).join("try.sh"));
        script.env("WINDROW_BIN", built.join("windrow"));
        cargo::run(script.env("COUNT_BIN", built.join("count-words")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's is run with the Python client.
    const ELSEWHERE: [&str; 1] = ["examples/python-worker"];

    #[test]
    fn every_example_that_can_be_tried_is_tried() {
        for folder in std::fs::read_dir(cargo::root().join("examples")).unwrap() {
            let folder = folder.unwrap();
            let example = format!("examples/{}", folder.file_name().into_string().unwrap());
            let is_known = EXAMPLES.iter().chain(&ELSEWHERE).any(|known| *known == example);
            assert_eq!(folder.path().join("try.sh").is_file(), is_known, "{example}");
        }
    }
}
