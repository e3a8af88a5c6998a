//! Documents: the paths, types and tests they name exist, no link between pages is broken, and the
//! index of decisions is complete.
//!
//! Looks at inline code, not at fenced blocks, which hold commands and pictures. A name with a
//! wildcard or a placeholder (`crates/*`, `docs/<topic>.md`) promises nothing and is not checked.

use std::collections::HashSet;

use super::Finding;
use super::rust::{is_name, line_at, words};
use super::tree::{File, Tree};

const README: &str = "README.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const PROMISES: &str = "docs/promises.md";
const DECISIONS_INDEX: &str = "docs/decisions/README.md";

/// A path that begins like this is meant from the root, whether or not it exists.
const ROOTS: [&str; 7] = ["crates/", "docs/", "xtask/", "clients/", ".ci/", ".cargo/", "examples/"];

/// Types one may name without having written them.
const STANDARD: &str = "Arc BTreeMap BinaryHeap Box Cow Duration Err HashMap Instant Mutex None Ok \
                        Option Result Some String SystemTime Vec VecDeque";

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in [README, ARCHITECTURE] {
        if tree.get(page).is_none() {
            findings.push(Finding::new(page, 0, "is missing; the house needs it"));
        }
    }
    for page in [README, ARCHITECTURE, PROMISES, "CONTRIBUTING.md", "SECURITY.md"] {
        if let Some(file) = tree.get(page) {
            findings.extend(paths_that_do_not_exist(tree, page, &file.text));
        }
    }
    if let Some(file) = tree.get(ARCHITECTURE) {
        findings.extend(types_that_do_not_exist(tree, &file.text));
    }
    if let Some(file) = tree.get(PROMISES) {
        findings.extend(tests_that_do_not_exist(tree, &file.text));
    }
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        findings.extend(broken_links(tree, &file.path, &file.text));
    }
    findings.extend(decisions_not_in_the_index(tree));
    findings
}

fn paths_that_do_not_exist(tree: &Tree, page: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, span) in code_spans(text) {
        let Some(path) = as_path(span) else { continue };
        let exists = if ROOTS.iter().any(|root| path.starts_with(root)) {
            tree.holds(path)
        } else {
            let ending = format!("/{path}");
            tree.holds(path) || tree.files.iter().any(|file| file.path.ends_with(&ending))
        };
        if !exists {
            let message = format!("`{path}` does not exist");
            findings.push(Finding::new(page, line_at(text, at), message));
        }
    }
    findings
}

/// `None` for code that does not look like a path in this repository.
fn as_path(span: &str) -> Option<&str> {
    let has_placeholder = span.contains([' ', '*', '<', '{', '…']);
    let path = span.split([':', '#']).next().unwrap_or(span);
    let looks_like_one = ROOTS.iter().any(|root| path.starts_with(root))
        || path.ends_with(".rs")
        || path.ends_with(".md");
    (looks_like_one && !has_placeholder).then(|| path.trim_end_matches('/'))
}

fn types_that_do_not_exist(tree: &Tree, text: &str) -> Vec<Finding> {
    let declared = declared_types(tree);
    let mut findings = Vec::new();
    for (at, span) in code_spans(text) {
        for (name, is_member) in type_names(span) {
            let exists = match is_member {
                true => tree.rust().any(|(_, rust)| words(&rust.code, name).next().is_some()),
                false => declared.contains(name) || STANDARD.split(' ').any(|known| known == name),
            };
            if !exists {
                let message = format!("no struct, enum, trait or type is called `{name}`");
                findings.push(Finding::new(ARCHITECTURE, line_at(text, at), message));
            }
        }
    }
    findings
}

/// A promise is worth what proves it. A name of several words with `_` between them is a test's.
fn tests_that_do_not_exist(tree: &Tree, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, name) in code_spans(text) {
        let is_test = name.chars().all(is_name) && name.matches('_').count() > 3;
        let declared = format!("fn {name}(");
        if is_test && !tree.rust().any(|(_, rust)| rust.code.contains(&declared)) {
            let message = format!("no test is called `{name}`");
            findings.push(Finding::new(PROMISES, line_at(text, at), message));
        }
    }
    findings
}

