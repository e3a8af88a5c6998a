//! Random streams on a store that dies all the time: it must say what the model says.

use std::sync::Arc;

use windrow_core::command::Command;
use windrow_core::ports::Store as _;
use windrow_store::embedded::Options;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::model::{Model, Slip};
use windrow_testkit::reopened::{Mortality, Reopened};
use windrow_testkit::stepped::Stepped;
use windrow_testkit::stream::{World, run};
use windrow_testkit::suite::{Bed, block_on, fail, item};

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

/// A snapshot that is written while an item ends, runs again and ends once more has it twice, and a
/// store that loads it may find both in one chunk of its history.
#[test]
fn an_item_that_a_snapshot_has_twice_is_one_item() {
    const CHUNK: usize = (64 << 10) / 22;
    let options = Options { segment_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    let disk = SimDisk::new(1);
    let store = Stepped::open(Arc::new(disk.clone()), options.clone()).expect("it opens");
    let bed = Bed::new(Arc::new(store));
    let mut ended = Vec::new();
    while ended.len() < CHUNK {
        let count = 500.min(CHUNK - ended.len());
        bed.ask(Command::Enqueue(vec![item(); count]));
        let held = bed.claim(count);
        ended.extend(held.iter().map(|held| held.id));
        let items = held.iter().map(|held| (held.id, fail())).collect();
        bed.ask(Command::Settle { lease: held[0].lease, items });
    }
    // Most of the chunk goes, so that loading fills it up with what follows.
    for some in ended[10..].chunks(500) {
        bed.ask(Command::Delete { items: some.to_vec() });
    }
    bed.add(item());
    bed.complete(&bed.take());
    let keeping = &bed.store.store;
    keeping.begin_snapshot();
    keeping.keep_step();
    keeping.keep_step();
    bed.retry(ended[3]);
    bed.complete(&bed.take());
    while keeping.is_keeping() {
        keeping.sync_step();
        keeping.keep_step();
    }
    let before = block_on(bed.store.counts()).expect("they are counted");
    let again = Stepped::open(Arc::new(disk.kill()), options).expect("it opens again");
    assert_eq!(block_on(again.counts()).expect("they are counted"), before);
}
