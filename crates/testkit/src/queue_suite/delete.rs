//! Delete: an ended item leaves for good.

use windrow_core::ItemId;
use windrow_core::command::Outcome;

use super::code;

cases! {
    fn an_ended_item_leaves_for_good(bed) {
        let id = bed.ended(Outcome::complete());
        assert_eq!(bed.get(bed.port.delete(id, None)), 1);
        assert_eq!(bed.get(bed.port.inspect(id)), None);
        assert_eq!(bed.get(bed.port.explain(id)), None);
        assert_eq!(bed.get(bed.port.children(id, 0, 1)), None);
    }

    fn a_live_item_is_cancelled_first(bed) {
        let id = bed.add(bed.item());
        assert_eq!(code(bed.wait(bed.port.delete(id, None))), "still_live");
        bed.get(bed.port.cancel(id, None));
        assert_eq!(bed.get(bed.port.delete(id, None)), 1);
    }

    fn a_tree_leaves_whole_and_by_its_root(bed) {
        let parent = bed.parent(2);
        let child = bed.take();
        bed.complete(&child);
        bed.complete(&bed.take());
        assert_eq!(code(bed.wait(bed.port.delete(child.id(), None))), "not_a_root");
        assert_eq!(bed.get(bed.port.delete(parent, None)), 3);
        assert_eq!(bed.get(bed.port.inspect(child.id())), None);
    }

    fn a_large_tree_leaves_in_one_call(bed) {
        let parent = bed.parent(1_000);
        bed.get(bed.port.cancel(parent, None));
        bed.until(|| bed.counted(windrow_core::Status::Cancelled) == 1_001);
        assert_eq!(bed.get(bed.port.delete(parent, Some(bed.request()))), 1_001);
        assert_eq!(bed.get(bed.port.inspect(parent)), None);
    }

    fn an_item_that_is_not_known_is_not_deleted(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        assert_eq!(code(bed.wait(bed.port.delete(id, None))), "not_found");
    }
}