fn declared_types(tree: &Tree) -> HashSet<&str> {
    let mut declared = HashSet::new();
    for (_, rust) in tree.rust() {
        for keyword in ["struct", "enum", "trait", "type", "union"] {
            for at in words(&rust.code, keyword) {
                let rest = rust.code[at + keyword.len()..].trim_start();
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                declared.insert(&rest[..end]);
            }
        }
    }
    declared
}

/// The CamelCase names in a piece of code, and whether each stands behind `::`.
fn type_names(span: &str) -> Vec<(&str, bool)> {
    let mut names = Vec::new();
    if span.replace("->", "").contains(['/', '-', '"', '$']) {
        return names;
    }
    let mut at = 0;
    for part in span.split_inclusive(|c| !is_name(c)) {
        let name = part.trim_end_matches(|c| !is_name(c));
        // `Cargo.toml` is a file.
        if is_camel_case(name) && !part.ends_with('.') {
            names.push((name, span[..at].ends_with("::")));
        }
        at += part.len();
    }
    names
}

fn is_camel_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.contains(|c: char| c.is_ascii_lowercase())
        && !name.contains('_')
}

fn broken_links(tree: &Tree, page: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, _) in text.match_indices("](") {
        let target = text[at + 2..].split([')', ' ']).next().unwrap_or("");
        if target.is_empty() || target.contains(':') || target.contains('\n') {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { page.to_owned() } else { resolved(page, file) };
        let lacks = |file: &File| file.path.ends_with(".md") && !has_heading(&file.text, heading);
        if !tree.holds(&path) || !heading.is_empty() && tree.get(&path).is_some_and(lacks) {
            let message = format!("the link to {target} leads nowhere");
            findings.push(Finding::new(page, line_at(text, at), message));
        }
    }
    findings
}

/// Whether a page has a heading that is linked to like this.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| line.trim_start_matches('#').trim()).any(|heading| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let linked: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        linked == anchor
    })
}

