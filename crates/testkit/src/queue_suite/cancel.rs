//! Cancel: an item ends before its time.

use windrow_core::command::Outcome;
use windrow_core::{ItemId, Status};

use super::code;

cases! {
    fn an_item_that_waits_ends_at_once(bed) {
        let id = bed.add(bed.item());
        let cancelled = bed.get(bed.port.cancel(id, None));
        assert_eq!((cancelled.id, cancelled.ongoing), (id, false));
        assert_eq!(bed.status(id), Status::Cancelled);
        bed.nothing_waits();
    }

    fn a_worker_is_told_when_it_settles(bed) {
        let id = bed.add(bed.item());
        let held = bed.take();
        bed.get(bed.port.cancel(id, None));
        assert_eq!(bed.settle_refused(held.lease, id, Outcome::complete()), "lease_lost");
        assert_eq!(bed.status(id), Status::Cancelled);
    }

    fn an_item_that_has_ended_is_not_cancelled(bed) {
        let id = bed.ended(Outcome::complete());
        assert_eq!(code(bed.wait(bed.port.cancel(id, None))), "already_done");
    }

    fn an_item_that_is_not_known_is_not_cancelled(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        assert_eq!(code(bed.wait(bed.port.cancel(id, None))), "not_found");
    }

    fn a_cancelled_tree_hands_out_nothing_and_ends(bed) {
        let parent = bed.parent(3);
        bed.get(bed.port.cancel(parent, None));
        bed.nothing_waits();
        bed.until(|| bed.status(parent) == Status::Cancelled);
        bed.until(|| bed.counted(Status::Cancelled) == 4);
    }

    fn a_cancelled_child_leaves_its_siblings(bed) {
        let parent = bed.parent(2);
        let children = bed.get(bed.port.children(parent, 0, 10)).expect("known").items;
        bed.get(bed.port.cancel(children[0].id, None));
        assert_eq!(bed.take().id(), children[1].id);
    }
}
