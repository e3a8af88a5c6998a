//! A few disasters of several servers on one PostgreSQL. `cargo xtask crash postgres` has many.

use std::path::PathBuf;

use windrow_testkit::crash::postgres::campaign::{Campaign, Wanted};
use windrow_testkit::crash::postgres::disaster::Disaster;
use windrow_testkit::crash::postgres::program::{Run, control};
use windrow_testkit::servers::{Durability, Version};

const SEED: u64 = 11;

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_crash"))
}

/// Where reports go, which a test that fails leaves there.
fn work(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("windrow-crash-{name}-{}", std::process::id()))
}

#[test]
fn nothing_acknowledged_is_lost_whatever_happens_to_servers_database_and_network() {
    let durability = Durability::Real;
    let (program, version) = (program(), Version::V15);
    let wanted = Wanted { program, version, seed: SEED, durability, standby: false };
    let work = work("few");
    let mut campaign = Campaign::new(wanted, &work).unwrap_or_else(|failure| panic!("{failure}"));
    let rounds: [&[Disaster]; 5] = [
        &[Disaster::Cut],
        &[Disaster::Terminate],
        &[Disaster::Kill],
        &[Disaster::Cut, Disaster::Stop, Disaster::Kill],
        &[Disaster::Stop],
    ];
    for disasters in rounds {
        campaign.round(disasters).unwrap_or_else(|failure| panic!("{failure}"));
    }
    campaign.check().unwrap_or_else(|failure| panic!("{failure}"));
    let summary = campaign.end().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(summary.settled > 0 && summary.cuts.iter().sum::<usize>() > 0, "{summary:?}");
    std::fs::remove_dir_all(work).expect("its directory can be removed");
}

#[test]
fn a_database_that_acknowledges_before_it_writes_is_caught() {
    let (rounds, standby_rounds) = (0, 0);
    let (program, version) = (program(), Version::V15);
    let run = Run { program, version, rounds, standby_rounds, seed: SEED };
    let work = work("control");
    control(&run, &work).unwrap_or_else(|failure| panic!("{failure}"));
    std::fs::remove_dir_all(work).expect("its directory can be removed");
}
