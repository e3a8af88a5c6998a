//! A little of the simulation; `cargo xtask sim` runs as much as one likes.

use windrow_testkit::sim::{Sometimes, run};

#[test]
fn a_few_seeds_of_the_simulation_are_clean_and_come_to_something() {
    let mut seen = Sometimes::default();
    for seed in 0..12 {
        match run(seed, 2_500) {
            Ok(report) => seen.add(&report.sometimes),
            Err(broken) => panic!("{broken}"),
        }
    }
    assert!(seen.claimed > 1_000 && seen.power_cuts > 20, "{seen}");
    assert!(seen.snapshots > 10 && seen.poisoned > 0 && seen.compared > 5, "{seen}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let twice = [run(3, 2_000), run(3, 2_000)].map(|ran| ran.expect("it is clean"));
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0].trace, run(4, 2_000).expect("it is clean").trace);
}
