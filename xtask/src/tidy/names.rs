//! Names: a file called after nothing holds everything. If a function has no home, its noun is
//! missing.

use super::Finding;
use super::rust::{line_at, words};
use super::tree::Tree;

const EMPTY_NOUNS: [&str; 8] =
    ["util", "utils", "helper", "helpers", "common", "manager", "managers", "misc"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for part in file.path.split('/') {
            let stem = part.split('.').next().unwrap_or(part);
            if let Some(noun) = empty_noun(stem) {
                findings.push(Finding::new(&file.path, 0, says_nothing(noun)));
            }
        }
    }
    for (file, rust) in tree.rust() {
        for at in words(&rust.code, "mod") {
            let name = rust.code[at + "mod".len()..].split_whitespace().next().unwrap_or("");
            if let Some(noun) = empty_noun(name.trim_end_matches([';', '{'])) {
                let line = line_at(&rust.code, at);
                findings.push(Finding::new(&file.path, line, says_nothing(noun)));
            }
        }
    }
    findings
}

fn empty_noun(name: &str) -> Option<&'static str> {
    let mut parts = name.split(['_', '-']);
    parts.find_map(|part| EMPTY_NOUNS.into_iter().find(|noun| *noun == part))
}

fn says_nothing(noun: &str) -> String {
    format!("`{noun}` names nothing; what do these functions have in common?")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_file_or_directory_called_after_nothing_is_found() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "src/test_helpers.rs", "misc/x.py"] {
            assert_eq!(found(find, &[(path, "")]).len(), 1, "{path}");
        }
    }

    #[test]
    fn a_module_called_after_nothing_is_found() {
        let found = found(find, &[("a.rs", "mod item;\npub(crate) mod lease_manager {\n}")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:2: `manager`"), "{}", found[0]);
    }

    #[test]
    fn a_name_that_only_begins_like_one_is_fine() {
        assert!(found(find, &[("src/commons_tragedy.rs", "mod utility;")]).is_empty());
    }
}
