//! Tidy: the house rules that no compiler knows.
//!
//! Each rule is a pure function over the [`Tree`] of the repository's files and lives in the module
//! of its subject, beside a failing example that proves it still bites. This file lists the rules,
//! runs them and prints what they found.

mod clock;
mod docs;
mod layers;
mod leftovers;
mod machine;
mod names;
mod ratchet;
mod rust;
mod sizes;
mod tree;

use std::ffi::OsString;
use std::fmt;

use anyhow::bail;

use self::tree::Tree;
use crate::{Verb, cargo, takes_no_words};

pub(crate) const VERB: Verb = Verb {
    name: "tidy",
    summary: "checks the house rules: sizes, names, layers, documents",
    help: Some(HELP),
    run: |words: Vec<OsString>| {
        takes_no_words(&words)?;
        check()
    },
};

const HELP: &str = "\
cargo xtask tidy

Reads every file git knows or would add, and checks what no compiler does:

  sizes      600 lines a file, 80 a function, 100 columns a line (Rust)
  names      no file or module called utils, helpers, common, manager, misc
  leftovers  no unfinished or debugging code, no ignored test
  clock      core and engine never read a clock, tests never sleep
  layers     crates depend only downwards; the core on nothing that does I/O
  docs       paths named in README, ARCHITECTURE, CONTRIBUTING and SECURITY
             exist, types in ARCHITECTURE too; no link is broken; every
             decision is in its index
  machine    no path or package host of one machine; both licences present

A clock must be read somewhere: end that one line in core or engine with
`// tidy: the clock's edge`. A size that cannot shrink today goes into
xtask/tidy-ratchet.txt, where it may shrink later and never grow.
";

const RULES: &[Rule] = &[
    Rule { name: "sizes", find: sizes::find },
    Rule { name: "names", find: names::find },
    Rule { name: "leftovers", find: leftovers::find },
    Rule { name: "clock", find: clock::find },
    Rule { name: "layers", find: layers::find },
    Rule { name: "docs", find: docs::find },
    Rule { name: "machine", find: machine::find },
];

struct Rule {
    name: &'static str,
    find: fn(&Tree) -> Vec<Finding>,
}

/// One place that breaks a rule. Line 0 means the file as a whole.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Finding { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs every rule over the repository; an error carries the number of findings, which are printed.
pub(crate) fn check() -> anyhow::Result<()> {
    let tree = Tree::read(&cargo::root())?;
    let mut count = 0;
    for rule in RULES {
        let mut findings = (rule.find)(&tree);
        findings.sort();
        for finding in &findings {
            eprintln!("{finding} [{}]", rule.name);
        }
        count += findings.len();
    }
    match count {
        0 => {
            eprintln!("tidy: {} files, {} rules, nothing found", tree.files.len(), RULES.len());
            Ok(())
        }
        1 => bail!("tidy found 1 thing, printed above"),
        _ => bail!("tidy found {count} things, printed above"),
    }
}

/// What the rules' own tests share: a small tree in, findings out as lines of text.
#[cfg(test)]
fn found(find: fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = find(&Tree::of(files));
    findings.sort();
    findings.iter().map(Finding::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        check().unwrap();
    }

    #[test]
    fn the_help_names_every_rule() {
        for rule in RULES {
            assert!(HELP.contains(&format!("\n  {} ", rule.name)), "{}", rule.name);
        }
    }
}
