//! Renew: a lease is kept for longer, and says what it still holds.

use windrow_core::LeaseId;
use windrow_core::command::Claim;

use super::code;

cases! {
    fn a_renewal_extends_a_lease_by_what_it_was_granted_for(bed) {
        bed.add(bed.item());
        let granted = bed.claim(Claim { lease_ms: Some(60_000), ..bed.asks(1) }).expect("work");
        let renewed = bed.get(bed.port.renew(granted.lease, None));
        assert!(renewed.expires_at >= granted.expires_at);
        assert_eq!(renewed.held, [granted.items[0].id]);
    }

    fn a_renewal_may_ask_for_longer(bed) {
        bed.add(bed.item());
        let granted = bed.claim(Claim { lease_ms: Some(60_000), ..bed.asks(1) }).expect("work");
        let renewed = bed.get(bed.port.renew(granted.lease, Some(3_600_000)));
        let more_ms = renewed.expires_at.since(granted.expires_at);
        assert!(more_ms >= 3_500_000, "{more_ms}");
    }

    fn a_renewal_tells_what_is_gone(bed) {
        let ids = bed.add_some(3);
        let granted = bed.claim(bed.asks(3)).expect("work");
        bed.get(bed.port.cancel(ids[1], None));
        let renewed = bed.get(bed.port.renew(granted.lease, None));
        assert_eq!(renewed.held, [ids[0], ids[2]]);
    }

    fn a_lease_that_was_never_granted_is_lost(bed) {
        let unknown = LeaseId(bed.request().0);
        assert_eq!(code(bed.wait(bed.port.renew(unknown, None))), "lease_lost");
    }

    fn a_lease_ends_with_its_last_item(bed) {
        bed.add(bed.item());
        let held = bed.take();
        bed.complete(&held);
        assert_eq!(code(bed.wait(bed.port.renew(held.lease, None))), "lease_lost");
    }

    fn the_last_renewal_is_shown(bed) {
        let id = bed.add(bed.item());
        let (held, begun) = (bed.take(), std::time::Instant::now());
        // What is renewed in the moment in which it was granted was not renewed, and that moment
        // lasts while the machine's clock is set back.
        while bed.seen(id).stages[0].renewed.is_none() {
            assert!(begun.elapsed().as_secs() < 10, "it is not shown");
            bed.get(bed.port.renew(held.lease, None));
        }
        bed.complete(&held);
        assert!(bed.seen(id).stages[0].renewed.is_some());
    }
}
