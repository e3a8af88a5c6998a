//! Explain: why an item is where it is, and what would move it on.

use windrow_core::command::Outcome;
use windrow_core::settings::Policy;
use windrow_core::{ItemId, Status};

use crate::suite::Draft as _;

cases! {
    fn what_nobody_offers_to_do_says_so(bed) {
        let id = bed.add(bed.item());
        assert_eq!(bed.why(id), ["no_worker"]);
        bed.claim(windrow_core::command::Claim { kinds: vec!["other".into()], ..bed.asks(1) });
        assert_eq!(bed.why(id), ["no_worker"]);
    }

    fn what_a_present_worker_offers_is_next_in_line(bed) {
        bed.nothing_waits();
        let id = bed.add(bed.item());
        assert_eq!(bed.why(id), ["next_in_line"]);
    }

    fn what_is_in_hand_says_in_whose(bed) {
        let id = bed.add(bed.item());
        bed.take();
        let explained = bed.get(bed.port.explain(id)).expect("known");
        assert_eq!(explained.status, Status::Processing);
        assert_eq!(explained.reasons[0].code, "in_hand");
        assert!(explained.reasons[0].unblocked_by.contains(&bed.name), "{explained:?}");
    }

    fn what_is_delayed_says_until_when(bed) {
        bed.nothing_waits();
        let id = bed.add(bed.item().at(bed.now().plus(3_600_000)));
        assert_eq!(bed.why(id), ["not_visible"]);
    }

    fn what_is_paused_says_so(bed) {
        bed.nothing_waits();
        let id = bed.add(bed.item());
        bed.get(bed.port.pause(bed.scope()));
        assert_eq!(bed.why(id), ["paused"]);
    }

    fn what_waits_for_its_key_names_the_item(bed) {
        let first = bed.add(bed.item().key("k"));
        bed.take();
        let id = bed.add(bed.item().key("k"));
        let explained = bed.get(bed.port.explain(id)).expect("known");
        assert_eq!(explained.reasons[0].code, "earlier_with_key");
        assert!(explained.reasons[0].unblocked_by.contains(&first.to_string()));
    }

    fn what_waits_for_its_group_names_the_holder(bed) {
        bed.policy(Policy { group_limit: Some(1), ..Policy::default() });
        let holder = bed.add(bed.item().group("g"));
        bed.take();
        let id = bed.add(bed.item().group("g"));
        let explained = bed.get(bed.port.explain(id)).expect("known");
        assert_eq!(explained.reasons[0].code, "group_full");
        assert!(explained.reasons[0].unblocked_by.contains(&holder.to_string()));
    }

    fn what_waits_for_its_children_says_how_many(bed) {
        let parent = bed.parent(3);
        let explained = bed.get(bed.port.explain(parent)).expect("known");
        assert_eq!(explained.reasons[0].code, "waits_for_children");
        assert!(explained.reasons[0].unblocked_by.contains('3'), "{explained:?}");
    }

    fn what_has_ended_says_so(bed) {
        let id = bed.ended(Outcome::complete());
        assert_eq!(bed.why(id), ["ended"]);
    }

    fn an_item_that_is_not_known_has_no_explanation(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        assert_eq!(bed.get(bed.port.explain(id)), None);
    }
}
