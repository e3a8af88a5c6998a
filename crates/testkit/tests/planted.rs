//! Negative control: every bug that can be planted in the rules is caught by the suite.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use windrow_core::planted::{Bug, with_bug};
use windrow_testkit::model::Model;
use windrow_testkit::suite::cases;

/// Those that the rules make. The others are made by stores and the engine.
const IN_THE_RULES: [Bug; 11] = [
    Bug::SettleWithoutLease,
    Bug::SettleAfterExpiry,
    Bug::ReclaimById,
    Bug::ChildCountedTwice,
    Bug::AttemptNotCounted,
    Bug::SuccessorLostOnFailure,
    Bug::DelayIgnored,
    Bug::CancelledStillClaimed,
    Bug::KeyRunsTwice,
    Bug::RetentionTakesLive,
    Bug::PardonedForEver,
];

fn main() {
    // A case that fails is what we want here; its message would only confuse.
    std::panic::set_hook(Box::new(|_| {}));
    let trial = |bug: Bug| Trial::test(format!("{bug:?} is caught"), move || catch(bug));
    let trials = IN_THE_RULES.into_iter().map(trial).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn catch(bug: Bug) -> Result<(), Failed> {
    let fails = |case: &windrow_testkit::suite::Case<Model>| {
        let run = AssertUnwindSafe(|| case.run(Arc::new(Model::new(1))));
        with_bug(bug, || catch_unwind(run)).is_err()
    };
    match cases().iter().find(|case| fails(case)) {
        Some(_) => Ok(()),
        None => Err(format!("no case notices: {}", bug.describe()).into()),
    }
}
