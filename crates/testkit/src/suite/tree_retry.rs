//! Retry in trees: failed descendants, reopened ancestors, new generations.

use windrow_core::command::RetryMode::{Clone, Reset};
use windrow_core::command::{Claim, Outcome};
use windrow_core::tally::Bucket;
use windrow_core::{ItemId, State, Status};

use super::*;

/// Fails or completes children as they come, by their number.
fn settle_parts<S: windrow_core::ports::Store>(bed: &Bed<S>, failing: &[u32]) {
    while let Some(held) = bed.claim_in("work", 1).pop() {
        let number = held.work.item.place.map(|place| place.number());
        let fails = number.is_some_and(|number| failing.contains(&number));
        bed.settle(&held, if fails { fail() } else { Outcome::complete() });
    }
}

/// An item split into so many parts, some of which fail.
fn broken<S: windrow_core::ports::Store>(
    bed: &Bed<S>,
    parts: u32,
    failing: &[u32],
) -> (ItemId, Vec<ItemId>) {
    let id = bed.add(routed(&["cut", "join"]));
    let parts = bed.split(&bed.take_in("cut"), children(0..parts));
    settle_parts(bed, failing);
    (id, parts)
}

cases! {
    fn a_retry_of_a_parent_resets_its_failed_descendants_only(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), strict_split(children(0..4)));
        let parts = bed.children(id);
        settle_parts(bed, &[1, 3]);
        bed.is(id, Status::Failed);
        let retried = bed.retry(id);
        assert_eq!((retried.reset, retried.more), (2, false));
        let statuses: Vec<Status> = parts.iter().map(|part| bed.status(*part)).collect();
        use Status::{Completed, Pending};
        assert_eq!(statuses, [Completed, Pending, Completed, Pending]);
        assert_eq!(bed.item(id).state, State::Split);
        assert_eq!(bed.trail(id).last_error(), None);
        bed.drain();
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).gaps, 0);
    }

    fn a_retry_of_a_document_that_completed_with_gaps_fills_them(bed) {
        let (id, parts) = broken(bed, 3, &[1]);
        bed.complete(&bed.take_in("join"));
        bed.is(id, Status::Completed);
        assert_eq!(bed.retry(id).reset, 1);
        bed.is(parts[1], Status::Pending);
        bed.complete(&bed.take_in("work"));
        bed.complete(&bed.take_in("join"));
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).gaps, 0);
    }

    fn a_retry_of_a_split_item_resets_what_failed_while_the_rest_runs(bed) {
        let (id, parts) = bed.family(item(), 3);
        bed.settle(&bed.take(), fail());
        let running = bed.take();
        assert_eq!(bed.retry(id).reset, 1);
        bed.is(parts[0], Status::Pending);
        assert_eq!(bed.item(running.id).lease(), Some(running.lease));
    }

    fn a_retry_reaches_what_failed_deep_below_a_running_tree(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0)]);
        bed.complete(&bed.take_in("ocr"));
        let chunks = bed.split(&bed.take_in("chunk"), vec![chunk(0), chunk(1)]);
        bed.settle(&bed.take_in("vector"), fail());
        assert_eq!(bed.retry(id).reset, 1);
        bed.is(chunks[0], Status::Pending);
        assert_eq!(refused(bed.try_retry(pages[0], Reset, None)), "still_live");
    }

    fn retrying_a_descendant_reopens_every_ancestor_and_the_join_runs_again(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0)]);
        bed.complete(&bed.take_in("ocr"));
        let chunks = bed.split(&bed.take_in("chunk"), vec![chunk(0), chunk(1)]);
        bed.settle(&bed.take_in("vector"), fail());
        bed.complete(&bed.take_in("vector"));
        bed.complete(&bed.take_in("graph"));
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
        bed.retry(chunks[0]);
        assert_eq!((bed.item(pages[0]).state, bed.item(id).state), (State::Split, State::Split));
        assert_eq!(bed.trail(id).finished_at, None);
        bed.complete(&bed.take_in("vector"));
        bed.complete(&bed.take_in("graph"));
        bed.is(pages[0], Status::Completed);
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
    }

    fn a_join_that_waits_or_runs_is_taken_back(bed) {
        for leased in [false, true] {
            let (id, parts) = broken(bed, 2, &[0]);
            let held = leased.then(|| bed.take_in("join"));
            bed.retry(parts[0]);
            assert_eq!(bed.item(id).state, State::Split);
            if let Some(held) = held {
                assert_eq!(refused(bed.try_settle(&held, Outcome::complete())), "lease_lost");
            }
            bed.complete(&bed.take_in("work"));
            bed.complete(&bed.take_in("join"));
            bed.is(id, Status::Completed);
        }
    }

    fn a_parent_that_failed_in_a_stage_of_its_own_repeats_only_that(bed) {
        let (id, parts) = broken(bed, 2, &[]);
        bed.settle(&bed.take_in("join"), fail());
        assert_eq!(bed.retry(id).reset, 1);
        parts.iter().for_each(|part| bed.is(*part, Status::Completed));
        bed.complete(&bed.take_in("join"));
        bed.is(id, Status::Completed);
    }

    fn a_child_of_an_earlier_split_takes_its_parent_back_there(bed) {
        let id = bed.add(routed(&["first", "between", "second"]));
        bed.split(&bed.take_in("first"), vec![routed_child(0, &["x"])]);
        let lost = bed.take_in("x");
        bed.settle(&lost, fail());
        bed.complete(&bed.take_in("between"));
        bed.split(&bed.take_in("second"), vec![routed_child(0, &["y"])]);
        bed.retry(lost.id);
        assert_eq!((bed.item(id).stage, bed.item(id).state), (0, State::Split));
        bed.complete(&bed.take_in("x"));
        bed.complete(&bed.take_in("y"));
        bed.complete(&bed.take_in("between"));
        bed.split(&bed.take_in("second"), vec![routed_child(0, &["y"])]);
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).children.total(), 2);
    }

    fn gaps_of_two_splits_are_filled_in_the_order_of_their_stages(bed) {
        let id = bed.add(routed(&["first", "second", "last"]));
        let x = |number| routed_child(number, &["x"]);
        let y = |number| routed_child(number, &["y"]);
        bed.split(&bed.take_in("first"), vec![x(0), x(1)]);
        bed.settle(&bed.take_in("x"), fail());
        bed.complete(&bed.take_in("x"));
        bed.split(&bed.take_in("second"), vec![y(1)]);
        bed.settle(&bed.take_in("y"), fail());
        bed.complete(&bed.take_in("last"));
        assert_eq!(bed.retry(id).reset, 2);
        // It went back for the later one alone, and nothing was ever made of the earlier one.
        assert_eq!((bed.item(id).stage, bed.item(id).state), (0, State::Split));
        bed.complete(&bed.take_in("x"));
        bed.complete(&bed.take_in("y"));
        bed.split(&bed.take_in("second"), vec![y(0), y(1)]);
        bed.complete(&bed.take_in("y"));
        bed.complete(&bed.take_in("last"));
        bed.is(id, Status::Completed);
        assert_eq!((bed.tally(id).children.total(), bed.tally(id).gaps), (4, 0));
    }

    fn a_child_of_a_stage_that_is_still_to_come_takes_nobody_past_it(bed) {
        let id = bed.add(routed(&["first", "second", "last"]));
        bed.split(&bed.take_in("first"), vec![routed_child(0, &["x"])]);
        let early = bed.take_in("x");
        bed.settle(&early, fail());
        bed.split(&bed.take_in("second"), vec![routed_child(0, &["y"])]);
        let late = bed.take_in("y");
        bed.settle(&late, fail());
        bed.complete(&bed.take_in("last"));
        bed.retry(early.id);
        bed.complete(&bed.take_in("x"));
        bed.retry(late.id);
        let both = vec![routed_child(0, &["y"]), routed_child(1, &["y"])];
        bed.split(&bed.take_in("second"), both);
        assert_eq!(bed.item(id).state, State::Split, "it waits for both");
        bed.complete(&bed.take_in("y"));
        bed.complete(&bed.take_in("y"));
        bed.complete(&bed.take_in("last"));
        bed.is(id, Status::Completed);
    }

    fn restarting_begins_a_new_generation_of_children(bed) {
        let (id, old) = broken(bed, 3, &[0]);
        bed.complete(&bed.take_in("join"));
        bed.restart(id, "cut");
        assert_eq!((bed.item(id).generation, bed.see(id).tally), (1, None));
        assert_eq!(bed.children(id), []);
        let new = bed.split(&bed.take_in("cut"), children(0..2));
        assert!(new.iter().all(|part| !old.contains(part)));
        assert_eq!(bed.tally(id).children.total(), 2);
        settle_parts(bed, &[]);
        bed.complete(&bed.take_in("join"));
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).gaps, 0, "old children count no more");
    }

    fn restarting_a_split_item_cancels_the_old_subtree(bed) {
        let (id, old) = bed.family(item(), 2);
        let running = bed.take();
        bed.restart(id, "work");
        let held = bed.take();
        assert_eq!(held.id, id, "nothing of the old generation is handed out");
        bed.sweep();
        old.iter().for_each(|part| bed.is(*part, Status::Cancelled));
        assert_eq!(refused(bed.try_settle(&running, Outcome::complete())), "lease_lost");
        bed.split(&held, children(0..1));
        bed.drain();
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).children.of(Bucket::Completed), 1);
    }

    fn a_child_left_behind_does_not_touch_the_new_counts(bed) {
        let (id, _) = bed.family(item(), 2);
        let stale = bed.take();
        bed.restart(id, "work");
        bed.split(&bed.take(), children(0..2));
        let before = bed.tally(id);
        bed.complete(&stale);
        assert_eq!(bed.tally(id), before);
        assert_eq!(refused(bed.try_retry(stale.id, Reset, Some("work"))), "under_cancelled");
    }

    fn restarting_a_page_leaves_its_siblings(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0), page(1)]);
        for _ in 0..2 {
            bed.complete(&bed.take_in("ocr"));
            bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
        }
        bed.restart(pages[0], "ocr");
        assert_eq!(bed.phase(id, "ocr").of(Bucket::Pending), 1);
        assert_eq!(bed.phase(id, "ocr").of(Bucket::Completed), 1);
        assert_eq!(bed.level(id, 2, "vector").total(), 1, "the old chunk left the counts");
        bed.sweep();
        assert_eq!(bed.take_in("ocr").id, pages[0]);
    }

    fn restarting_after_the_join_keeps_the_children(bed) {
        let (id, parts) = broken(bed, 2, &[]);
        bed.complete(&bed.take_in("join"));
        bed.restart(id, "join");
        assert_eq!((bed.item(id).generation, bed.children(id)), (0, parts));
        bed.complete(&bed.take_in("join"));
        bed.is(id, Status::Completed);
    }

    fn nothing_under_a_cancelled_item_is_retried(bed) {
        let (id, parts) = bed.family(item(), 2);
        bed.settle(&bed.take(), fail());
        bed.cancel(id);
        assert_eq!(refused(bed.try_retry(id, Reset, None)), "under_cancelled", "it has not ended");
        assert_eq!(refused(bed.try_retry(parts[0], Reset, None)), "under_cancelled");
        bed.sweep();
        assert_eq!(refused(bed.try_retry(parts[0], Reset, None)), "under_cancelled");
        assert_eq!(refused(bed.try_retry(parts[0], Clone, None)), "not_a_root");
    }

    fn a_retry_of_a_cancelled_tree_brings_back_what_was_cancelled_with_it(bed) {
        let (id, parts) = bed.family(item(), 4);
        bed.complete(&bed.take());
        bed.settle(&bed.take(), fail());
        bed.cancel(parts[2]);
        bed.cancel(id);
        bed.sweep();
        assert_eq!(bed.retry(id).reset, 2);
        let statuses: Vec<Status> = parts.iter().map(|part| bed.status(*part)).collect();
        use Status::{Cancelled, Completed, Pending};
        assert_eq!(statuses, [Completed, Pending, Cancelled, Pending]);
        bed.drain();
        bed.is(id, Status::Completed);
    }

    fn a_large_cancelled_tree_comes_back_in_slices(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..1_000)));
        bed.split(&held, children(1_000..1_010));
        bed.cancel(id);
        bed.sweep();
        let first = bed.retry(id);
        assert_eq!((first.reset, first.more), (1_000, true));
        assert_eq!(bed.retry(id).reset, 10);
        assert_eq!(bed.tally(id).open(), 1_010);
    }

    fn a_descendant_is_not_retried_while_its_roots_key_is_live(bed) {
        let id = bed.add(item().key("k"));
        bed.split(&bed.take(), children(0..1));
        let part = bed.take();
        bed.settle(&part, fail());
        bed.is(id, Status::Completed);
        bed.add(item().key("k"));
        assert_eq!(refused(bed.try_retry(part.id, Reset, None)), "key_in_use");
        assert_eq!(refused(bed.try_retry(id, Reset, None)), "key_in_use");
        bed.is(part.id, Status::Failed);
        let claim = Claim::new("w", QUEUE, 10);
        assert_eq!(bed.try_claim(claim).expect("the new one").items.len(), 1);
    }

    fn a_retry_of_a_tree_without_gaps_has_nothing_to_do(bed) {
        let (id, _) = bed.family(item(), 2);
        bed.drain();
        assert_eq!(refused(bed.try_retry(id, Reset, None)), "not_resettable");
    }
}
