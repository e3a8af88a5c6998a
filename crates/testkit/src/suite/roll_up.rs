//! Roll up: what a parent shows of everything below it, at every moment.

use windrow_core::tally::{Bucket, Counts};
use windrow_core::{ItemId, Status};

use super::*;

fn counts(of: &[(Bucket, u32)]) -> Counts {
    let mut counts = Counts::default();
    of.iter().for_each(|(bucket, n)| counts.0[*bucket as usize] = *n);
    counts
}

/// A document with two pages, none of them read.
fn two_pages<S: windrow_core::ports::Store>(bed: &Bed<S>) -> (ItemId, Vec<ItemId>) {
    let id = bed.add(document());
    (id, bed.split(&bed.take_in("pages"), vec![page(0), page(1)]))
}

/// Reads the next page and cuts it into so many chunks.
fn read_page<S: windrow_core::ports::Store>(bed: &Bed<S>, chunks: u32) -> Vec<ItemId> {
    bed.complete(&bed.take_in("ocr"));
    bed.split(&bed.take_in("chunk"), (0..chunks).map(chunk).collect())
}

cases! {
    fn phases_that_were_announced_show_as_pending_before_they_exist(bed) {
        let (id, _) = two_pages(bed);
        for phase in ["ocr", "chunk", "vector", "graph"] {
            assert_eq!(bed.phase(id, phase), counts(&[(Bucket::Pending, 2)]), "{phase}");
        }
    }

    fn a_claim_shows_as_processing_on_every_level_above(bed) {
        let (id, pages) = two_pages(bed);
        bed.is(id, Status::Pending);
        let held = bed.take_in("ocr");
        bed.is(id, Status::Processing);
        let one_of_two = counts(&[(Bucket::Processing, 1), (Bucket::Pending, 1)]);
        assert_eq!(bed.phase(id, "ocr"), one_of_two);
        assert_eq!(bed.tally(id).children, one_of_two);
        bed.complete(&held);
        assert_eq!(bed.phase(id, "ocr"), counts(&[(Bucket::Completed, 1), (Bucket::Pending, 1)]));
        bed.split(&bed.take_in("chunk"), vec![chunk(0), chunk(1)]);
        bed.take_in("vector");
        assert_eq!(bed.phase(id, "vector"), one_of_two);
        assert_eq!(bed.phase(pages[0], "vector"), one_of_two);
    }

    fn a_document_shows_its_phases_by_page_and_its_levels_by_item(bed) {
        let (id, _) = two_pages(bed);
        read_page(bed, 3);
        bed.complete(&bed.take_in("vector"));
        assert_eq!(bed.phase(id, "ocr"), counts(&[(Bucket::Completed, 1), (Bucket::Pending, 1)]));
        assert_eq!(bed.phase(id, "chunk"), counts(&[(Bucket::Completed, 1), (Bucket::Pending, 1)]));
        assert_eq!(bed.phase(id, "vector"), counts(&[(Bucket::Pending, 2)]));
        assert_eq!(
            bed.level(id, 1, "ocr"),
            counts(&[(Bucket::Completed, 1), (Bucket::Pending, 1)])
        );
        assert_eq!(
            bed.level(id, 2, "vector"),
            counts(&[(Bucket::Completed, 1), (Bucket::Pending, 2)])
        );
        assert_eq!(bed.level(id, 2, "graph"), counts(&[(Bucket::Pending, 3)]));
    }

    fn a_whole_tree_ends_and_publishes(bed) {
        let (id, pages) = two_pages(bed);
        read_page(bed, 2);
        read_page(bed, 2);
        for stage in ["vector", "graph"] {
            for _ in 0..4 {
                bed.complete(&bed.take_in(stage));
            }
        }
        pages.iter().for_each(|page| bed.is(*page, Status::Completed));
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
        let tally = bed.tally(id);
        assert_eq!((tally.gaps, tally.children.percent()), (0, 100));
        for phase in ["ocr", "chunk", "vector", "graph"] {
            assert_eq!(bed.phase(id, phase), counts(&[(Bucket::Completed, 2)]), "{phase}");
        }
        assert_eq!(bed.level(id, 2, "graph"), counts(&[(Bucket::Completed, 4)]));
        bed.nothing_waits();
    }

    fn a_page_without_chunks_is_complete_in_all_phases(bed) {
        let id = bed.add(document());
        bed.split(&bed.take_in("pages"), vec![page(0)]);
        read_page(bed, 0);
        for phase in ["ocr", "chunk", "vector", "graph"] {
            assert_eq!(bed.phase(id, phase), counts(&[(Bucket::Completed, 1)]), "{phase}");
        }
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
    }

    fn phases_after_a_failure_are_unreached_and_wait_again_on_retry(bed) {
        let (id, pages) = two_pages(bed);
        bed.settle(&bed.take_in("ocr"), fail());
        assert_eq!(bed.phase(id, "ocr"), counts(&[(Bucket::Failed, 1), (Bucket::Pending, 1)]));
        for phase in ["chunk", "vector", "graph"] {
            let want = counts(&[(Bucket::Unreached, 1), (Bucket::Pending, 1)]);
            assert_eq!(bed.phase(id, phase), want, "{phase}");
        }
        assert_eq!(bed.tally(id).gaps, 1);
        bed.retry(pages[0]);
        for phase in ["ocr", "chunk", "vector", "graph"] {
            assert_eq!(bed.phase(id, phase), counts(&[(Bucket::Pending, 2)]), "{phase}");
        }
        assert_eq!(bed.tally(id).gaps, 0);
    }

    fn one_bad_page_does_not_hide_the_good_ones(bed) {
        let id = bed.add(document());
        bed.split(&bed.take_in("pages"), (0..4).map(page).collect());
        bed.settle(&bed.take_in("ocr"), fail());
        for _ in 0..3 {
            read_page(bed, 0);
        }
        assert_eq!(bed.phase(id, "ocr").status(), Status::Failed);
        assert_eq!((bed.phase(id, "ocr").percent(), bed.tally(id).gaps), (75, 1));
        bed.complete(&bed.take_in("publish"));
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).failed(), 1);
    }

    fn a_failure_two_levels_down_is_a_gap_at_the_root(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0)]);
        read_page(bed, 2);
        bed.settle(&bed.take_in("vector"), fail());
        assert_eq!((bed.tally(pages[0]).gaps, bed.tally(id).gaps), (1, 0), "the page goes on");
        let one_lost = counts(&[(Bucket::Unreached, 1), (Bucket::Pending, 1)]);
        assert_eq!(bed.phase(pages[0], "graph"), one_lost);
        bed.complete(&bed.take_in("vector"));
        bed.complete(&bed.take_in("graph"));
        bed.is(pages[0], Status::Completed);
        assert_eq!(bed.tally(id).gaps, 1);
        assert_eq!(bed.phase(id, "vector"), counts(&[(Bucket::Failed, 1)]));
        assert_eq!(
            bed.level(id, 2, "graph"),
            counts(&[(Bucket::Completed, 1), (Bucket::Unreached, 1)])
        );
    }

    fn skipped_counts_as_done(bed) {
        let id = bed.add(item());
        bed.split(&bed.take(), vec![routed_child(0, &["a", "b"]), routed_child(1, &["a", "b"])]);
        bed.settle(&bed.take_in("a"), skip());
        assert_eq!(bed.phase(id, "a"), counts(&[(Bucket::Skipped, 1), (Bucket::Pending, 1)]));
        bed.complete(&bed.take_in("a"));
        assert_eq!(
            (bed.phase(id, "a").status(), bed.phase(id, "a").percent()),
            (Status::Completed, 100)
        );
        bed.settle(&bed.take_in("b"), skip());
        bed.settle(&bed.take_in("b"), skip());
        assert_eq!(bed.tally(id).children, counts(&[(Bucket::Completed, 1), (Bucket::Skipped, 1)]));
        bed.is(id, Status::Completed);
    }

    fn cancelled_children_alone_show_as_cancelled(bed) {
        let (id, parts) = bed.family(item(), 2);
        parts.iter().for_each(|part| _ = bed.cancel(*part));
        assert_eq!(bed.tally(id).children.status(), Status::Cancelled);
        assert_eq!(bed.tally(id).gaps, 2);
    }

    fn a_parent_between_slices_counts_what_is_there_and_shows_more_to_come(bed) {
        let root = bed.add(item());
        let parents = bed.split(&bed.take(), vec![page(0)]);
        bed.complete(&bed.take_in("ocr"));
        let held = bed.take_in("chunk");
        bed.settle(&held, slice(vec![chunk(0)]));
        bed.complete(&bed.take_in("vector"));
        bed.complete(&bed.take_in("graph"));
        assert_eq!(bed.phase(parents[0], "graph"), counts(&[(Bucket::Completed, 1)]));
        assert_eq!(bed.phase(root, "graph"), counts(&[(Bucket::Pending, 1)]), "more may come");
        bed.settle(&held, split(Vec::new()));
        assert_eq!(bed.phase(root, "graph"), counts(&[(Bucket::Completed, 1)]));
        bed.is(root, Status::Completed);
    }

    fn a_retrying_child_shows_as_pending_and_an_expired_one_too(bed) {
        let (id, _) = bed.family(item(), 2);
        bed.settle(&bed.take(), retry());
        bed.take();
        assert_eq!(
            bed.tally(id).children,
            counts(&[(Bucket::Pending, 1), (Bucket::Processing, 1)])
        );
        bed.advance(300_000);
        assert_eq!(bed.tally(id).children, counts(&[(Bucket::Pending, 2)]));
    }

    fn counts_are_right_for_a_later_split_that_was_announced(bed) {
        use windrow_core::command::NewChild;
        use windrow_core::route::{Route, Stage};
        let stages = vec![
            Stage::splitting("cut", &["x"]),
            Stage::new("between"),
            Stage::splitting("again", &["y"]),
        ];
        let part = NewChild::new(0, "part", std::sync::Arc::new(Route { stages }));
        let root = bed.add(item());
        let part = bed.split(&bed.take(), vec![part])[0];
        let pending = counts(&[(Bucket::Pending, 1)]);
        bed.split(&bed.take_in("cut"), vec![routed_child(0, &["x"])]);
        assert_eq!((bed.phase(root, "x"), bed.phase(root, "y")), (pending, pending));
        bed.complete(&bed.take_in("x"));
        bed.complete(&bed.take_in("between"));
        assert_eq!(bed.phase(root, "y"), pending);
        bed.split(&bed.take_in("again"), vec![routed_child(0, &["y"])]);
        bed.complete(&bed.take_in("y"));
        bed.is(part, Status::Completed);
        assert_eq!(bed.phase(root, "y"), counts(&[(Bucket::Completed, 1)]));
    }

    /// A phase that nothing was in any more once counted as completed further up.
    fn a_phase_that_everything_left_leaves_the_counts_of_every_ancestor(bed) {
        let root = bed.add(item());
        bed.split(&bed.take_in("work"), vec![routed_child(0, &["high"])]);
        bed.split(&bed.take_in("high"), vec![routed_child(0, &["middle"])]);
        let middle = bed.take_in("middle");
        bed.split(&middle, vec![routed_child(0, &["deep"])]);
        assert_eq!(bed.phase(root, "deep"), counts(&[(Bucket::Pending, 1)]));
        bed.restart(middle.id, "middle");
        assert_eq!(bed.phase(root, "deep"), counts(&[]));
        bed.complete(&bed.take_in("middle"));
        bed.is(root, Status::Completed);
    }
}
