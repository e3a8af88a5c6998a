//! Clock: time is an argument. The core and the engine never read a clock or wait for one, except
//! on the one line where it enters; and no test sleeps, because a sleeping test is slow or lies.

use super::Finding;
use super::rust::{line_at, words};
use super::tree::{File, Tree};

/// Where the rules must be able to run a year in a second.
const TIMELESS: [&str; 2] = ["crates/core/", "crates/engine/"];
const READS: [&str; 5] =
    ["SystemTime::now", "Instant::now", "time::sleep", "time::sleep_until", "thread::sleep"];
const EDGE: &str = "// tidy: the clock's edge";

const SLEEPS: [&str; 3] = ["thread::sleep", "time::sleep", "time::sleep_until"];

pub(super) fn find(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, rust) in tree.rust() {
        if TIMELESS.iter().any(|place| file.path.starts_with(place)) {
            for (read, line) in occurrences(&rust.code, &READS) {
                let is_edge = rust.comments.lines().nth(line - 1).is_some_and(|l| l.contains(EDGE));
                if !is_edge {
                    let message = format!("`{read}` here: take the time as an argument");
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
        let whole_file = is_test_file(file).then_some(0..rust.code.len());
        let test_code = whole_file.map_or_else(|| rust.test_parts(), |whole| Vec::from([whole]));
        for part in test_code {
            let first_line = line_at(&rust.code, part.start);
            for (sleep, line) in occurrences(&rust.code[part], &SLEEPS) {
                let message = format!("`{sleep}` in a test: wait for the event, not for a while");
                findings.push(Finding::new(&file.path, first_line + line - 1, message));
            }
        }
    }
    findings.sort();
    // A test inside a test module lies in two test parts.
    findings.dedup();
    findings
}

fn occurrences<'a>(
    code: &'a str,
    calls: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, usize)> + 'a {
    let at_line = move |call| words(code, call).map(move |at| (call, line_at(code, at)));
    calls.iter().copied().flat_map(at_line)
}

fn is_test_file(file: &File) -> bool {
    let mut parts = file.path.split('/');
    parts.any(|part| part == "tests" || part == "tests.rs")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found = found(find, &[(path, text)]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(&format!("{path}:{expected}")), "{found}");
        }
    }

    #[test]
    fn a_clock_read_in_core_or_engine_is_found() {
        for read in READS {
            let text = format!("fn a() {{\n    {read}();\n}}");
            check("crates/core/src/a.rs", &text, &[&format!("2: `{read}`")]);
            check("crates/engine/src/a.rs", &text, &[&format!("2: `{read}`")]);
            check("crates/store/src/a.rs", &text, &[]);
        }
    }

    #[test]
    fn the_clocks_edge_is_let_through_and_only_it() {
        let text = "SystemTime::now(); // tidy: the clock's edge\nSystemTime::now();";
        check("crates/engine/src/clock.rs", text, &["2: `SystemTime::now`"]);
        let pretended = "SystemTime::now(); let a = \"// tidy: the clock's edge\";";
        check("crates/engine/src/clock.rs", pretended, &["1: `SystemTime::now`"]);
    }

    #[test]
    fn a_sleep_in_a_test_is_found_wherever_the_test_stands() {
        let sleep = "fn a() {\n    std::thread::sleep(x);\n}";
        check("crates/store/tests/a.rs", sleep, &["2: `thread::sleep`"]);
        check("crates/store/src/embedded/tests.rs", sleep, &["2: `thread::sleep`"]);
        check("crates/store/src/a.rs", &format!("#[test]\n{sleep}"), &["3: `thread::sleep`"]);
        let module = format!("#[cfg(test)]\nmod t {{\n#[tokio::test]\n{sleep}\n}}");
        check("crates/store/src/a.rs", &module, &["5: `thread::sleep`"]);
    }

    #[test]
    fn a_sleep_elsewhere_is_fine() {
        check("crates/server/src/a.rs", "fn a() { tokio::time::sleep(x); }", &[]);
    }
}
