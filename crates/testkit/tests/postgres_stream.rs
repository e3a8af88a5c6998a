//! Random streams: PostgreSQL must say what the model says.

use windrow_testkit::model::Model;
use windrow_testkit::servers::postgres::Version;
use windrow_testkit::servers::stores::Stores;
use windrow_testkit::stream::{World, run};

const SEEDS: u64 = 3;

/// More of them with `WINDROW_SEEDS=100`.
fn seeds() -> u64 {
    let asked = std::env::var("WINDROW_SEEDS").ok();
    asked.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

fn agrees(version: Version) {
    let stores = Stores::start(version).expect("the server starts");
    for seed in 0..seeds() {
        for world in [World::exact(), World::general()] {
            let store = stores.open().expect("a store opens");
            if let Err(difference) = run(seed, 300, world, &Model::new(1), &store) {
                panic!("{version}: {difference}");
            }
            let checked = stores.runtime().block_on(store.check()).expect("it can be read");
            assert!(checked.faults.is_empty(), "{version}, seed {seed}: {:?}", checked.faults);
        }
    }
}

#[test]
fn postgres_15_says_what_the_model_says() {
    agrees(Version::V15);
}

#[test]
fn postgres_18_says_what_the_model_says() {
    agrees(Version::V18);
}
