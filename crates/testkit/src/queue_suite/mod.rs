//! The queue suite: what every `Queue` must do for whoever programs against it, wherever it runs.
//!
//! A case is a function over a [`Bed`] and sees the queue only through the port. Writing one inside
//! `cases!` registers it; writing a file means naming it in `files!` below. Many cases share one
//! queue at the same time, so each has queue and tenant names of its own, and nobody claims from
//! all queues. Time is real; a case waits for what happens and never for a while.
//!
//! What the rules decide is tried far more finely by the suite of the stores. These cases ask
//! whether a user gets to see it.

mod bed;

use std::sync::{Arc, OnceLock};

use libtest_mimic::{Failed, Trial};
use tokio::runtime::Handle;
use windrow_core::queue::Queue;

pub use bed::{Bed, Held, code, only};

/// One case of the suite.
#[derive(Debug)]
pub struct Case<Q> {
    /// The file and the sentence, as in `claim::a_claim_takes_no_more_than_it_asks_for`.
    pub name: String,
    run: fn(&Bed<Q>),
}

impl<Q: Queue> Case<Q> {
    fn new(module: &str, name: &str, run: fn(&Bed<Q>)) -> Case<Q> {
        let file = module.rsplit("::").next().unwrap_or(module);
        Case { name: format!("{file}::{name}"), run }
    }

    /// Runs the case; panics if it fails.
    pub fn run(&self, queue: Arc<Q>, runtime: Handle) {
        (self.run)(&Bed::new(queue, runtime));
    }
}

/// Cases of one file: each function becomes a case.
macro_rules! cases {
    ($($(#[$meta:meta])* fn $name:ident($bed:ident) $body:block)*) => {
        $($(#[$meta])* fn $name<Q: windrow_core::queue::Queue>($bed: &super::Bed<Q>) $body)*

        /// Every case of this file.
        pub(super) fn list<Q: windrow_core::queue::Queue>() -> Vec<super::Case<Q>> {
            vec![$(super::Case::new(module_path!(), stringify!($name), $name::<Q>)),*]
        }
    };
}

/// The files of the suite.
macro_rules! files {
    ($($file:ident)*) => {
        $(mod $file;)*

        /// Every case, in the order of the files.
        pub fn cases<Q: Queue>() -> Vec<Case<Q>> {
            [$($file::list::<Q>()),*].into_iter().flatten().collect()
        }

        #[cfg(test)]
        const FILES: &[&str] = &[$(stringify!($file)),*];
    };
}

files! {
    enqueue payloads requests claim waiting order renew leases progress settle trees cancel retry
    delete prioritise pause configure explain inspect
}

/// A queue that the suite runs on, with whatever must stay for it to be there.
#[derive(Debug)]
pub struct Ground<Q, K> {
    pub queue: Arc<Q>,
    pub runtime: Handle,
    pub keeps: K,
}

/// The whole suite as tests, on what `start` starts when the first of them runs.
pub fn trials<Q: Queue, K: Send + Sync + 'static>(
    place: &str,
    start: impl Fn() -> Ground<Q, K> + Send + Sync + 'static,
) -> Vec<Trial> {
    let (start, ground) = (Arc::new(start), Arc::new(OnceLock::<Ground<Q, K>>::new()));
    let trial = |case: Case<Q>| {
        let (start, ground) = (Arc::clone(&start), Arc::clone(&ground));
        Trial::test(format!("{place}::{}", case.name), move || -> Result<(), Failed> {
            let ground = ground.get_or_init(|| start());
            case.run(Arc::clone(&ground.queue), ground.runtime.clone());
            Ok(())
        })
    };
    cases::<Q>().into_iter().map(trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hands;
    use crate::model::Model;
    use windrow_engine::Engine;

    #[test]
    fn every_file_of_the_suite_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/queue_suite");
        for file in std::fs::read_dir(folder).expect("the suite's folder") {
            let name = file.expect("a file").file_name().to_string_lossy().replace(".rs", "");
            assert!(["mod", "bed"].contains(&&*name) || FILES.contains(&&*name), "{name}");
        }
    }

    #[test]
    fn no_two_cases_have_one_name() {
        let cases = cases::<Engine<Model, Hands>>();
        let mut names: Vec<String> = cases.into_iter().map(|case| case.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert!(names.len() == all && all >= 80, "{all} cases, {} names", names.len());
    }
}
