//! In which order suites run, and which of them alone.
//!
//! Decides by two lists that are kept by hand. The end of a run prints the slowest suites, from
//! which the second list is mended. A name that is no suite any more is an error, so that neither
//! list outlives what it speaks of.

use anyhow::ensure;

use super::built::Suite;

/// Suites that have the machine to themselves, after all the others, and why.
const ALONE: &[(&str, &str)] =
    &[("windrow-server --test slow", "compares how long requests take at two servers")];

/// The longest of the others, longest first: what takes long and starts last is waited for alone.
const LONG: &[&str] = &[];

/// What is run when.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Several at a time, in this order.
    pub(super) together: Vec<Suite>,
    /// One after another, afterwards, each with the reason.
    pub(super) alone: Vec<Suite>,
}

pub(super) fn plan(suites: Vec<Suite>) -> anyhow::Result<Plan> {
    planned(suites, ALONE, LONG)
}

fn planned(suites: Vec<Suite>, alone: &[(&str, &str)], long: &[&str]) -> anyhow::Result<Plan> {
    let alone: Vec<&str> = alone.iter().map(|(name, _)| *name).collect();
    for name in alone.iter().chain(long) {
        let is_here = suites.iter().any(|suite| suite.name == *name);
        ensure!(is_here, "`{name}` in {} is no suite: take it out of its list", file!());
    }
    let place = |list: &[&str], suite: &Suite| list.iter().position(|name| suite.name == *name);
    let (mut last, mut first): (Vec<Suite>, Vec<Suite>) =
        suites.into_iter().partition(|suite| place(&alone, suite).is_some());
    last.sort_by_key(|suite| place(&alone, suite));
    // The sort is stable: what is in no list stays in cargo's order, after what is long.
    first.sort_by_key(|suite| place(long, suite).unwrap_or(long.len()));
    Ok(Plan { together: first, alone: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(names: &[&str]) -> Vec<Suite> {
        names.iter().map(|name| Suite::named(name)).collect()
    }

    fn names(suites: &[Suite]) -> Vec<&str> {
        suites.iter().map(|suite| suite.name.as_str()).collect()
    }

    #[test]
    fn the_longest_run_first_and_those_that_run_alone_last() {
        let built = suites(&["a", "measures", "slow", "b", "stops", "slowest"]);
        let alone = [("stops", "why"), ("measures", "why")];
        let plan = planned(built, &alone, &["slowest", "slow"]).unwrap();
        assert_eq!(names(&plan.together), ["slowest", "slow", "a", "b"]);
        assert_eq!(names(&plan.alone), ["stops", "measures"]);
    }

    #[test]
    fn a_name_that_is_no_suite_is_refused_in_either_list() {
        let gone = planned(suites(&["a"]), &[("gone", "why")], &[]).unwrap_err();
        assert!(gone.to_string().starts_with("`gone` in "), "{gone}");
        assert!(planned(suites(&["a"]), &[], &["gone"]).is_err());
    }

    #[test]
    fn no_suite_is_in_both_lists_or_twice_and_each_that_runs_alone_says_why() {
        let mut all: Vec<&str> = ALONE.iter().map(|(name, _)| *name).chain(LONG.to_vec()).collect();
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
        assert!(ALONE.iter().all(|(_, why)| !why.is_empty()));
    }
}
