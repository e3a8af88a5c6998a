//! Successors: an update of something that is being worked on waits for it, however that ends.

use windrow_core::command::{EnqueueOutcome, RetryMode};
use windrow_core::item::Payload;
use windrow_core::{State, Status};

use super::*;

cases! {
    fn the_key_of_a_leased_item_gets_one_successor(bed) {
        let first = bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.enqueue(item().key("k").payload(b"1"));
        assert_eq!(next.outcome, EnqueueOutcome::Successor);
        assert_ne!(next.id, first);
        assert_eq!(bed.see(first).successor, Some(next.id));
        assert!(matches!(bed.item(next.id).state, State::Held { .. }));
        bed.is(next.id, Status::Pending);
        bed.nothing_waits();
        bed.complete(&held);
        assert_eq!(bed.take().id, next.id);
        assert_eq!(bed.see(first).successor, None);
    }

    fn later_updates_coalesce_into_the_successor(bed) {
        bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k").op("ingest").payload(b"1"));
        let kept = bed.enqueue(item().key("k").payload(b"2"));
        assert_eq!((kept.id, kept.outcome), (next, EnqueueOutcome::Duplicate));
        let replaced = bed.enqueue(item().key("k").op("delete").payload(b"3").replacing());
        assert_eq!((replaced.id, replaced.outcome), (next, EnqueueOutcome::Replaced));
        bed.complete(&held);
        let work = bed.take().work;
        assert_eq!(work.item.id, next);
        assert_eq!((&*work.body.op, work.body.payload), ("delete", Payload::Inline(b"3".to_vec())));
    }

    fn a_successor_runs_when_the_item_ahead_completes_fails_is_skipped_or_cancelled(bed) {
        for end in ["complete", "fail", "skip", "cancel"] {
            bed.add(item().key(end));
            let held = bed.take();
            let next = bed.add(item().key(end));
            match end {
                "complete" => bed.complete(&held),
                "fail" => _ = bed.settle(&held, fail()),
                "skip" => _ = bed.settle(&held, skip()),
                _ => _ = bed.cancel(held.id),
            }
            let held = bed.take();
            assert_eq!(held.id, next, "after {end}");
            bed.complete(&held);
        }
    }

    fn a_successor_runs_when_the_item_ahead_expires_out_of_attempts(bed) {
        bed.configure(|settings| settings.defaults.max_attempts = 1);
        let first = bed.add(item().key("k"));
        bed.take();
        let next = bed.add(item().key("k"));
        bed.advance(300_000);
        bed.is(first, Status::Failed);
        assert_eq!(bed.take().id, next);
    }

    fn a_successor_waits_while_the_item_ahead_waits_for_its_retry(bed) {
        bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k"));
        bed.settle(&held, retry());
        bed.advance(60_000);
        let again = bed.take();
        assert_eq!(again.id, held.id);
        bed.complete(&again);
        assert_eq!(bed.take().id, next);
    }

    fn a_successor_waits_through_all_stages_of_the_item_ahead(bed) {
        let first = bed.add(routed(&["a", "b"]).key("k"));
        let held = bed.take_in("a");
        let next = bed.add(routed(&["a", "b"]).key("k"));
        bed.complete(&held);
        assert_eq!(bed.take_in("b").id, first);
        assert_eq!(bed.why(next), ["earlier_with_key"]);
    }

    fn a_successor_of_a_split_item_waits_for_the_whole_tree(bed) {
        let (first, parts) = bed.family(item().key("k"), 2);
        let next = bed.enqueue(item().key("k"));
        assert_eq!(next.outcome, EnqueueOutcome::Successor);
        for _ in &parts {
            bed.complete(&bed.take());
        }
        bed.is(first, Status::Completed);
        assert_eq!(bed.take().id, next.id);
    }

    fn a_successor_that_supersedes_cancels_the_split_item(bed) {
        let (first, parts) = bed.family(item().key("k"), 2);
        let next = bed.enqueue(item().key("k").superseding());
        assert_eq!(next.outcome, EnqueueOutcome::Successor);
        bed.nothing_waits();
        assert_eq!(bed.why(parts[0]), ["under_cancelled"]);
        bed.sweep();
        bed.is(first, Status::Cancelled);
        assert_eq!(bed.take().id, next.id);
    }

    fn an_update_that_coalesces_may_still_supersede(bed) {
        let (first, _) = bed.family(item().key("k"), 2);
        let next = bed.add(item().key("k"));
        let again = bed.enqueue(item().key("k").payload(b"2").replacing().superseding());
        assert_eq!((again.id, again.outcome), (next, EnqueueOutcome::Replaced));
        bed.sweep();
        bed.is(first, Status::Cancelled);
        assert_eq!(bed.take().work.body.payload, Payload::Inline(b"2".to_vec()));
    }

    fn superseding_a_leased_item_lets_it_end(bed) {
        let first = bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k").superseding());
        bed.complete(&held);
        bed.is(first, Status::Completed);
        assert_eq!(bed.take().id, next);
    }

    fn a_successor_keeps_the_delay_it_was_given(bed) {
        bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k").at(bed.later(9_000)));
        bed.complete(&held);
        bed.nothing_waits();
        bed.advance(9_000);
        assert_eq!(bed.take().id, next);
    }

    fn a_cancelled_successor_leaves_the_line(bed) {
        let first = bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k"));
        bed.cancel(next);
        bed.is(next, Status::Cancelled);
        assert_eq!(bed.see(first).successor, None);
        let other = bed.enqueue(item().key("k"));
        assert_eq!(other.outcome, EnqueueOutcome::Successor);
        bed.complete(&held);
        assert_eq!(bed.take().id, other.id);
    }

    fn one_identity_never_runs_twice_at_once(bed) {
        bed.add(item().key("k"));
        let held = bed.take();
        for _ in 0..3 {
            bed.add(item().key("k").payload(b"x").replacing());
            bed.nothing_waits();
        }
        bed.complete(&held);
        let next = bed.take();
        bed.nothing_waits();
        bed.complete(&next);
        bed.nothing_waits();
    }

    fn a_retry_of_the_ended_item_is_refused_while_its_successor_is_live(bed) {
        let first = bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k"));
        bed.settle(&held, fail());
        for mode in [RetryMode::Reset, RetryMode::Clone] {
            assert_eq!(refused(bed.try_retry(first, mode, None)), "key_in_use");
        }
        bed.complete(&bed.take());
        bed.retry(first);
        bed.is(next, Status::Completed);
        bed.is(first, Status::Pending);
    }
}