fn decisions_not_in_the_index(tree: &Tree) -> Vec<Finding> {
    let index = tree.get(DECISIONS_INDEX).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix("docs/decisions/") else {
            continue;
        };
        if file.path != DECISIONS_INDEX && !index.contains(&format!("]({name})")) {
            let message = format!("is not in the index, {DECISIONS_INDEX}");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
    findings
}

/// A link's target from the root, given the page on which it stands.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Inline code with its offset; fenced blocks are passed over.
fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find('`').map(|found| at + found) {
        let ticks = text[start..].len() - text[start..].trim_start_matches('`').len();
        let inside = start + ticks;
        let fence = "`".repeat(ticks);
        let Some(len) = text[inside..].find(&fence) else {
            break;
        };
        if ticks < 3 {
            spans.push((inside, text[inside..inside + len].trim()));
        }
        at = inside + len + ticks;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    /// A repository with one real file and these two pages.
    #[track_caller]
    fn check(architecture: &str, expected: &[&str]) {
        let code = "pub enum Status { Pending, Processing }\npub trait Store { fn submit(); }";
        let files = [
            ("crates/core/src/item.rs", code),
            ("docs/decisions/README.md", ""),
            (README, ""),
            (ARCHITECTURE, architecture),
        ];
        assert_eq!(found(find, &files), expected);
    }

    #[test]
    fn a_path_that_exists_may_be_named_in_full_or_by_its_end() {
        check("`crates/core/src/item.rs` `crates/core/` `src/item.rs` `item.rs:12` `docs/`", &[]);
    }

    #[test]
    fn a_path_that_does_not_exist_is_found() {
        check(
            "a\n`crates/core/src/gone.rs`",
            &["ARCHITECTURE.md:2: `crates/core/src/gone.rs` does not exist"],
        );
        check("`crates/src/item.rs`", &["ARCHITECTURE.md:1: `crates/src/item.rs` does not exist"]);
        check("`tem.rs`", &["ARCHITECTURE.md:1: `tem.rs` does not exist"]);
    }

    #[test]
    fn the_other_pages_are_held_to_their_paths_too() {
        let files = [(ARCHITECTURE, ""), (README, "`docs/a.md`"), ("SECURITY.md", "`docs/b.md`")];
        let expected = [
            "README.md:1: `docs/a.md` does not exist",
            "SECURITY.md:1: `docs/b.md` does not exist",
        ];
        assert_eq!(found(find, &files), expected);
    }

    #[test]
    fn a_type_that_does_not_exist_is_found() {
        check("`Status` `Store::submit` `Status::Processing` `Vec<Status>`", &[]);
        let gone = "no struct, enum, trait or type is called";
        check("`Lease`", &[&format!("ARCHITECTURE.md:1: {gone} `Lease`")]);
        check("`Processing`", &[&format!("ARCHITECTURE.md:1: {gone} `Processing`")]);
        check("`Status::Failed`", &[&format!("ARCHITECTURE.md:1: {gone} `Failed`")]);
        check("`fn a() -> Answer`", &[&format!("ARCHITECTURE.md:1: {gone} `Answer`")]);
    }

    #[test]
    fn a_type_only_spoken_of_in_a_comment_does_not_exist() {
        let files = [("a.rs", "// struct Lease\n"), (README, ""), (ARCHITECTURE, "`Lease`")];
        assert_eq!(found(find, &files).len(), 1);
    }

    #[test]
    fn fences_commands_and_placeholders_are_passed_over() {
        check("```\n`crates/gone.rs` Lease\n```\n`crates/*` `cargo xtask up` `Cargo.toml`", &[]);
        check("a span may `wrap over\na line` and `item.rs` is still read", &[]);
    }

    #[test]
    fn a_broken_link_is_found() {
        check("[a](docs/decisions/README.md) [b](https://x.y/z) [e](docs/#f)", &[]);
        check("[a](docs/gone.md)", &["ARCHITECTURE.md:1: the link to docs/gone.md leads nowhere"]);
        let page = ("docs/a.md", "[up](../README.md) [gone](../gone.md)");
        let found = found(find, &[page, (README, ""), (ARCHITECTURE, "")]);
        assert_eq!(found, ["docs/a.md:1: the link to ../gone.md leads nowhere"]);
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_found() {
        check("# A `b`, c\n[a](#a-b-c) [d](crates/core/src/item.rs#L1)", &[]);
        check("[a](#a)\n## A b", &["ARCHITECTURE.md:1: the link to #a leads nowhere"]);
        let (page, other) = (("docs/a.md", "[b](b.md#c)"), ("docs/b.md", "# D"));
        let found = found(find, &[page, other, (README, ""), (ARCHITECTURE, "")]);
        assert_eq!(found, ["docs/a.md:1: the link to b.md#c leads nowhere"]);
    }

    #[test]
    fn a_promise_whose_proof_does_not_exist_is_found() {
        let code = ("a.rs", "cases! { fn an_item_that_ends_is_kept(bed) {} }");
        let text = "`an_item_that_ends_is_kept` `not_a_test` `an_item_that_ends_is_gone`";
        let found = found(find, &[code, (PROMISES, text), (README, ""), (ARCHITECTURE, "")]);
        assert_eq!(found, ["docs/promises.md:1: no test is called `an_item_that_ends_is_gone`"]);
    }

    #[test]
    fn a_decision_that_is_not_in_the_index_is_found() {
        let index = (DECISIONS_INDEX, "[1](0001-a.md)");
        let (first, second) = (("docs/decisions/0001-a.md", ""), ("docs/decisions/0002-b.md", ""));
        let found = found(find, &[index, first, second, (README, ""), (ARCHITECTURE, "")]);
        let expected = "docs/decisions/0002-b.md: is not in the index, docs/decisions/README.md";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_missing_page_is_found() {
        let found = found(find, &[(README, "")]);
        assert_eq!(found, ["ARCHITECTURE.md: is missing; the house needs it"]);
    }
}
