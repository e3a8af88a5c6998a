//! Groups: at most so many leases at a time, or strictly one after the other.

use windrow_core::command::{Claim, NewChild, Outcome};
use windrow_core::settings::{Policy, StageSettings};
use windrow_core::{ItemId, Status};

use super::*;

fn limited<S: windrow_core::ports::Store>(bed: &Bed<S>, limit: u32) {
    bed.configure(|settings| settings.defaults.group_limit = Some(limit));
}

fn ordered<S: windrow_core::ports::Store>(bed: &Bed<S>) {
    bed.configure(|settings| settings.defaults.ordered = true);
}

fn add_to<S: windrow_core::ports::Store>(bed: &Bed<S>, group: &str, count: usize) -> Vec<ItemId> {
    (0..count).map(|_| bed.add(item().group(group))).collect()
}

cases! {
    fn a_group_has_at_most_its_limit_of_leases(bed) {
        limited(bed, 2);
        let ids = add_to(bed, "g", 4);
        let held = bed.claim(10);
        assert_eq!(held.iter().map(|h| h.id).collect::<Vec<_>>(), ids[..2]);
        bed.nothing_waits();
    }

    fn a_settle_returns_the_place_in_its_group(bed) {
        limited(bed, 1);
        let ids = add_to(bed, "g", 5);
        for (id, outcome) in ids.iter().zip([Outcome::complete(), fail(), skip(), retry()]) {
            let held = bed.take();
            assert_eq!(held.id, *id);
            bed.nothing_waits();
            bed.settle(&held, outcome);
        }
        assert_eq!(bed.take().id, ids[4]);
    }

    fn an_expiry_and_a_cancel_return_the_place_too(bed) {
        limited(bed, 1);
        let ids = add_to(bed, "g", 3);
        bed.take();
        bed.advance(300_000);
        assert_eq!(bed.take().id, ids[1]);
        bed.cancel(ids[1]);
        assert_eq!(bed.take().id, ids[2]);
    }

    fn a_split_returns_the_place(bed) {
        limited(bed, 1);
        let ids = add_to(bed, "g", 2);
        bed.split(&bed.take(), children(0..1));
        let next: Vec<ItemId> = bed.claim(5).iter().map(|h| h.id).collect();
        assert!(next.contains(&ids[1]), "{next:?}");
    }

    fn groups_and_tenants_do_not_share_a_limit(bed) {
        limited(bed, 1);
        bed.add(item().group("g"));
        bed.add(item().group("h"));
        bed.add(item().group("g").tenant("u"));
        bed.add(item().group("g").queue("other"));
        bed.add(item());
        bed.add(item());
        let any = Claim { queues: Vec::new(), ..Claim::new("w", "", 10) };
        assert_eq!(bed.try_claim(any).expect("all of them").items.len(), 6);
    }

    /// A store that looked on behind what full groups held back did not count what it was about to
    /// hand out, took a seat that had shown all that it was asked for to be empty, and came short.
    fn full_groups_of_many_tenants_leave_the_rest_to_others(bed) {
        limited(bed, 1);
        let tenants = ["u", "v", "w"];
        tenants.iter().for_each(|tenant| _ = bed.add(item().group("g").tenant(tenant)));
        assert_eq!(bed.claim(3).len(), 3);
        for tenant in tenants {
            bed.add(item().group("g").tenant(tenant));
            bed.add(item().group("g").tenant(tenant));
        }
        let ids = bed.add_many(9);
        assert_eq!(bed.claim(4).iter().map(|held| held.id).collect::<Vec<_>>(), ids[..4]);
    }

    fn a_limit_belongs_to_a_stage(bed) {
        bed.configure(|settings| {
            let policy = Policy { group_limit: Some(1), ..Policy::default() };
            settings.stages.push(StageSettings { stage: "narrow".into(), policy });
        });
        for _ in 0..2 {
            bed.add(routed(&["wide", "narrow"]).group("g"));
        }
        let held = bed.claim_in("wide", 5);
        assert_eq!(held.len(), 2);
        held.iter().for_each(|h| bed.complete(h));
        assert_eq!(bed.claim_in("narrow", 5).len(), 1);
    }

    fn a_full_group_does_not_hold_up_others(bed) {
        limited(bed, 1);
        add_to(bed, "g", 3);
        let free = bed.add(item().group("h"));
        assert_eq!(bed.claim(10).iter().map(|h| h.id).max(), Some(free));
    }

    fn children_may_be_in_a_group(bed) {
        limited(bed, 1);
        bed.add(item());
        let parts = (0..3).map(|n| NewChild { group: Some("g".into()), ..child(n) }).collect();
        bed.split(&bed.take(), parts);
        assert_eq!(bed.claim(10).len(), 1);
    }

    fn an_item_that_runs_again_counts_in_its_group_again(bed) {
        limited(bed, 1);
        let ids = add_to(bed, "g", 2);
        bed.settle(&bed.take(), fail());
        bed.retry(ids[0]);
        assert_eq!(bed.take().id, ids[0]);
        bed.nothing_waits();
    }

    fn items_of_one_group_with_other_kinds_and_routes_share_its_limit(bed) {
        limited(bed, 1);
        bed.add(routed(&["a", "b"]).group("g"));
        bed.add(routed(&["b"]).group("g").kind("other"));
        bed.complete(&bed.take_in("a"));
        assert_eq!(bed.claim_in("b", 5).len(), 1);
        bed.nothing_waits();
    }

    fn a_limit_that_is_raised_lets_more_in(bed) {
        limited(bed, 1);
        add_to(bed, "g", 3);
        bed.take();
        bed.nothing_waits();
        limited(bed, 3);
        assert_eq!(bed.claim(10).len(), 2);
    }

    fn an_ordered_group_is_strictly_first_in_first_out(bed) {
        ordered(bed);
        let ids = add_to(bed, "g", 3);
        for id in ids {
            let held = bed.claim(10);
            assert_eq!(held.iter().map(|h| h.id).collect::<Vec<_>>(), [id]);
            bed.complete(&held[0]);
        }
    }

    fn in_an_ordered_group_a_retry_holds_up_those_behind_it(bed) {
        ordered(bed);
        let ids = add_to(bed, "g", 2);
        bed.settle(&bed.take(), retry());
        bed.nothing_waits();
        bed.advance(60_000);
        let held = bed.take();
        assert_eq!(held.id, ids[0]);
        bed.settle(&held, fail());
        assert_eq!(bed.take().id, ids[1]);
    }

    fn in_an_ordered_group_priority_does_not_overtake(bed) {
        ordered(bed);
        let first = bed.add(item().group("g").priority(0));
        bed.add(item().group("g").priority(10));
        assert_eq!(bed.take().id, first);
        bed.nothing_waits();
    }

    fn in_an_ordered_group_a_delayed_item_holds_up_those_behind_it(bed) {
        ordered(bed);
        let late = bed.add(item().group("g").at(bed.later(5_000)));
        bed.add(item().group("g"));
        bed.nothing_waits();
        bed.advance(5_000);
        assert_eq!(bed.take().id, late);
    }

    fn an_item_that_leaves_the_stage_frees_its_ordered_group(bed) {
        ordered(bed);
        let ids: Vec<ItemId> = (0..2).map(|_| bed.add(routed(&["a", "b"]).group("g"))).collect();
        bed.complete(&bed.take_in("a"));
        assert_eq!(bed.take_in("a").id, ids[1]);
        assert_eq!(bed.take_in("b").id, ids[0]);
    }

    fn a_cancelled_item_frees_its_ordered_group(bed) {
        ordered(bed);
        let ids = add_to(bed, "g", 2);
        bed.cancel(ids[0]);
        assert_eq!(bed.take().id, ids[1]);
        bed.is(ids[1], Status::Processing);
    }

    fn items_without_a_group_are_not_ordered(bed) {
        ordered(bed);
        bed.add_many(3);
        assert_eq!(bed.claim(10).len(), 3);
    }

    fn other_groups_go_on_beside_an_ordered_one(bed) {
        ordered(bed);
        add_to(bed, "g", 2);
        add_to(bed, "h", 2);
        assert_eq!(bed.claim(10).len(), 2);
    }
}
