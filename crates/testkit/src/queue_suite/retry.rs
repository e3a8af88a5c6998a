//! Retry: an ended item runs again.

use windrow_core::command::{Outcome, RetryMode};
use windrow_core::route::Route;
use windrow_core::{ItemId, Status};

use super::code;
use crate::suite::{Draft as _, complete_with, fail, skip};

cases! {
    fn a_failed_item_is_reset_with_all_its_attempts(bed) {
        let id = bed.ended(fail());
        let retried = bed.get(bed.port.retry(id, RetryMode::Reset, None, None));
        assert_eq!((retried.id, retried.reset), (id, 1));
        let held = bed.take();
        assert_eq!((held.id(), held.work.attempt), (id, 1));
    }

    fn a_clone_is_a_new_item_and_the_old_one_stays(bed) {
        bed.add(bed.item().key("k").payload(b"[7]"));
        let held = bed.take();
        bed.settle(&held, fail());
        let retried = bed.get(bed.port.retry(held.id(), RetryMode::Clone, None, None));
        assert_ne!(retried.id, held.id());
        let clone = bed.seen(retried.id);
        assert_eq!(clone.body.cloned_from, Some(held.id()));
        assert_eq!((clone.status, clone.body.key.as_deref()), (Status::Pending, Some("k")));
        assert_eq!(clone.body.payload.inline(), Some(&b"[7]"[..]));
        assert_eq!(bed.status(held.id()), Status::Failed);
    }

    fn a_completed_or_skipped_item_is_cloned_but_not_reset(bed) {
        for outcome in [Outcome::complete(), skip()] {
            let id = bed.ended(outcome);
            let reset = bed.wait(bed.port.retry(id, RetryMode::Reset, None, None));
            assert_eq!(code(reset), "not_resettable");
            bed.get(bed.port.retry(id, RetryMode::Clone, None, None));
            bed.complete(&bed.take());
        }
    }

    fn a_live_item_is_not_retried(bed) {
        let id = bed.add(bed.item());
        for mode in [RetryMode::Clone, RetryMode::Reset] {
            assert_eq!(code(bed.wait(bed.port.retry(id, mode, None, None))), "still_live");
        }
    }

    fn an_item_that_is_not_known_is_not_retried(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        for mode in [RetryMode::Clone, RetryMode::Reset] {
            assert_eq!(code(bed.wait(bed.port.retry(id, mode, None, None))), "not_found");
        }
    }

    fn a_retry_may_begin_at_an_earlier_stage(bed) {
        let id = bed.add(bed.item().route(Route::of(&["a", "b"])));
        bed.settle(&bed.take(), complete_with(b"1"));
        bed.settle(&bed.take(), fail());
        bed.get(bed.port.retry(id, RetryMode::Reset, Some("a".into()), None));
        assert_eq!(&*bed.take().work.stage, "a");
    }

    fn a_stage_that_is_not_of_the_route_is_refused(bed) {
        let id = bed.ended(fail());
        let nowhere = bed.port.retry(id, RetryMode::Reset, Some("nowhere".into()), None);
        assert_eq!(code(bed.wait(nowhere)), "no_such_stage");
    }

    fn a_key_that_lives_again_is_in_use(bed) {
        bed.add(bed.item().key("k"));
        let held = bed.take();
        bed.settle(&held, fail());
        bed.add(bed.item().key("k"));
        for mode in [RetryMode::Clone, RetryMode::Reset] {
            let again = bed.wait(bed.port.retry(held.id(), mode, None, None));
            assert_eq!(code(again), "key_in_use");
        }
    }

    fn a_tree_is_retried_where_it_failed(bed) {
        let parent = bed.parent(3);
        bed.settle(&bed.take(), fail());
        bed.complete(&bed.take());
        bed.complete(&bed.take());
        let retried = bed.get(bed.port.retry(parent, RetryMode::Reset, None, None));
        assert_eq!((retried.id, bed.counted(Status::Completed)), (parent, 2));
        bed.complete(&bed.take());
        assert_eq!(bed.status(parent), Status::Completed);
    }

    fn a_child_is_reset_in_its_tree_whichever_way_is_asked_for(bed) {
        let parent = bed.parent(1);
        let held = bed.take();
        bed.settle(&held, fail());
        let retried = bed.get(bed.port.retry(held.id(), RetryMode::Clone, None, None));
        assert_eq!(retried.id, held.id());
        bed.complete(&bed.take());
        assert_eq!(bed.status(parent), Status::Completed);
    }
}
