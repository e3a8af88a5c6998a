//! Delete: an ended tree leaves for good.

use windrow_core::command::{Command, EnqueueOutcome, RetryMode};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::{Answer, ItemId, Refusal, Status};

use super::*;

cases! {
    fn an_ended_item_leaves_for_good(bed) {
        let id = bed.add(item().key("k"));
        bed.settle(&bed.take(), fail());
        let deleted = bed.try_delete(id).expect("it is deleted");
        assert_eq!((deleted.removed, deleted.more), (1, false));
        bed.is_gone(id);
        assert_eq!(block_on(bed.store.explain(id, bed.now())), Ok(None));
        assert_eq!(refused(bed.try_delete(id)), "not_found");
        assert_eq!(bed.enqueue(item().key("k")).outcome, EnqueueOutcome::Created);
    }

    fn a_live_item_is_cancelled_first(bed) {
        let id = bed.add(item());
        assert_eq!(refused(bed.try_delete(id)), "still_live");
        bed.take();
        assert_eq!(refused(bed.try_delete(id)), "still_live");
        bed.cancel(id);
        bed.try_delete(id).expect("it is deleted");
    }

    fn a_tree_is_deleted_whole_and_by_its_root(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0), page(1)]);
        for _ in 0..2 {
            bed.complete(&bed.take_in("ocr"));
            bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
        }
        bed.drain();
        assert_eq!(refused(bed.try_delete(pages[0])), "not_a_root");
        let deleted = bed.try_delete(id).expect("it is deleted");
        assert_eq!((deleted.removed, deleted.more), (5, false));
        assert_eq!(bed.everything(), []);
    }

    fn a_split_item_is_not_deleted_before_its_tree_ended(bed) {
        let (id, parts) = bed.family(item(), 2);
        let is_live = |status| Refusal::StillLive { item: id, status };
        assert_eq!(bed.try_delete(id), Err(is_live(Status::Pending)), "as people see it");
        assert_eq!(bed.try_retry(id, RetryMode::Clone, None), Err(is_live(Status::Pending)));
        bed.take();
        assert_eq!(bed.try_delete(id), Err(is_live(Status::Processing)));
        assert_eq!(bed.try_retry(id, RetryMode::Reset, None), Err(is_live(Status::Processing)));
        bed.cancel(id);
        let is_ending = Refusal::UnderCancelled { ancestor: id };
        assert_eq!(bed.try_delete(id), Err(is_ending.clone()));
        assert_eq!(bed.try_retry(id, RetryMode::Clone, None), Err(is_ending));
        bed.sweep();
        assert_eq!(bed.try_delete(id).expect("it is deleted").removed, 3);
        parts.iter().for_each(|part| bed.is_gone(*part));
    }

    fn earlier_generations_go_with_their_root(bed) {
        let (id, _) = bed.family(item(), 2);
        bed.restart(id, "work");
        bed.split(&bed.take(), children(0..1));
        bed.drain();
        bed.is(id, Status::Completed);
        assert_eq!(refused(bed.try_delete(id)), "still_live", "old children still wait");
        bed.sweep();
        assert_eq!(bed.try_delete(id).expect("it is deleted").removed, 4);
        assert_eq!(bed.everything(), []);
    }

    fn a_large_tree_is_deleted_in_slices(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..COMMAND_ITEMS_MAX as u32)));
        bed.split(&held, children(1_000..1_005));
        bed.cancel(id);
        bed.sweep();
        let first = bed.try_delete(id).expect("a slice is deleted");
        assert_eq!((first.removed, first.more), (1_000, true));
        let last = bed.try_delete(id).expect("the rest is deleted");
        assert_eq!((last.removed, last.more), (6, false));
        assert_eq!(bed.everything(), []);
    }

    fn a_tree_of_just_one_slice_leaves_its_root_for_the_next(bed) {
        let id = bed.add(item());
        bed.split(&bed.take(), children(0..COMMAND_ITEMS_MAX as u32));
        bed.cancel(id);
        bed.sweep();
        let first = bed.try_delete(id).expect("a slice is deleted");
        assert_eq!((first.removed, first.more), (1_000, true));
        assert_eq!(bed.try_delete(id).expect("the root").removed, 1);
    }

    fn deleting_many_answers_for_each(bed) {
        let id = bed.add(item());
        bed.cancel(id);
        let answer = bed.ask(Command::Delete { items: vec![ItemId(1), id] });
        let Answer::Deleted(each) = answer else { panic!("{answer:?}") };
        assert!(each[0].is_err() && each[1].is_ok(), "{each:?}");
    }
}
