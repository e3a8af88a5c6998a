//! Machine: a clone builds anywhere. No path of somebody's disk, no package host of somebody's
//! network, and the licences travel with the code.
//!
//! What is looked for is written in two halves, so that this file does not find itself.

use super::Finding;
use super::rust::line_at;
use super::tree::{File, Tree};

const PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

const HOSTS: [&str; 6] = [
    concat!("index.cra", "tes.io"),
    concat!("static.cra", "tes.io"),
    concat!("arti", "factory"),
    concat!("pypi.org", "/simple"),
    concat!("files.python", "hosted.org"),
    concat!("registry.", "npmjs.org"),
];

/// What sends cargo to another registry.
const CARGO_DETOURS: [&str; 4] = ["[source.", "[registries", "[registry]", "replace-with"];

const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        findings.extend(paths_of_one_disk(file));
        for host in HOSTS {
            for (at, _) in file.text.match_indices(host) {
                let message = format!("`{host}` is a package host; leave it to each machine");
                findings.push(Finding::new(&file.path, line_at(&file.text, at), message));
            }
        }
        if file.path.starts_with(".cargo/") {
            findings.extend(cargo_detours(file));
        }
    }
    for licence in LICENCES {
        if tree.get(licence).is_none_or(|file| file.text.is_empty()) {
            findings.push(Finding::new(licence, 0, "is missing; Windrow is MIT OR Apache-2.0"));
        }
    }
    findings
}

fn paths_of_one_disk(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in PATHS {
        for (at, _) in file.text.match_indices(path) {
            let before = file.text[..at].chars().next_back();
            let goes_on = |c: char| c.is_alphanumeric() || "_-.~}*".contains(c);
            if !before.is_some_and(goes_on) {
                let message = format!("`{path}` is a path of one machine");
                findings.push(Finding::new(&file.path, line_at(&file.text, at), message));
            }
        }
    }
    findings
}

fn cargo_detours(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for detour in CARGO_DETOURS {
        for (at, _) in file.text.match_indices(detour) {
            let message = format!("`{detour}` belongs into the configuration of a machine");
            findings.push(Finding::new(&file.path, line_at(&file.text, at), message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = found(find, &[(path, text), (LICENCES[0], "MIT"), (LICENCES[1], "Apache")]);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_file() {
        for path in PATHS {
            let expected = format!("a.toml:2: `{path}` is a path of one machine");
            check("a.toml", &format!("\nx = \"{path}me\""), &[&expected]);
        }
    }

    #[test]
    fn a_path_that_only_ends_so_is_fine() {
        for path in PATHS {
            check("a.md", &format!("docs{path}x ../crates{path} https://x.y{path}z"), &[]);
        }
    }

    #[test]
    fn a_package_host_is_found() {
        for host in HOSTS {
            let expected = format!("a.sh:1: `{host}` is a package host; leave it to each machine");
            check("a.sh", &format!("curl https://{host}/x"), &[&expected]);
        }
    }

    #[test]
    fn a_detour_of_cargo_is_found() {
        let text = "[alias]\n[source.crates-io]\n";
        let expected = "`[source.` belongs into the configuration of a machine";
        check(".cargo/config.toml", text, &[&format!(".cargo/config.toml:2: {expected}")]);
    }

    #[test]
    fn a_missing_or_empty_licence_is_found() {
        let found = found(find, &[(LICENCES[0], "")]);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
