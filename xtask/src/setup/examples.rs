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
    let (server, count_words) = (cargo::built("windrow")?, cargo::built("count-words")?);
    for example in EXAMPLES {
        let mut script = Command::new(cargo::root().join(example).join("try.sh"));
        cargo::run(script.env("WINDROW_BIN", &server).env("COUNT_BIN", &count_words))?;
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
