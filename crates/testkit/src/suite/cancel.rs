//! Cancel: an item, and everything below it, is not to be done.

use windrow_core::command::{Command, Outcome};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::{Answer, Refusal, State, Status};

use super::*;

cases! {
    fn a_waiting_item_ends_at_once(bed) {
        let id = bed.add(item());
        assert!(!bed.cancel(id).ongoing);
        bed.is(id, Status::Cancelled);
        assert_eq!(bed.trail(id).finished_at, Some(bed.now()));
        bed.nothing_waits();
    }

    fn a_leased_item_ends_at_once_and_its_holder_is_told(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.cancel(id);
        bed.is(id, Status::Cancelled);
        assert_eq!(refused(bed.try_renew(held.lease, None)), "lease_lost");
        assert_eq!(refused(bed.try_progress(&held, 1, 2)), "lease_lost");
        assert_eq!(refused(bed.try_settle(&held, fail())), "lease_lost");
    }

    fn an_ended_item_cannot_be_cancelled(bed) {
        let id = bed.add(item());
        bed.complete(&bed.take());
        assert_eq!(refused(bed.try_cancel(id)), "already_done");
        bed.is(id, Status::Completed);
        assert_eq!(refused(bed.try_cancel(windrow_core::ItemId(9))), "not_found");
    }

    fn claims_refuse_everything_below_a_cancelled_item_at_once(bed) {
        let id = bed.add(document());
        bed.split(&bed.take_in("pages"), vec![page(0), page(1)]);
        bed.complete(&bed.take_in("ocr"));
        bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
        assert!(bed.cancel(id).ongoing);
        bed.nothing_waits();
    }

    fn slices_end_the_rest_of_a_cancelled_tree(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0), page(1)]);
        bed.complete(&bed.take_in("ocr"));
        let chunks = bed.split(&bed.take_in("chunk"), vec![chunk(0), chunk(1)]);
        bed.cancel(id);
        assert_eq!(bed.sweep().cancelled, 4);
        for id in [id].iter().chain(&pages).chain(&chunks) {
            bed.is(*id, Status::Cancelled);
        }
        assert_eq!(bed.sweep().cancelled, 0);
    }

    fn the_smallest_slices_end_a_deep_tree_too(bed) {
        let id = bed.add(document());
        bed.split(&bed.take_in("pages"), vec![page(0), page(1), page(2)]);
        for _ in 0..3 {
            bed.complete(&bed.take_in("ocr"));
            bed.split(&bed.take_in("chunk"), vec![chunk(0), chunk(1)]);
        }
        bed.cancel(id);
        for _ in 0..20 {
            assert!(bed.sweep_some(1).cancelled <= 1);
        }
        bed.is(id, Status::Cancelled);
    }

    fn the_join_of_a_cancelled_item_never_runs(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        bed.split(&bed.take_in("cut"), children(0..1));
        let part = bed.take_in("work");
        bed.cancel(id);
        bed.complete(&part);
        bed.is(id, Status::Cancelled);
        bed.nothing_waits();
    }

    fn a_leased_descendant_loses_its_lease_to_the_sweep(bed) {
        let (id, _) = bed.family(item(), 2);
        let held = bed.take();
        bed.cancel(id);
        bed.sweep();
        assert_eq!(refused(bed.try_settle(&held, Outcome::complete())), "lease_lost");
        bed.is(id, Status::Cancelled);
    }

    fn an_item_that_waits_for_its_join_stage_ends_at_once(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        bed.split(&bed.take_in("cut"), children(0..2));
        bed.complete(&bed.take_in("work"));
        bed.complete(&bed.take_in("work"));
        assert!(!bed.cancel(id).ongoing);
        bed.is(id, Status::Cancelled);
    }

    fn an_item_leased_in_its_join_stage_ends_at_once(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        bed.split(&bed.take_in("cut"), children(0..1));
        bed.complete(&bed.take_in("work"));
        let held = bed.take_in("join");
        assert!(!bed.cancel(id).ongoing);
        bed.is(id, Status::Cancelled);
        assert_eq!(refused(bed.try_settle(&held, Outcome::complete())), "lease_lost");
    }

    fn an_item_between_slices_ends_with_its_children(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..2)));
        assert!(bed.cancel(id).ongoing);
        assert_eq!(refused(bed.try_settle(&held, slice(children(2..4)))), "lease_lost");
        bed.sweep();
        bed.is(id, Status::Cancelled);
        assert_eq!(bed.tally(id).children.total(), 2);
    }

    fn cancelling_a_child_leaves_its_siblings(bed) {
        let (id, parts) = bed.family(item(), 3);
        bed.cancel(parts[1]);
        bed.drain();
        bed.is(id, Status::Completed);
        assert_eq!((bed.tally(id).gaps, bed.tally(id).children.percent()), (1, 66));
        bed.is(parts[1], Status::Cancelled);
    }

    fn cancelling_twice_is_harmless(bed) {
        let (id, _) = bed.family(item(), 2);
        bed.cancel(id);
        assert!(bed.cancel(id).ongoing);
        bed.sweep();
        bed.is(id, Status::Cancelled);
    }

    fn a_cancelled_root_waits_for_its_descendants_as_a_split_item(bed) {
        let (id, _) = bed.family(item(), 1);
        bed.cancel(id);
        assert_eq!(bed.item(id).state, State::Split);
        assert_eq!(bed.why(id), ["waits_for_children"]);
    }

    fn cancelling_many_answers_for_each(bed) {
        let ids = bed.add_many(2);
        bed.complete(&bed.take());
        let answer = bed.ask(Command::Cancel { items: ids });
        let Answer::Cancelled(each) = answer else { panic!("{answer:?}") };
        assert!(each[0].is_err() && each[1].is_ok(), "{each:?}");
        let many = vec![windrow_core::ItemId(1); COMMAND_ITEMS_MAX + 1];
        let answer = bed.ask(Command::Cancel { items: many });
        assert!(matches!(answer, Answer::Refused(Refusal::Invalid { .. })));
    }
}
