//! Leases that are lost: their items come back, and the late holder is told.

use windrow_core::Status;
use windrow_core::command::{Claim, Outcome};
use windrow_core::settings::{OnExpiry, Policy};
use windrow_core::trail::{Class, Ending, Progress};

use super::{Bed, Held, code};

/// An item whose lease runs out at once, and who holds it then.
fn lost<Q: windrow_core::queue::Queue>(bed: &Bed<Q>, on_expiry: OnExpiry) -> Held {
    bed.policy(Policy { on_expiry, ..Policy::default() });
    bed.add(bed.item());
    let grant = bed.claim(Claim { lease_ms: Some(1), ..bed.asks(1) }).expect("work");
    Held { lease: grant.lease, work: grant.items[0].clone() }
}

cases! {
    fn what_a_lost_lease_held_is_handed_out_again(bed) {
        let first = lost(bed, OnExpiry::Requeue);
        let again = bed.take_soon();
        assert_eq!((again.id(), again.work.attempt), (first.id(), 2));
        assert_ne!(again.lease, first.lease);
        bed.complete(&again);
    }

    fn the_late_holder_cannot_settle(bed) {
        let late = lost(bed, OnExpiry::Requeue);
        let again = bed.take_soon();
        let said = bed.settle_refused(late.lease, late.id(), Outcome::complete());
        assert_eq!(said, "lease_lost");
        assert_eq!(bed.status(late.id()), Status::Processing);
        bed.complete(&again);
    }

    fn the_late_holder_cannot_renew_or_report(bed) {
        let late = lost(bed, OnExpiry::Requeue);
        bed.take_soon();
        assert_eq!(code(bed.wait(bed.port.renew(late.lease, None))), "lease_lost");
        let said = vec![(late.id(), Progress { current: 1, total: 2, message: "m".into() })];
        let told = bed.wait(bed.port.progress(late.lease, said));
        let told = told.and_then(|each| {
            super::only(each).map_err(windrow_core::queue::Error::Refused)
        });
        assert_eq!(code(told), "lease_lost");
        assert_eq!(bed.seen(late.id()).progress, None);
    }

    fn a_lost_lease_is_in_the_log(bed) {
        let late = lost(bed, OnExpiry::Requeue);
        bed.complete(&bed.take_soon());
        let log = bed.seen(late.id()).log;
        let endings: Vec<Ending> = log.iter().map(|attempt| attempt.ending).collect();
        assert_eq!(endings, [Ending::Expired, Ending::Completed]);
        let error = log[0].error.as_ref().map(|fault| fault.class);
        assert_eq!(error, Some(Class::LeaseExpired));
    }

    fn a_lost_lease_fails_its_item_where_that_is_set(bed) {
        let late = lost(bed, OnExpiry::Fail);
        bed.until(|| bed.status(late.id()) == Status::Failed);
        let seen = bed.seen(late.id());
        let fault = seen.stages[0].error.as_ref().expect("why");
        assert_eq!(fault.class, Class::LeaseExpired);
    }

    fn a_lost_lease_waits_for_its_next_attempt_where_that_is_set(bed) {
        let late = lost(bed, OnExpiry::Retry);
        bed.until(|| bed.status(late.id()) == Status::Pending);
        assert!(bed.seen(late.id()).not_before.is_some());
        assert!(bed.why(late.id()).contains(&"not_visible".to_owned()));
    }

    fn items_of_a_lost_lease_come_back_alone_and_for_free(bed) {
        bed.policy(Policy { on_expiry: OnExpiry::Requeue, ..Policy::default() });
        bed.add_some(3);
        bed.claim(Claim { lease_ms: Some(1), ..bed.asks(3) }).expect("work");
        let alone = bed.claim_soon(bed.asks(3));
        assert_eq!(alone.items.len(), 1, "one poison item cannot fail its neighbours");
        assert_eq!(alone.items[0].attempt, 1, "the attempt came back");
    }
}
