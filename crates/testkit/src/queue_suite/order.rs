//! Order: what comes first.

use windrow_core::settings::Policy;

use crate::suite::Draft as _;

cases! {
    fn what_came_first_goes_first(bed) {
        let ids = bed.add_some(20);
        let got: Vec<_> = (0..20).map(|_| bed.take().id()).collect();
        assert_eq!(got, ids);
    }

    fn a_higher_priority_goes_first(bed) {
        let low = bed.add(bed.item().priority(0));
        let high = bed.add(bed.item().priority(10));
        let plain = bed.add(bed.item());
        assert_eq!([bed.take().id(), bed.take().id(), bed.take().id()], [high, plain, low]);
    }

    fn tenants_take_turns(bed) {
        let (busy, other) = (bed.item(), bed.item().tenant(&bed.other("quiet")));
        for _ in 0..6 {
            bed.add(busy.clone());
        }
        let quiet = bed.add(other);
        let first: Vec<_> = (0..2).map(|_| bed.take().id()).collect();
        assert!(first.contains(&quiet), "the quiet tenant waits behind the busy one");
    }

    fn a_group_has_as_many_leases_as_it_may(bed) {
        bed.policy(Policy { group_limit: Some(2), ..Policy::default() });
        for _ in 0..4 {
            bed.add(bed.item().group("g"));
        }
        let held = bed.take();
        bed.take();
        bed.nothing_waits();
        bed.complete(&held);
        bed.take();
        bed.nothing_waits();
    }

    fn an_ordered_group_is_strictly_first_in_first_out(bed) {
        bed.policy(Policy { ordered: true, ..Policy::default() });
        let first = bed.add(bed.item().group("g"));
        let second = bed.add(bed.item().group("g").priority(10));
        let held = bed.take();
        assert_eq!(held.id(), first);
        bed.nothing_waits();
        bed.complete(&held);
        assert_eq!(bed.take().id(), second);
    }
}
