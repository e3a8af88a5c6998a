//! Claim: who gets what.

use windrow_core::Status;
use windrow_core::command::Claim;
use windrow_core::limits::{COMMAND_ITEMS_MAX, LEASE_MAX_MS};
use windrow_core::route::Route;

use super::code;
use crate::suite::Draft as _;

cases! {
    fn a_claim_of_nothing_gets_nothing(bed) {
        bed.nothing_waits();
    }

    fn a_claim_takes_no_more_than_it_asks_for(bed) {
        let ids = bed.add_some(5);
        let granted = bed.claim(bed.asks(3)).expect("work");
        assert_eq!(granted.items.iter().map(|work| work.id).collect::<Vec<_>>(), ids[..3]);
        assert_eq!(bed.claim(bed.asks(3)).expect("the rest").items.len(), 2);
    }

    fn a_thousand_come_at_once(bed) {
        let ids = bed.add_some(COMMAND_ITEMS_MAX);
        let granted = bed.claim(bed.asks(COMMAND_ITEMS_MAX)).expect("work");
        assert_eq!(granted.items.iter().map(|work| work.id).collect::<Vec<_>>(), ids);
        let more = bed.wait(bed.port.claim(bed.asks(COMMAND_ITEMS_MAX + 1), 0, None));
        assert_eq!(code(more), "invalid");
    }

    fn what_is_claimed_is_shown_as_processing_with_its_lease(bed) {
        let id = bed.add(bed.item());
        let held = bed.take();
        let seen = bed.seen(id);
        assert_eq!((seen.status, seen.lease), (Status::Processing, Some(held.lease)));
        assert_eq!((seen.attempts, held.work.attempt), (1, 1));
    }

    fn nobody_gets_what_another_holds(bed) {
        bed.add(bed.item());
        bed.take();
        bed.nothing_waits();
    }

    fn a_lease_lasts_as_long_as_it_was_asked_for(bed) {
        bed.add(bed.item());
        let before = bed.now();
        let granted = bed.claim(Claim { lease_ms: Some(60_000), ..bed.asks(1) }).expect("work");
        let lasts_ms = granted.expires_at.since(before);
        // The store's clock may be another one, on the same machine.
        assert!((59_000..120_000).contains(&lasts_ms), "{lasts_ms}");
    }

    fn a_lease_lasts_no_longer_than_it_may(bed) {
        bed.add(bed.item());
        let claim = Claim { lease_ms: Some(2 * LEASE_MAX_MS), ..bed.asks(1) };
        // In process it is cut; over a wire it is said that it cannot be.
        match bed.wait(bed.port.claim(claim, 0, None)) {
            Ok(granted) => {
                let lasts_ms = granted.expect("work").expires_at.since(bed.now());
                let most_ms = LEASE_MAX_MS + 60_000;
                assert!((LEASE_MAX_MS / 2..=most_ms).contains(&lasts_ms), "{lasts_ms}");
            }
            refused => assert_eq!(code(refused), "invalid"),
        }
    }

    fn a_worker_has_a_name_that_could_exist(bed) {
        let claim = Claim { worker: "x".repeat(10_000).into(), ..bed.asks(1) };
        assert_eq!(code(bed.wait(bed.port.claim(claim, 0, None))), "invalid");
    }

    fn a_claim_may_name_kinds(bed) {
        bed.add(bed.item().kind("mail"));
        let pdf = bed.add(bed.item().kind("pdf"));
        let granted = bed.claim(Claim { kinds: vec!["pdf".into()], ..bed.asks(10) });
        let ids: Vec<_> = granted.expect("work").items.iter().map(|work| work.id).collect();
        assert_eq!(ids, [pdf]);
    }

    fn a_claim_may_name_stages(bed) {
        bed.add(bed.item().route(Route::of(&["ocr", "vector"])));
        let vector = Claim { stages: vec!["vector".into()], ..bed.asks(10) };
        assert_eq!(bed.claim(vector.clone()), None);
        bed.complete(&bed.take());
        let granted = bed.claim(vector).expect("work");
        assert_eq!(&*granted.items[0].stage, "vector");
    }

    fn a_claim_may_name_tenants(bed) {
        bed.add(bed.item());
        let (other, name) = (bed.other("tenant"), bed.name.clone());
        let id = bed.add(bed.item().tenant(&other));
        let granted = bed.claim(Claim { tenants: vec![other.as_str().into()], ..bed.asks(10) });
        let ids: Vec<_> = granted.expect("work").items.iter().map(|work| work.id).collect();
        assert_eq!(ids, [id]);
        assert_eq!(&*bed.take().work.body.tenant, &*name);
    }

    fn a_claim_may_name_several_queues(bed) {
        let other = bed.other("b");
        bed.add(bed.item());
        bed.add(bed.item().queue(&other));
        let queues = vec![bed.name.as_str().into(), other.as_str().into()];
        let granted = bed.claim(Claim { queues, ..bed.asks(10) }).expect("work");
        assert_eq!(granted.items.len(), 2);
    }

    fn another_queue_has_nothing_of_this_one(bed) {
        bed.add(bed.item());
        let other = Claim::new("w", &*bed.other("b"), 1);
        assert_eq!(bed.claim(other), None);
    }
}
