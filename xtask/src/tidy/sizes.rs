//! Sizes: a file can be read in one sitting, a function on one screen, a line without scrolling.

use super::ratchet::Ratchet;
use super::tree::Tree;
use super::{Finding, ratchet};

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 80;
const LINE_COLUMNS_MAX: usize = 100;

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let (mut ratchet, mut findings) = Ratchet::read(tree);
    for (file, rust) in tree.rust() {
        let lines = file.text.lines().count();
        if lines > ratchet.limit(&file.path, lines, FILE_LINES_MAX) {
            let message = format!("{lines} lines, split the file by {FILE_LINES_MAX}");
            findings.push(Finding::new(&file.path, 0, message));
        }
        for function in rust.functions() {
            let subject = format!("{}::{}", file.path, function.name);
            if function.lines > ratchet.limit(&subject, function.lines, FUNCTION_LINES_MAX) {
                let (name, lines) = (&function.name, function.lines);
                let message = format!(
                    "fn {name} has {lines} lines, {FUNCTION_LINES_MAX} allowed; \
                     name its parts and move them out"
                );
                findings.push(Finding::new(&file.path, function.line, message));
            }
        }
        for (index, line) in file.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LINE_COLUMNS_MAX {
                let message = format!("{columns} columns, {LINE_COLUMNS_MAX} allowed");
                findings.push(Finding::new(&file.path, index + 1, message));
            }
        }
    }
    let stale = ratchet.stale();
    findings.extend(stale.map(|message| Finding::new(ratchet::PATH, 0, message)));
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let found = found(find, files);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} is not {expected}");
        }
    }

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_may_have_600_lines_and_not_601() {
        check(&[("a.rs", &"//\n".repeat(600))], &[]);
        check(&[("a.rs", &"//\n".repeat(601))], &["a.rs: 601 lines"]);
        check(&[("a.md", &"\n".repeat(601))], &[]);
    }

    #[test]
    fn a_function_may_have_80_lines_and_not_81() {
        check(&[("a.rs", &function_of(80))], &[]);
        check(&[("a.rs", &function_of(81))], &["a.rs:1: fn long has 81 lines"]);
    }

    #[test]
    fn a_function_in_an_impl_or_a_test_counts_too() {
        let inside = format!("impl X {{\n#[test]\n{}}}\n", function_of(81));
        check(&[("a.rs", &inside)], &["a.rs:3: fn long has 81 lines"]);
    }

    #[test]
    fn a_line_may_have_100_columns_and_not_101() {
        check(&[("a.rs", &format!("// {}\n", "ü".repeat(97)))], &[]);
        check(&[("a.rs", &format!("// {}\n", "ü".repeat(98)))], &["a.rs:1: 101 columns"]);
    }

    #[test]
    fn an_excess_in_the_ratchet_is_let_through_and_may_not_grow() {
        let ratchet = (ratchet::PATH, "a.rs 601\na.rs::long 81\n");
        let text = function_of(81) + &"//\n".repeat(520);
        check(&[("a.rs", &text), ratchet], &[]);
        let grown = function_of(82) + &"//\n".repeat(520);
        check(&[("a.rs", &grown), ratchet], &["a.rs: 602 lines", "a.rs:1: fn long has 82"]);
    }

    #[test]
    fn an_excess_that_shrank_is_taken_out_of_the_ratchet() {
        let ratchet = (ratchet::PATH, "a.rs 700\n");
        let expected = format!("{}: a.rs is down to 650", ratchet::PATH);
        check(&[("a.rs", &"//\n".repeat(650)), ratchet], &[&expected]);
        let expected = format!("{}: a.rs is no longer", ratchet::PATH);
        check(&[("a.rs", "//\n"), ratchet], &[&expected]);
    }
}
