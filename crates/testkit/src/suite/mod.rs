//! The conformance suite: what every store must do, one file per verb.
//!
//! A case is a function over a [`Bed`] and sees the store only through the `Store` trait. Writing
//! one inside `cases!` registers it; writing a file means naming it in `verbs!` below. After each
//! case everything is counted again ([`check_everything`]).
//!
//! Exact order is demanded only within one tenant and priority; elsewhere the cases demand laws.

mod bed;
mod draft;
mod sight;

use std::sync::Arc;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use windrow_core::ports::Store;

pub use bed::{Bed, Held, block_on, refused, scope};
pub use draft::*;
pub use sight::{check_everything, everything};

/// One case of the suite.
#[derive(Debug)]
pub struct Case<S> {
    /// The verb's file and the sentence, as in `enqueue::a_duplicate_key_returns_the_first_item`.
    pub name: String,
    run: fn(&Bed<S>),
}

impl<S: Store> Case<S> {
    fn new(module: &str, name: &str, run: fn(&Bed<S>)) -> Case<S> {
        let verb = module.rsplit("::").next().unwrap_or(module);
        Case { name: format!("{verb}::{name}"), run }
    }

    /// Runs the case on an empty store; panics if it fails.
    pub fn run(&self, store: Arc<S>) {
        let bed = Bed::new(store);
        (self.run)(&bed);
        check_everything(&*bed.store);
    }
}

/// Cases of one file: each function becomes a case.
macro_rules! cases {
    ($($(#[$meta:meta])* fn $name:ident($bed:ident) $body:block)*) => {
        $($(#[$meta])* fn $name<S: windrow_core::ports::Store>($bed: &crate::suite::Bed<S>) $body)*

        /// Every case of this file.
        pub(super) fn list<S: windrow_core::ports::Store>() -> Vec<crate::suite::Case<S>> {
            vec![$(crate::suite::Case::new(module_path!(), stringify!($name), $name::<S>)),*]
        }
    };
}

/// The files of the suite.
macro_rules! verbs {
    ($($verb:ident)*) => {
        $(mod $verb;)*

        /// Every case, in the order of the files.
        pub fn cases<S: Store>() -> Vec<Case<S>> {
            [$($verb::list::<S>()),*].into_iter().flatten().collect()
        }

        #[cfg(test)]
        const VERBS: &[&str] = &[$(stringify!($verb)),*];
    };
}

verbs! {
    enqueue successor blob claim renew progress settle backoff split roll_up reclaim cancel retry
    tree_retry delete pause introduce requests groups gates resources order retention explain find
    listen transitions texts notes notify vitals
}

/// Runs the whole suite as tests of their own, each on a store that `open` makes.
pub fn run<S: Store>(open: impl Fn() -> S + Clone + Send + 'static) -> Conclusion {
    let trial = |case: Case<S>| {
        let open = open.clone();
        Trial::test(case.name.clone(), move || -> Result<(), Failed> {
            case.run(Arc::new(open()));
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), cases::<S>().into_iter().map(trial).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn every_file_of_the_suite_is_listed() {
        let plain = ["mod", "bed", "draft", "sight"];
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/suite");
        for file in std::fs::read_dir(folder).expect("the suite's folder") {
            let name = file.expect("a file").file_name().to_string_lossy().replace(".rs", "");
            assert!(plain.contains(&&*name) || VERBS.contains(&&*name), "{name} is not listed");
        }
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let mut names: Vec<String> = cases::<Model>().into_iter().map(|case| case.name).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
