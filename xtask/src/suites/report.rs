//! What is told of suites that ended: each whole when it ends, and at the end what matters.
//!
//! Decides what is a failure and reads from what a suite printed which of its tests it was. Sees
//! ended suites only, and prints nothing itself.

use std::fmt::Write as _;
use std::time::Duration;

use super::pool::{Ended, How};
use crate::test::shown;

/// How many lines are repeated of a suite that ended without saying which test failed.
const LAST_LINES: usize = 30;

impl Ended {
    pub(super) fn passed(&self) -> bool {
        matches!(&self.how, How::Itself(status) if status.success())
    }

    /// The line above what it said.
    pub(super) fn heading(&self) -> String {
        let word = if self.passed() { "ok" } else { "FAILED" };
        format!("---- {} {word}, {}", self.name, shown(self.took))
    }

    fn reason(&self) -> String {
        match &self.how {
            How::Itself(status) => status.to_string(),
            How::Late => format!("still ran after {} and was killed", shown(self.took)),
            How::Not(error) => format!("{error:#}"),
        }
    }
}

/// How many tests passed, by the last lines of the harness.
pub(super) fn passed(said: &str) -> usize {
    let results = said.lines().filter_map(|line| line.strip_prefix("test result: "));
    let counts = results.filter_map(|rest| {
        let (before, _) = rest.split_once(" passed")?;
        before.rsplit(' ').next()?.parse::<usize>().ok()
    });
    counts.sum()
}

/// The names of the tests that failed: the harness lists them last.
fn failing(said: &str) -> Vec<&str> {
    let lines: Vec<&str> = said.lines().collect();
    let list = lines.iter().rposition(|line| *line == FAILURES);
    let after = list.map_or(&[][..], |at| &lines[at + 1..]);
    let names = after.iter().map_while(|line| line.strip_prefix("    "));
    names.collect()
}

/// What the failing tests printed, which the harness shows before it lists them.
fn shown_by_failing(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let from = match lines.iter().position(|line| *line == FAILURES) {
        Some(at) if !failing(said).is_empty() => at,
        _ => lines.len().saturating_sub(LAST_LINES),
    };
    lines[from..].join("\n")
}

/// Above what failing tests printed, and again above their names.
const FAILURES: &str = "failures:";

/// A table of those that took longest.
pub(super) fn slowest(all: &[Ended], rows: usize) -> String {
    let mut sorted: Vec<(&str, Duration)> =
        all.iter().map(|ended| (ended.name.as_str(), ended.took)).collect();
    sorted.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    let mut table = String::from("the slowest suites:\n");
    for (name, took) in sorted.into_iter().take(rows) {
        let _ = writeln!(table, "  {:>8}  {name}", shown(took));
    }
    table
}

/// What the failed suites said, and then their names and those of the tests; `None` if all passed.
pub(super) fn failures(all: &[Ended]) -> Option<String> {
    let failed: Vec<&Ended> = all.iter().filter(|ended| !ended.passed()).collect();
    if failed.is_empty() {
        return None;
    }
    let mut text = String::new();
    for ended in &failed {
        let _ = writeln!(text, "\n{}\n{}", ended.heading(), shown_by_failing(&ended.said));
    }
    let _ = writeln!(text, "\n{} of {} suites failed:", failed.len(), all.len());
    for ended in &failed {
        let _ = writeln!(text, "\n  cargo test -p {}  ({})", ended.name, ended.reason());
        for test in failing(&ended.said) {
            let _ = writeln!(text, "    {test}");
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    const SAID: &str = "\nrunning 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\
        test d ... FAILED\n\nfailures:\n\n---- b::c stdout ----\nit broke\n\n\
        failures:\n    b::c\n    d\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n\n";

    fn ended(name: &str, how: How, secs: u64, said: &str) -> Ended {
        let (name, took) = (name.to_owned(), Duration::from_secs(secs));
        Ended { name, took, how, said: said.to_owned() }
    }

    fn well(name: &str, secs: u64) -> Ended {
        ended(name, How::Itself(ExitStatus::from_raw(0)), secs, "test result: ok. 3 passed; 0\n")
    }

    fn badly(said: &str) -> Ended {
        ended("p --test bad", How::Itself(ExitStatus::from_raw(101 << 8)), 1, said)
    }

    #[test]
    fn the_tests_that_failed_are_named_with_what_they_said() {
        let text = failures(&[well("p --lib", 1), badly(SAID)]).unwrap();
        let end = "1 of 2 suites failed:\n\n  cargo test -p p --test bad  (exit status: 101)\n    \
                   b::c\n    d\n";
        assert!(text.ends_with(end), "{text}");
        assert!(text.contains("it broke") && !text.contains("test a ... ok"), "{text}");
    }

    #[test]
    fn a_suite_that_ends_without_a_word_of_the_harness_shows_its_last_lines() {
        let text = failures(&[badly("test a ... ok\nfailures:\nmemory is out\n")]).unwrap();
        assert!(text.contains("memory is out"), "{text}");
        let killed = ended("p --lib", How::Itself(ExitStatus::from_raw(9)), 1, "began\n");
        let text = failures(&[killed]).unwrap();
        assert!(text.contains("signal: 9") && text.contains("began"), "{text}");
    }

    #[test]
    fn one_that_hung_or_could_not_be_run_has_failed() {
        let late = ended("p --lib", How::Late, 900, "");
        let not = ended("q --lib", How::Not(anyhow::anyhow!("no such file")), 0, "");
        let text = failures(&[late, not]).unwrap();
        assert!(text.contains("still ran after 15 m 00 s and was killed"), "{text}");
        assert!(text.contains("no such file"), "{text}");
    }

    #[test]
    fn nothing_is_said_of_failures_when_all_passed() {
        assert_eq!(failures(&[well("p --lib", 1)]), None);
        assert_eq!(well("p --lib", 61).heading(), "---- p --lib ok, 1 m 01 s");
    }

    #[test]
    fn the_slowest_come_first_and_the_quick_ones_not_at_all() {
        let all = [well("a", 2), well("b", 70), well("c", 1)];
        assert_eq!(slowest(&all, 2), "the slowest suites:\n  1 m 10 s  b\n     2.0 s  a\n");
    }

    #[test]
    fn passed_tests_are_counted_where_the_harness_says_so() {
        assert_eq!(passed(SAID), 1);
        assert_eq!(passed("test result: ok. 12 passed; 0 failed;\ntest result: ok. 3 passed;"), 15);
        assert_eq!(passed("test passed ... ok\n"), 0);
    }
}
