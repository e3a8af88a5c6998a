//! Prioritise: an item that waits gets another place in line.

use windrow_core::ItemId;
use windrow_core::command::Outcome;

use super::code;

cases! {
    fn an_item_overtakes_those_before_it(bed) {
        let ids = bed.add_some(3);
        bed.get(bed.port.prioritise(ids[2], 10));
        assert_eq!(bed.seen(ids[2]).priority, 10);
        assert_eq!([bed.take().id(), bed.take().id()], [ids[2], ids[0]]);
    }

    fn a_priority_has_its_range(bed) {
        let id = bed.add(bed.item());
        assert_eq!(code(bed.wait(bed.port.prioritise(id, 11))), "invalid");
        assert_eq!(bed.seen(id).priority, 5);
    }

    fn an_ended_item_has_no_place_in_line(bed) {
        let id = bed.ended(Outcome::complete());
        assert_eq!(code(bed.wait(bed.port.prioritise(id, 1))), "already_done");
    }

    fn an_item_that_is_not_known_has_no_place_in_line(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        assert_eq!(code(bed.wait(bed.port.prioritise(id, 1))), "not_found");
    }
}
