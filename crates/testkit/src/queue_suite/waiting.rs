//! Claims that wait: woken when there is work, and let go when there is none.

use std::time::{Duration, Instant};

use windrow_core::Status;
use windrow_core::settings::{Backoff, Policy};

use crate::suite::{Draft as _, retry};

const LONG_MS: u64 = 60_000;
/// Far less than the wait, and far more than a slow machine takes.
const SOON: Duration = Duration::from_secs(20);

cases! {
    fn a_claim_that_waits_is_woken_by_an_enqueue(bed) {
        let began = Instant::now();
        let waiting = bed.claim_later(bed.asks(1), LONG_MS);
        let id = bed.add(bed.item());
        let granted = bed.wait(waiting).expect("no panic").expect("work");
        assert_eq!(granted.items[0].id, id);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }

    fn a_claim_that_waits_for_nothing_is_let_go_in_time(bed) {
        let began = Instant::now();
        assert_eq!(bed.get(bed.port.claim(bed.asks(1), 150, None)), None);
        assert!(began.elapsed() >= Duration::from_millis(140), "{:?}", began.elapsed());
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }

    fn a_claim_does_not_wait_when_there_is_work(bed) {
        let id = bed.add(bed.item());
        let began = Instant::now();
        let granted = bed.get(bed.port.claim(bed.asks(10), LONG_MS, None)).expect("work");
        assert_eq!(granted.items[0].id, id);
        assert!(began.elapsed() < SOON);
    }

    fn a_claim_that_waits_is_woken_when_a_delay_is_over(bed) {
        let waiting = bed.claim_later(bed.asks(1), LONG_MS);
        let id = bed.add(bed.item().at(bed.now().plus(200)));
        let granted = bed.wait(waiting).expect("no panic").expect("work");
        assert_eq!(granted.items[0].id, id);
        assert!(bed.now() >= granted.items[0].id.created_at().plus(150));
    }

    fn a_claim_that_waits_is_woken_by_a_retry_whose_time_has_come(bed) {
        let backoff = Backoff { base_ms: 50, cap_ms: 50, slow_base_ms: 50, slow_cap_ms: 50 };
        bed.policy(Policy { backoff, ..Policy::default() });
        let id = bed.add(bed.item());
        bed.settle(&bed.take(), retry());
        let held = bed.take_soon();
        assert_eq!((held.id(), held.work.attempt), (id, 2));
    }

    fn a_claim_that_waits_is_woken_by_a_resume(bed) {
        bed.get(bed.port.pause(bed.scope()));
        let id = bed.add(bed.item());
        let waiting = bed.claim_later(bed.asks(1), LONG_MS);
        bed.get(bed.port.resume(bed.scope()));
        let granted = bed.wait(waiting).expect("no panic").expect("work");
        assert_eq!(granted.items[0].id, id);
    }

    fn a_claim_that_waits_is_woken_by_the_next_stage(bed) {
        let id = bed.add(bed.item().route(windrow_core::route::Route::of(&["a", "b"])));
        let held = bed.take();
        let waiting = bed.claim_later(bed.asks(1), LONG_MS);
        bed.complete(&held);
        let granted = bed.wait(waiting).expect("no panic").expect("work");
        assert_eq!((granted.items[0].id, &*granted.items[0].stage), (id, "b"));
    }

    fn of_many_that_wait_each_item_wakes_one(bed) {
        let waiting: Vec<_> = (0..8).map(|_| bed.claim_later(bed.asks(1), LONG_MS)).collect();
        let mut ids = bed.add_some(8);
        let mut got: Vec<_> = waiting
            .into_iter()
            .map(|one| bed.wait(one).expect("no panic").expect("work").items[0].id)
            .collect();
        got.sort();
        ids.sort();
        assert_eq!(got, ids);
        assert_eq!(bed.counted(Status::Processing), 8);
    }
}
