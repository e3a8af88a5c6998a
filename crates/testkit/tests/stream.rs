//! Random streams: the model against itself, and against models that slip.

use std::sync::Arc;

use windrow_store::embedded::Options;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::model::{Model, Slip};
use windrow_testkit::stepped::Stepped;
use windrow_testkit::stream::{World, run};

fn agree(seed: u64, world: World) {
    // Different seeds: leases have other names, everything else must be the same.
    let (model, store) = (Model::new(1), Model::new(2));
    if let Err(difference) = run(seed, 400, world, &model, &store) {
        panic!("{difference}");
    }
}

#[test]
fn two_models_say_the_same_with_one_tenant_and_priority() {
    (0..40).for_each(|seed| agree(seed, World::exact()));
}

#[test]
fn two_models_obey_the_same_laws_with_many() {
    (0..40).for_each(|seed| agree(seed, World::general()));
}

fn embedded_agrees(seed: u64, world: World) {
    let options = Options { segment_bytes: 1 << 20, seed: Some(seed), ..Options::default() };
    let store = Stepped::open(Arc::new(SimDisk::new(seed)), options).expect("it opens");
    if let Err(difference) = run(seed, 400, world, &Model::new(1), &store) {
        panic!("{difference}");
    }
}

#[test]
fn the_embedded_store_says_what_the_model_says_with_one_tenant_and_priority() {
    (0..60).for_each(|seed| embedded_agrees(seed, World::exact()));
}

#[test]
fn the_embedded_store_obeys_the_laws_of_the_model_with_many() {
    (0..60).for_each(|seed| embedded_agrees(seed, World::general()));
}

#[test]
fn a_stream_does_something_in_every_world() {
    for world in [World::exact(), World::general()] {
        let report = run(7, 1_000, world, &Model::new(1), &Model::new(2)).expect("they agree");
        assert!(report.created > 200 && report.handed_out > 250, "{report:?}");
    }
}

#[test]
fn every_slip_is_noticed_in_every_world() {
    let mut missed = Vec::new();
    for slip in Slip::ALL {
        for world in [World::exact(), World::general()] {
            let notices = |seed| {
                let store = Model::slipping(2, slip);
                run(seed, 400, world.clone(), &Model::new(1), &store).is_err()
            };
            if !(0..40).any(notices) {
                missed.push((slip, world.exact));
            }
        }
    }
    assert!(missed.is_empty(), "nobody notices {missed:?}");
}
