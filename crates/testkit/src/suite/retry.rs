//! Retry: an operator runs an ended item again, as it is or as a copy.

use windrow_core::command::RetryMode::{Clone, Reset};
use windrow_core::command::{Command, Outcome};
use windrow_core::trail::Class;
use windrow_core::{Answer, ItemId, Status};

use super::*;

cases! {
    fn a_failed_item_runs_again_from_its_failed_stage_with_all_attempts(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.settle(&bed.take_in("a"), complete_with(b"kept"));
        bed.settle(&bed.take_in("b"), fail());
        let retried = bed.retry(id);
        assert_eq!((retried.id, retried.reset, retried.more), (id, 1, false));
        let reset = bed.item(id);
        assert_eq!((reset.stage, reset.attempts, reset.status()), (1, 0, Status::Pending));
        assert_eq!(bed.trail(id).finished_at, None);
        let held = bed.take_in("b");
        assert_eq!(held.work.input.as_deref(), Some(&b"kept"[..]));
        bed.complete(&held);
        bed.is(id, Status::Completed);
    }

    fn a_cancelled_item_runs_again(bed) {
        let id = bed.add(item());
        bed.cancel(id);
        bed.retry(id);
        bed.complete(&bed.take());
        bed.is(id, Status::Completed);
    }

    fn a_completed_or_skipped_item_is_not_reset_without_a_stage(bed) {
        for outcome in [Outcome::complete(), skip()] {
            let id = bed.add(item());
            bed.settle(&bed.take(), outcome);
            assert_eq!(refused(bed.try_retry(id, Reset, None)), "not_resettable");
            bed.restart(id, "work");
            bed.complete(&bed.take());
            bed.is(id, Status::Completed);
        }
    }

    fn a_live_item_is_not_retried(bed) {
        let id = bed.add(item().key("k"));
        let check = |id: ItemId| {
            assert_eq!(refused(bed.try_retry(id, Reset, None)), "still_live");
            assert_eq!(refused(bed.try_retry(id, Clone, None)), "still_live");
        };
        check(id);
        let held = bed.take();
        check(id);
        check(bed.add(item().key("k")));
        bed.split(&held, children(0..1));
        check(id);
        assert_eq!(refused(bed.try_retry(ItemId(3), Reset, None)), "not_found");
    }

    fn an_item_that_waits_for_its_time_is_due_at_once(bed) {
        let id = bed.add(item().at(bed.later(60_000)));
        bed.nothing_waits();
        let retried = bed.retry(id);
        assert_eq!((retried.id, retried.reset, retried.more), (id, 1, false));
        let held = bed.take();
        assert_eq!(held.id, id);
        bed.settle(&held, retry_later());
        let before = bed.see(id);
        bed.retry(id);
        let after = bed.see(id);
        // Its attempts and what they came to stay as they are.
        assert_eq!(after.item.attempts, before.item.attempts);
        assert_eq!(after.trail, before.trail);
        assert_eq!(refused(bed.try_retry(id, Reset, None)), "still_live", "it is due");
        let held = bed.take();
        assert_eq!((held.id, bed.item(id).attempts), (id, 2));
        bed.complete(&held);
        bed.is(id, Status::Completed);
    }

    fn an_item_that_waits_for_its_time_is_neither_cloned_nor_restarted(bed) {
        let id = bed.add(item().at(bed.later(60_000)));
        assert_eq!(refused(bed.try_retry(id, Clone, None)), "still_live");
        assert_eq!(refused(bed.try_retry(id, Reset, Some("work"))), "still_live");
        // Who waits for another item gains nothing by being due.
        let first = bed.add(item().key("k"));
        let behind = bed.add(item().key("k"));
        assert_eq!(refused(bed.try_retry(behind, Reset, None)), "still_live");
        assert_eq!(bed.take().id, first);
    }

    fn a_child_whose_tree_was_cancelled_is_not_made_due(bed) {
        let root = bed.add(item());
        bed.split(&bed.take(), children(0..1));
        let child = bed.children(root)[0];
        bed.settle(&bed.take(), retry_later());
        bed.cancel(root);
        assert!(bed.try_retry(child, Reset, None).is_err());
    }

    fn restarting_from_an_earlier_stage_forgets_what_came_after(bed) {
        let id = bed.add(routed(&["a", "b", "c"]));
        for stage in ["a", "b", "c"] {
            bed.settle(&bed.take_in(stage), complete_with(stage.as_bytes()));
        }
        bed.restart(id, "b");
        let trail = bed.trail(id);
        assert_eq!((trail.stages.len(), trail.result, trail.finished_at), (1, None, None));
        assert_eq!(bed.take_in("b").work.input.as_deref(), Some(&b"a"[..]));
    }

    fn a_stage_that_is_not_of_the_route_or_not_reached_is_refused(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.settle(&bed.take_in("a"), fail());
        for mode in [Reset, Clone] {
            assert_eq!(refused(bed.try_retry(id, mode, Some("x"))), "no_such_stage");
            assert_eq!(refused(bed.try_retry(id, mode, Some("b"))), "invalid");
        }
        bed.is(id, Status::Failed);
    }

    fn a_clone_leaves_the_item_as_history_and_copies_what_was_put_out(bed) {
        let id = bed.add(routed(&["a", "b"]).key("k").payload(b"x").priority(8));
        bed.settle(&bed.take_in("a"), complete_with(b"paid for"));
        bed.settle(&bed.take_in("b"), fail());
        let copy = bed.clone_item(id);
        assert_ne!(copy, id);
        bed.is(id, Status::Failed);
        let seen = bed.see(copy);
        assert_eq!((seen.body.cloned_from, seen.item.priority), (Some(id), 8));
        assert_eq!(seen.body.payload, bed.see(id).body.payload);
        assert_eq!((seen.item.stage, seen.trail.attempts.len()), (1, 0));
        let held = bed.take_in("b");
        assert_eq!((held.id, held.work.input.as_deref()), (copy, Some(&b"paid for"[..])));
        bed.complete(&held);
        bed.is(copy, Status::Completed);
    }

    fn a_clone_of_a_completed_item_begins_at_the_first_stage(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.settle(&bed.take_in("a"), complete_with(b"1"));
        bed.complete(&bed.take_in("b"));
        let copy = bed.clone_item(id);
        assert_eq!(bed.take_in("a").id, copy);
        let later = bed.try_retry(id, Clone, Some("b")).expect("it is cloned").id;
        let held = bed.take_in("b");
        assert_eq!((held.id, held.work.input.as_deref()), (later, Some(&b"1"[..])));
    }

    fn a_clone_copies_the_item_and_never_its_children(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        bed.split(&bed.take_in("cut"), children(0..2));
        bed.complete(&bed.take_in("work"));
        bed.complete(&bed.take_in("work"));
        bed.settle(&bed.take_in("join"), fail());
        let copy = bed.clone_item(id);
        assert_eq!((bed.item(copy).stage, bed.see(copy).tally), (0, None));
        assert_eq!(bed.children(copy), []);
    }

    fn a_child_is_not_cloned(bed) {
        let (_, parts) = bed.family(item(), 1);
        bed.settle(&bed.take(), fail());
        assert_eq!(refused(bed.try_retry(parts[0], Clone, None)), "not_a_root");
    }

    fn a_key_that_is_live_again_is_in_use(bed) {
        let first = bed.add(item().key("k"));
        bed.settle(&bed.take(), fail());
        let second = bed.add(item().key("k"));
        for mode in [Reset, Clone] {
            let refusal = bed.try_retry(first, mode, None).expect_err("its key is live");
            assert_eq!(refusal, windrow_core::Refusal::KeyInUse { by: second });
        }
        bed.complete(&bed.take());
        bed.retry(first);
        assert_eq!(bed.enqueue(item().key("k")).id, first, "it has its key again");
    }

    fn retrying_many_answers_for_each(bed) {
        let ids = bed.add_many(2);
        bed.settle(&bed.take(), fail());
        let command = Command::Retry { items: ids, mode: Reset, from_stage: None };
        let answer = bed.ask(command);
        let Answer::Retried(each) = answer else { panic!("{answer:?}") };
        assert!(each[0].is_ok() && each[1].is_err(), "{each:?}");
    }

    fn an_error_stays_readable_until_the_stage_runs_again(bed) {
        let id = bed.add(item());
        let message = "no such file".to_owned();
        bed.settle(&bed.take(), Outcome::Fail { class: Class::Gone, message });
        assert_eq!(bed.trail(id).last_error().map(|e| &*e.message), Some("no such file"));
        bed.retry(id);
        assert_eq!(bed.trail(id).attempts.len(), 1, "the log keeps what happened");
        assert_eq!(bed.trail(id).last_error(), None);
    }
}
