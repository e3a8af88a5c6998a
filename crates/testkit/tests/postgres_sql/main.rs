//! The database as people and applications see it: views and functions, on each version that we
//! support. What they show and do is compared with the store itself.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod claim;
mod documents;
mod enqueue;
mod ground;
mod reference;
mod unified;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::suite::check_everything;

use ground::Ground;

/// Functions over a [`Ground`], by name.
macro_rules! cases {
    ($($file:ident: $($name:ident)*;)*) => {
        vec![$($((concat!(stringify!($file), "::", stringify!($name)), $file::$name as Case),)*)*]
    };
}

type Case = fn(&Ground);

fn cases() -> Vec<(&'static str, Case)> {
    cases! {
        unified:
            the_views_have_the_columns_of_the_seeds
            a_life_looks_as_seed_000_says
            seed_000_dequeues_what_a_claim_gets
            every_state_is_shown_as_it_is
            an_id_is_the_same_in_both_languages
            what_is_kept_is_counted_without_counting
            a_stale_lease_is_shown_until_it_is_taken_back;
        documents:
            a_document_bubbles_up_as_seed_001_says
            the_phases_are_those_of_the_tally
            the_queries_of_seed_001_run
            pages_of_an_older_generation_are_not_shown
            a_folded_document_is_completed_in_every_phase;
        enqueue:
            it_is_what_the_store_would_have_made
            a_key_meets_what_it_would_meet_in_the_store
            it_is_refused_in_the_words_of_the_rules
            it_is_undone_with_the_transaction
            a_waiting_claimer_is_told
            servers_and_sql_never_make_the_same_id;
        claim:
            a_claimed_job_is_settled_in_windrow
            a_transaction_that_cannot_see_others_may_not_claim
            a_lease_that_runs_out_is_taken_back
            nothing_is_claimed_twice_at_once
            what_holds_an_item_up_in_windrow_holds_it_up_in_sql
            the_best_that_may_be_claimed_is;
        reference:
            every_example_works;
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    for version in Version::ALL {
        let stores = Arc::new(Stores::start(version).expect("the server starts"));
        let trial = |(name, case): (&str, Case)| {
            let stores = Arc::clone(&stores);
            Trial::test(name, move || -> Result<(), Failed> {
                let ground = Ground::new(stores);
                case(&ground);
                check_everything(&*ground.bed.store);
                Ok(())
            })
        };
        let trials = cases().into_iter().map(trial).collect();
        if libtest_mimic::run(&arguments, trials).has_failed() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
