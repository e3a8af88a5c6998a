//! Leftovers: what one writes to come back to later. Later is now, or an issue.

use super::Finding;
use super::rust::{line_at, words};
use super::tree::Tree;

/// Looked for in code, so a string or a comment may speak of them.
const IN_CODE: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// Looked for in comments.
const IN_COMMENTS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        let in_code = IN_CODE.map(|leftover| (leftover, &rust.code));
        let in_comments = IN_COMMENTS.map(|leftover| (leftover, &rust.comments));
        for (leftover, text) in in_code.into_iter().chain(in_comments) {
            for at in words(text, leftover) {
                let message = format!("`{leftover}` is left over; finish it or open an issue");
                findings.push(Finding::new(&file.path, line_at(text, at), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn unfinished_code_is_found() {
        for leftover in ["todo!()", "unimplemented!(\"x\")", "dbg!(x)"] {
            let text = format!("fn a() {{\n    {leftover};\n}}");
            let found = found(find, &[("a.rs", &text)]);
            assert_eq!(found.len(), 1, "{leftover}");
            assert!(found[0].starts_with("a.rs:2: "), "{}", found[0]);
        }
    }

    #[test]
    fn an_ignored_test_is_found() {
        for attribute in ["#[ignore]", "#[ignore = \"slow\"]"] {
            let text = format!("#[test]\n{attribute}\nfn a() {{}}");
            assert_eq!(found(find, &[("a.rs", &text)]).len(), 1, "{attribute}");
        }
    }

    #[test]
    fn a_promise_in_a_comment_is_found() {
        for promise in IN_COMMENTS {
            let text = format!("// {promise}: later\n/* {promise} */");
            assert_eq!(found(find, &[("a.rs", &text)]).len(), 2, "{promise}");
        }
    }

    #[test]
    fn speaking_of_them_is_fine() {
        let text = "// dbg! is refused\nlet a = \"todo!() HACK\"; let TODO_MAX = 1;";
        assert!(found(find, &[("a.rs", text)]).is_empty());
    }
}
