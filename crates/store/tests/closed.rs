//! A store whose threads have stopped: nobody waits for an answer that cannot come.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::sync::Arc;

use windrow_core::Timestamp;
use windrow_core::command::{Command, NewItem};
use windrow_core::item::Body;
use windrow_core::ports::{Now, Store as _, StoreError};
use windrow_store::embedded::{Embedded, Options};
use windrow_testkit::disk::SimDisk;
use windrow_testkit::suite::block_on;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn open(disk: &SimDisk) -> Embedded {
    let options = Options { segment_bytes: 64 << 10, reserve_segments: 1, ..Options::default() };
    Embedded::open(Arc::new(disk.clone()), options).unwrap()
}

fn enqueue(store: &Embedded) -> Result<(), StoreError> {
    let command = Command::Enqueue(vec![NewItem::new(Body::new("t", "q"))]);
    block_on(store.submit(vec![command.into()], Now::Given(NOW))).map(drop)
}

#[test]
fn a_handle_that_outlives_the_threads_is_told_that_the_store_is_closed() {
    // It used to wait for ever: the group was filled, and nobody was left to sync it.
    let running = open(&SimDisk::new(1)).run().unwrap();
    let handle = running.clone();
    enqueue(&handle).unwrap();
    drop(running);
    assert_eq!(enqueue(&handle), Err(StoreError::Closed));
    assert_eq!(block_on(handle.items(None, 9)).unwrap().len(), 1, "what is durable can be read");
}

#[test]
fn who_submits_while_the_store_is_closed_gets_a_true_answer_or_that_it_is_closed() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let running = open(&disk).run().unwrap();
        let worker = |store: Embedded| {
            std::thread::spawn(move || {
                let mut acknowledged = 0;
                loop {
                    match enqueue(&store) {
                        Ok(()) => acknowledged += 1,
                        Err(error) => return (acknowledged, error),
                    }
                }
            })
        };
        let workers: Vec<_> = (0..4).map(|_| worker(running.clone())).collect();
        while block_on(running.items(None, 20)).unwrap().len() < 20 {
            std::thread::yield_now();
        }
        drop(running);
        let mut acknowledged = 0;
        for worker in workers {
            let (by_it, error) = worker.join().unwrap();
            assert_eq!(error, StoreError::Closed);
            acknowledged += by_it;
        }
        let found = block_on(open(&disk.crash()).items(None, 1 << 20)).unwrap().len();
        assert_eq!(found, acknowledged, "seed {seed}: all of it, and nothing that was refused");
    }
}
