//! Random streams on a store that dies all the time: it must say what the model says.

use windrow_testkit::model::{Model, Slip};
use windrow_testkit::reopened::{Mortality, Reopened};
use windrow_testkit::stream::{World, run};

#[test]
fn a_store_that_dies_all_the_time_is_the_store_that_lives() {
    for seed in 0..45 {
        let store = Reopened::new(seed, Mortality::default());
        if let Err(difference) = run(seed, 300, World::general(), &Model::uncounted(1), &store) {
            panic!("{difference}");
        }
    }
}

#[test]
fn a_model_that_does_not_count_to_eight_still_knows_the_order() {
    for slip in Slip::ALL.into_iter().filter(|slip| *slip != Slip::AgeForgotten) {
        let notices = |seed| {
            let store = Model::slipping(2, slip);
            run(seed, 400, World::general(), &Model::uncounted(1), &store).is_err()
        };
        assert!((0..40).any(notices), "nobody notices {slip:?}");
    }
}
