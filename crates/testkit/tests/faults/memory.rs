//! A memory cap: enqueues are refused with a time to come back, and room appears as items end.

use windrow_core::command::{Command, Outcome};
use windrow_core::refusal::{Full, Refusal};
use windrow_store::embedded::Options;
use windrow_testkit::clock::SimClock;
use windrow_testkit::disk::SimDisk;
use windrow_testkit::stepped::Stepped;

use crate::rig::{ask, claim, enqueue, options, plain};

#[test]
fn a_memory_cap_refuses_enqueues_and_frees_as_items_end() {
    let (disk, clock) = (SimDisk::new(1), SimClock::default());
    let options = Options { memory_max: 100 * 152, ..options() };
    let store = Stepped::open(std::sync::Arc::new(disk), options).unwrap();
    let now = clock.now();
    let fill = |store: &Stepped| {
        let mut taken = 0;
        loop {
            match enqueue(store, plain(10), now) {
                Ok(_) => taken += 1,
                Err(refusal) => {
                    let Refusal::StoreFull { what: Full::Memory, retry_after_ms } = refusal else {
                        panic!("{refusal}");
                    };
                    assert!(retry_after_ms > 0);
                    return taken;
                }
            }
            assert!(taken < 1_000, "the cap is not kept");
        }
    };
    let first = fill(&store);
    assert!(
        (90..=101).contains(&first),
        "{first} items of 152 bytes fit into a hundred times that"
    );
    let grant = claim(&store, 60, now).expect("claims go on");
    let items = grant.items.iter().map(|work| (work.item.id, Outcome::complete())).collect();
    ask(&store, Command::Settle { lease: grant.lease, items }, now).unwrap();
    let second = fill(&store);
    assert!((30..=60).contains(&second), "{second} more fit after 60 ended");
    assert_eq!(store.store.poisoned(), None);
}
