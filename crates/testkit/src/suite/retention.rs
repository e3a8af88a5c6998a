//! Retention: ended trees are folded, and go when they are old or too many.

use windrow_core::item::Marks;
use windrow_core::limits::FOLD_AFTER_MS;
use windrow_core::rules::notify::EVERY_QUEUE;
use windrow_core::settings::Retention;
use windrow_core::tally::Bucket;
use windrow_core::{ItemId, Status};

use super::*;

const DAY_MS: u64 = 86_400_000;

fn keep<S: windrow_core::ports::Store>(bed: &Bed<S>, max_age_ms: u64, max_per_tenant: u32) {
    bed.configure(|settings| settings.retention = Retention { max_age_ms, max_per_tenant });
}

/// Ended items, a second apart: stores may keep the time of an end in seconds.
fn ended<S: windrow_core::ports::Store>(bed: &Bed<S>, count: usize) -> Vec<ItemId> {
    let one = |_| {
        bed.clock.advance(1_000);
        let id = bed.add(item());
        bed.complete(&bed.take());
        id
    };
    (0..count).map(one).collect()
}

/// A document with one page and one chunk, all of it done.
fn small_tree<S: windrow_core::ports::Store>(bed: &Bed<S>) -> ItemId {
    let id = bed.add(document());
    bed.split(&bed.take_in("pages"), vec![page(0)]);
    bed.complete(&bed.take_in("ocr"));
    bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
    bed.drain();
    bed.is(id, Status::Completed);
    id
}

