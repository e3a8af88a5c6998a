//! The ratchet: excesses that existed when a limit came, each of which may shrink and never grow.
//!
//! A line of the file is `crates/x/src/y.rs 640` or `crates/x/src/y.rs::function 95`. It starts
//! empty and should stay so.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

pub(super) const PATH: &str = "xtask/tidy-ratchet.txt";

pub(super) struct Ratchet {
    entries: BTreeMap<String, Entry>,
}

struct Entry {
    allowed: usize,
    /// The largest excess met in this run under that name.
    met: Option<usize>,
}

impl Ratchet {
    /// The ratchet, and what is wrong with its file.
    pub(super) fn read(tree: &Tree) -> (Ratchet, Vec<Finding>) {
        let text = tree.get(PATH).map_or("", |file| file.text.as_str());
        let mut entries = BTreeMap::new();
        let mut findings = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = line.rsplit_once(' ').map(|(name, figure)| (name, figure.parse()));
            match parsed {
                Some((name, Ok(allowed))) => {
                    entries.insert(name.to_owned(), Entry { allowed, met: None });
                }
                _ => findings.push(Finding::new(PATH, index + 1, "not `NAME LINES`")),
            }
        }
        (Ratchet { entries }, findings)
    }

    /// What `subject` may measure, given the general limit.
    pub(super) fn limit(&mut self, subject: &str, measured: usize, general: usize) -> usize {
        match self.entries.get_mut(subject) {
            Some(entry) if measured > general => {
                entry.met = entry.met.max(Some(measured));
                entry.allowed
            }
            _ => general,
        }
    }

    /// What the file still allows though nothing needs it any more. Ask after all limits.
    pub(super) fn stale(&self) -> impl Iterator<Item = String> {
        self.entries.iter().filter_map(|(subject, entry)| match entry.met {
            None => Some(format!("{subject} is no longer too large, delete its line")),
            Some(met) if met < entry.allowed => Some(format!("{subject} is down to {met}, say so")),
            Some(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_means_nothing_is_found() {
        let tree = Tree::of(&[(PATH, "# a comment\n\na.rs 650\na.rs many\n")]);
        let (ratchet, findings) = Ratchet::read(&tree);
        assert_eq!(ratchet.entries.len(), 1);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].line, 4);
    }
}
