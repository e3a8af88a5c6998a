//! Renew: the holder of a lease is alive.

use windrow_core::command::Command;
use windrow_core::{Answer, LeaseId};

use super::*;

cases! {
    fn renewing_extends_everything_the_lease_still_holds(bed) {
        bed.add_many(3);
        let held = bed.claim(3);
        bed.complete(&held[1]);
        bed.advance(299_999);
        let renewed = bed.try_renew(held[0].lease, None).expect("it is live");
        assert_eq!(renewed.expires_at, bed.later(300_000));
        assert_eq!(renewed.held, [held[0].id, held[2].id]);
        assert_eq!(bed.advance(299_999).leases, 0);
        bed.complete(&held[2]);
    }

    fn a_renewal_may_ask_for_another_length(bed) {
        bed.add(item());
        let lease = bed.take().lease;
        let long = bed.try_renew(lease, Some(900_000)).expect("it is live");
        assert_eq!(long.expires_at, bed.later(900_000));
    }

    fn a_renewal_never_shortens(bed) {
        bed.add(item());
        let held = bed.take();
        let renewed = bed.try_renew(held.lease, Some(1)).expect("it is live");
        assert_eq!(renewed.expires_at, held.expires_at);
    }

    fn a_renewal_never_revives_an_expired_lease(bed) {
        bed.add(item());
        let held = bed.take();
        bed.clock.advance(300_000);
        assert_eq!(refused(bed.try_renew(held.lease, None)), "lease_lost");
        assert_eq!(bed.reclaim().items, 1);
    }

    fn an_unknown_lease_is_lost(bed) {
        assert_eq!(refused(bed.try_renew(LeaseId(42), None)), "lease_lost");
    }

    fn a_lease_ends_with_its_last_item(bed) {
        bed.add(item());
        let held = bed.take();
        bed.complete(&held);
        assert_eq!(refused(bed.try_renew(held.lease, None)), "lease_lost");
        assert_eq!(bed.next_due(), None);
    }

    fn a_renewal_tells_what_was_cancelled(bed) {
        bed.add_many(2);
        let held = bed.claim(2);
        bed.cancel(held[0].id);
        assert_eq!(bed.try_renew(held[0].lease, None).expect("it is live").held, [held[1].id]);
        bed.cancel(held[1].id);
        assert_eq!(refused(bed.try_renew(held[0].lease, None)), "lease_lost");
    }

    fn the_last_renewal_is_in_the_trail(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.advance(1_000);
        bed.try_renew(held.lease, None).expect("it is live");
        let renewed = bed.now();
        bed.advance(1_000);
        bed.complete(&held);
        assert_eq!(bed.trail(id).stages[0].renewed, Some(renewed));
    }

    fn grace_gives_every_lease_more_time_and_none_less(bed) {
        bed.add_many(2);
        let short = bed.take();
        let claim = windrow_core::command::Claim::new("w", QUEUE, 1);
        let long = windrow_core::command::Claim { lease_ms: Some(900_000), ..claim };
        let long = bed.try_claim(long).expect("an item");
        bed.clock.advance(400_000);
        assert_eq!(bed.ask(Command::Grace { until: bed.later(30_000) }), Answer::Done);
        assert_eq!(bed.reclaim().leases, 0);
        bed.complete(&short);
        assert_eq!(bed.advance(30_000).leases, 0);
        let renewed = bed.try_renew(long.lease, Some(1)).expect("it is live");
        assert_eq!(renewed.expires_at, long.expires_at);
    }

    fn the_next_due_time_is_when_a_lease_expires(bed) {
        bed.add(item());
        let held = bed.take();
        assert_eq!(bed.next_due(), Some(held.expires_at));
        bed.advance(1_000);
        let renewed = bed.try_renew(held.lease, None).expect("it is live");
        assert_eq!(bed.next_due(), Some(renewed.expires_at));
    }
}
