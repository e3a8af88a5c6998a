//! Trees: items that split, are counted up and join.

use std::sync::Arc;

use windrow_core::Status;
use windrow_core::command::{Claim, Outcome};
use windrow_core::route::{Route, Stage};
use windrow_core::tally::Bucket;
use windrow_core::trail::Ending;

use crate::suite::{Draft as _, child, children, fail, routed_child, slice, split, strict_split};

cases! {
    fn a_split_item_waits_for_its_children(bed) {
        let parent = bed.parent(3);
        let seen = bed.seen(parent);
        assert_eq!((seen.status, seen.lease), (Status::Pending, None));
        let counts = seen.children.expect("children").all;
        assert_eq!((counts.of(Bucket::Pending), counts.total()), (3, 3));
        let held = bed.take();
        assert_eq!((held.work.parent, &*held.work.body.kind), (Some(parent), "part"));
        assert_eq!(bed.status(parent), Status::Processing);
    }

    fn the_parent_ends_with_its_last_child(bed) {
        let parent = bed.parent(2);
        bed.complete(&bed.take());
        assert_eq!(bed.status(parent), Status::Pending);
        bed.complete(&bed.take());
        let seen = bed.seen(parent);
        assert_eq!(seen.status, Status::Completed);
        assert_eq!(seen.children.expect("children").all.of(Bucket::Completed), 2);
    }

    fn the_join_runs_when_all_children_have_ended(bed) {
        let stages = vec![Stage::splitting("pages", &["ocr"]), Stage::new("publish")];
        let route = Route { stages };
        let parent = bed.add(bed.item().route(Arc::new(route)));
        bed.settle(&bed.take(), split(vec![routed_child(0, &["ocr"]), routed_child(1, &["ocr"])]));
        bed.complete(&bed.take());
        bed.complete(&bed.take());
        let join = bed.take();
        assert_eq!((join.id(), &*join.work.stage), (parent, "publish"));
        bed.complete(&join);
        assert_eq!(bed.status(parent), Status::Completed);
    }

    fn a_bad_child_does_not_hide_the_good_ones(bed) {
        let parent = bed.parent(3);
        bed.settle(&bed.take(), fail());
        bed.complete(&bed.take());
        bed.complete(&bed.take());
        let seen = bed.seen(parent);
        let counts = seen.children.expect("children").all;
        assert_eq!((counts.of(Bucket::Completed), counts.of(Bucket::Failed)), (2, 1));
        assert_eq!(counts.percent(), 66);
    }

    fn an_item_that_needs_all_its_children_fails_with_one(bed) {
        let parent = bed.add(bed.item());
        bed.settle(&bed.take(), strict_split(children(0..2)));
        bed.settle(&bed.take(), fail());
        bed.complete(&bed.take());
        assert_eq!(bed.status(parent), Status::Failed);
    }

    fn a_split_may_go_in_slices_under_one_lease(bed) {
        let parent = bed.add(bed.item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..2)));
        assert!(bed.seen(parent).children.expect("children").more);
        // A repeated ordinal is ignored.
        assert_eq!(bed.settle(&held, split(children(1..4))), Ending::Split);
        let counts = bed.seen(parent).children.expect("children");
        assert_eq!((counts.all.total(), counts.more), (4, false));
    }

    fn two_children_with_one_ordinal_are_refused(bed) {
        let parent = bed.add(bed.item());
        let held = bed.take();
        let twins = split(vec![child(0), child(7), child(7)]);
        assert_eq!(bed.settle_refused(held.lease, parent, twins), "invalid");
        assert!(bed.seen(parent).children.is_none());
        assert_eq!(bed.settle(&held, split(children(0..2))), Ending::Split);
    }

    fn a_thousand_children_come_at_once(bed) {
        let parent = bed.parent(1_000);
        assert_eq!(bed.seen(parent).children.expect("children").all.total(), 1_000);
        let granted = bed.claim(bed.asks(1_000)).expect("work");
        let all = granted.items.iter().map(|work| (work.id, Outcome::complete())).collect();
        let each = bed.get(bed.port.settle(granted.lease, all, None));
        assert!(each.iter().all(Result::is_ok));
        assert_eq!(bed.status(parent), Status::Completed);
    }

    fn children_are_listed_in_order_and_in_pages(bed) {
        let parent = bed.parent(5);
        let first = bed.get(bed.port.children(parent, 0, 3)).expect("known");
        let numbers = |page: &windrow_core::queue::Page| -> Vec<u32> {
            page.items.iter().map(|seen| seen.place.expect("a child").number).collect()
        };
        assert_eq!(numbers(&first), [0, 1, 2]);
        let place = first.items[0].place.expect("a child");
        assert_eq!((place.parent, place.level), (parent, 1));
        let from = first.next.expect("there is more");
        let rest = bed.get(bed.port.children(parent, from, 3)).expect("known");
        assert_eq!((numbers(&rest), rest.next), (vec![3, 4], None));
    }

    fn a_long_list_of_children_comes_whole(bed) {
        let parent = bed.parent(450);
        let page = bed.get(bed.port.children(parent, 0, 1_000)).expect("known");
        assert_eq!((page.items.len(), page.next), (450, None));
    }

    fn an_item_without_children_has_an_empty_list(bed) {
        let id = bed.add(bed.item());
        let page = bed.get(bed.port.children(id, 0, 10)).expect("known");
        assert_eq!((page.items.len(), page.next), (0, None));
    }

    fn phases_are_counted_before_they_begin(bed) {
        let parent = bed.add(bed.item());
        bed.settle(&bed.take(), split(vec![routed_child(0, &["ocr", "vector"])]));
        let phases = bed.seen(parent).children.expect("children").phases;
        let names: Vec<&str> = phases.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["ocr", "vector"]);
        assert_eq!(phases[1].1.of(Bucket::Pending), 1);
    }

    fn a_child_may_have_a_payload_and_a_priority_of_its_own(bed) {
        bed.add(bed.item());
        let mut first = child(0);
        first.payload = windrow_core::item::Payload::Inline(b"\xff\x00bin".to_vec());
        let mut second = child(1);
        second.priority = Some(10);
        second.reference = Some("page-2".into());
        second.metadata = Some("{\"p\":2}".into());
        bed.settle(&bed.take(), split(vec![first, second]));
        let high = bed.take().work;
        assert_eq!((high.priority, high.body.reference.as_deref()), (10, Some("page-2")));
        assert_eq!(high.body.metadata.as_deref(), Some("{\"p\":2}"));
        assert_eq!(bed.take().work.body.payload.inline(), Some(&b"\xff\x00bin"[..]));
    }

    fn trees_may_be_deep(bed) {
        let root = bed.parent(1);
        let claim = Claim { kinds: vec!["part".into()], ..bed.asks(1) };
        let granted = bed.claim(claim).expect("the child");
        let below = vec![(granted.items[0].id, split(vec![child(0)]))];
        bed.get(bed.port.settle(granted.lease, below, None)).remove(0).expect("split");
        let held = bed.take();
        assert_eq!(bed.seen(held.id()).place.expect("a grandchild").level, 2);
        bed.complete(&held);
        assert_eq!(bed.status(root), Status::Completed);
    }
}