cases! {
    fn ended_items_go_after_a_week(bed) {
        let done = ended(bed, 1)[0];
        bed.clock.advance(2_000);
        let failed = bed.add(item());
        bed.settle(&bed.take(), fail());
        bed.advance(7 * DAY_MS);
        assert_eq!(bed.sweep().removed, 1, "the first is two seconds older");
        bed.is_gone(done);
        bed.advance(1_001);
        assert_eq!(bed.sweep().removed, 1);
        bed.is_gone(failed);
    }

    fn the_age_counts_from_the_end(bed) {
        keep(bed, 1_000, 100);
        let id = bed.add(item());
        bed.advance(5_000);
        bed.complete(&bed.take());
        bed.advance(1_000);
        assert_eq!(bed.sweep().removed, 0);
        bed.advance(1_001);
        assert_eq!(bed.sweep().removed, 1);
        bed.is_gone(id);
    }

    fn live_items_are_never_touched(bed) {
        keep(bed, 1_000, 0);
        let waiting = bed.add(item().key("k").at(bed.later(40 * DAY_MS)));
        let leased = {
            let id = bed.add(item());
            bed.take();
            id
        };
        let (split, parts) = bed.family(item(), 1);
        bed.clock.advance(30 * DAY_MS);
        assert_eq!(bed.sweep().removed, 0);
        for id in [waiting, leased, split, parts[0]] {
            bed.see(id);
        }
    }

    fn a_tenant_keeps_its_newest_ended_items(bed) {
        keep(bed, DAY_MS, 3);
        let all = ended(bed, 5);
        assert_eq!(bed.sweep().removed, 2);
        all[..2].iter().for_each(|id| bed.is_gone(*id));
        all[2..].iter().for_each(|id| bed.is(*id, Status::Completed));
    }

    fn each_tenant_and_queue_is_counted_by_itself(bed) {
        keep(bed, DAY_MS, 1);
        bed.configure_queue("r", |settings| settings.retention.max_per_tenant = 1);
        for (queue, tenant) in
            [(QUEUE, "a"), (QUEUE, "b"), ("r", "a"), ("plain", "a"), ("plain", "a")]
        {
            bed.add(item().queue(queue).tenant(tenant));
            bed.complete(&bed.take_from(queue));
        }
        assert_eq!(bed.sweep().removed, 0);
    }

    fn what_is_said_for_every_queue_holds_where_nothing_else_is_said(bed) {
        let every = |max_age_ms, max_per_tenant| {
            let keep = Retention { max_age_ms, max_per_tenant };
            bed.configure_queue(EVERY_QUEUE, |settings| settings.retention = keep);
        };
        // One that says something about other things, one about one of the two, and one nothing.
        bed.configure_queue("set", |settings| settings.live_max = Some(100));
        bed.configure_queue("own", |settings| settings.retention.max_per_tenant = 2);
        let queues = ["set", "own", "plain"];
        for queue in queues.into_iter().flat_map(|queue| [queue; 3]) {
            bed.clock.advance(1_000);
            bed.add(item().queue(queue));
            bed.complete(&bed.take_from(queue));
        }
        let left = || {
            let all = bed.everything();
            queues.map(|queue| all.iter().filter(|seen| &*seen.body.queue == queue).count())
        };
        assert_eq!((bed.sweep().removed, left()), (1, [3, 2, 3]));
        every(7 * DAY_MS, 1);
        assert_eq!((bed.sweep().removed, left()), (4, [1, 2, 1]));
        every(DAY_MS, 5_000);
        bed.advance(DAY_MS + 10_001);
        assert_eq!((bed.sweep().removed, left()), (4, [0, 0, 0]), "none says an age");
    }

    fn the_oldest_go_first_in_small_slices(bed) {
        keep(bed, DAY_MS, 1);
        let all = ended(bed, 4);
        let swept = bed.sweep_some(2);
        assert_eq!((swept.removed, swept.more), (2, true));
        all[..2].iter().for_each(|id| bed.is_gone(*id));
        bed.see(all[2]);
        assert_eq!(bed.sweep_some(2).removed, 1);
    }

    fn a_tree_counts_as_one_and_goes_whole(bed) {
        keep(bed, DAY_MS, 2);
        let tree = small_tree(bed);
        ended(bed, 1);
        assert_eq!(bed.sweep().removed, 0);
        ended(bed, 1);
        assert_eq!(bed.sweep().removed, 3);
        bed.is_gone(tree);
        assert_eq!(bed.everything().len(), 2);
    }

    fn an_ended_child_of_a_live_tree_stays(bed) {
        keep(bed, 1_000, 0);
        let (_, parts) = bed.family(item(), 2);
        bed.complete(&bed.take());
        bed.advance(DAY_MS);
        assert_eq!(bed.sweep().removed, 0);
        bed.is(parts[0], Status::Completed);
    }

    fn an_item_that_runs_again_is_kept(bed) {
        keep(bed, 1_000, 100);
        let id = bed.add(item());
        bed.settle(&bed.take(), fail());
        bed.retry(id);
        bed.advance(DAY_MS);
        assert_eq!(bed.sweep().removed, 0);
        bed.is(id, Status::Pending);
    }

    fn a_tree_that_ended_well_is_folded_after_an_hour(bed) {
        let id = small_tree(bed);
        let before = bed.see(id);
        bed.advance(FOLD_AFTER_MS);
        assert_eq!(bed.sweep().folded, 0);
        bed.advance(1_001);
        assert_eq!(bed.sweep().folded, 1);
        assert_eq!(bed.everything().len(), 1);
        assert_eq!(bed.see(id), before, "its counts and results stay");
        assert_eq!(bed.level(id, 2, "graph").of(Bucket::Completed), 1);
        assert_eq!(bed.children(id), []);
        assert_eq!(bed.sweep().folded, 0, "once");
    }

    fn a_tree_with_gaps_is_not_folded(bed) {
        let (id, parts) = bed.family(item(), 2);
        bed.settle(&bed.take(), fail());
        bed.complete(&bed.take());
        bed.advance(2 * FOLD_AFTER_MS);
        assert_eq!(bed.sweep().folded, 0);
        assert_eq!(bed.children(id), parts);
    }

    fn a_live_tree_is_not_folded(bed) {
        let (_, parts) = bed.family(item(), 2);
        bed.complete(&bed.take());
        bed.advance(2 * FOLD_AFTER_MS);
        assert_eq!(bed.sweep().folded, 0);
        bed.see(parts[0]);
    }

    fn folding_goes_in_slices(bed) {
        let (id, _) = bed.family(item(), 5);
        bed.drain();
        bed.advance(FOLD_AFTER_MS + 1_001);
        let first = bed.sweep_some(3);
        assert_eq!((first.folded, first.more), (0, true));
        assert_eq!(bed.sweep_some(3).folded, 1);
        assert_eq!((bed.everything().len(), bed.tally(id).children.total()), (1, 5));
    }

    fn a_folded_root_may_run_again_and_go(bed) {
        let id = small_tree(bed);
        bed.advance(FOLD_AFTER_MS + 1_001);
        bed.sweep();
        bed.restart(id, "publish");
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
        bed.restart(id, "pages");
        bed.split(&bed.take_in("pages"), Vec::new());
        bed.complete(&bed.take_in("publish"));
        assert_eq!(bed.tally(id).children.total(), 0);
        bed.advance(8 * DAY_MS);
        assert_eq!(bed.sweep().removed, 1);
        assert_eq!(bed.everything(), []);
    }

    fn an_item_without_children_is_nothing_to_fold(bed) {
        let id = ended(bed, 1)[0];
        bed.advance(2 * FOLD_AFTER_MS);
        assert_eq!(bed.sweep().folded, 0);
        assert!(!bed.item(id).has(Marks::PARENT));
    }
}
