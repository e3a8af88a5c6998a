//! Split: an item's work continues in its children; the join goes on when they ended.

use windrow_core::command::{Command, NewChild, Outcome};
use windrow_core::item::Place;
use windrow_core::limits::{COMMAND_ITEMS_MAX, DEPTH_MAX, NAME_MAX, ORDINAL_MAX};
use windrow_core::tally::OnGaps;
use windrow_core::trail::{Class, Ending};
use windrow_core::{Answer, Refusal, State, Status};

use super::*;

cases! {
    fn a_split_creates_children_in_the_same_commit_and_waits_for_them(bed) {
        let id = bed.add(item().tenant("u").priority(8));
        let held = bed.take();
        assert_eq!(bed.settle(&held, split(children(0..3))).ending, Ending::Split);
        let parent = bed.item(id);
        assert_eq!((parent.state, parent.lease()), (State::Split, None));
        for (number, part) in bed.children(id).into_iter().enumerate() {
            let seen = bed.see(part);
            let place = Place { parent: id, generation: 0, ordinal: number as u32, level: 1 };
            assert_eq!(seen.item.place, Some(place));
            assert_eq!((&*seen.body.tenant, &*seen.body.queue), ("u", QUEUE));
            assert_eq!((seen.item.priority, seen.item.status()), (8, Status::Pending));
        }
        assert_eq!(bed.tally(id).children.total(), 3);
    }

    fn a_child_is_what_its_maker_says(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let one = NewChild {
            kind: "page".into(),
            op: "update".into(),
            group: Some("g".into()),
            priority: Some(2),
            metadata: Some("{}".into()),
            reference: Some("page 7".into()),
            ..routed_child(7, &["ocr", "chunk"])
        };
        bed.settle(&held, split(vec![one]));
        let seen = bed.see(bed.children(id)[0]);
        assert_eq!((&*seen.body.kind, &*seen.body.op, seen.item.priority), ("page", "update", 2));
        assert_eq!(seen.body.reference.as_deref(), Some("page 7"));
        assert_eq!((seen.body.route.len(), seen.body.key), (2, None));
    }

    fn the_join_moves_on_when_the_last_child_ended(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        let held = bed.take_in("cut");
        let outcome = Outcome::Split {
            children: children(0..2),
            more: false,
            on_gaps: OnGaps::Continue,
            output: Some(b"2 parts".to_vec()),
        };
        bed.settle(&held, outcome);
        bed.complete(&bed.take_in("work"));
        assert_eq!(bed.item(id).state, State::Split);
        bed.complete(&bed.take_in("work"));
        let joined = bed.item(id);
        assert_eq!((joined.stage, joined.attempts, joined.status()), (1, 0, Status::Pending));
        let held = bed.take_in("join");
        assert_eq!(held.work.input.as_deref(), Some(&b"2 parts"[..]));
        bed.complete(&held);
        bed.is(id, Status::Completed);
    }

    fn a_join_without_a_next_stage_completes(bed) {
        let (id, _) = bed.family(item(), 2);
        bed.drain();
        bed.is(id, Status::Completed);
        assert_eq!(bed.trail(id).finished_at, Some(bed.now()));
        assert_eq!(bed.tally(id).children.total(), 2);
    }

    fn a_split_into_nothing_joins_at_once(bed) {
        let id = bed.add(routed(&["cut", "join"]));
        bed.split(&bed.take_in("cut"), Vec::new());
        let held = bed.take_in("join");
        bed.complete(&held);
        bed.is(id, Status::Completed);
        let blank = bed.add(item());
        bed.split(&bed.take(), Vec::new());
        bed.is(blank, Status::Completed);
    }

    fn slices_keep_the_lease_until_the_last_one(bed) {
        let id = bed.add(item());
        let held = bed.take();
        for first in [0, 2, 4] {
            assert_eq!(bed.settle(&held, slice(children(first..first + 2))).ending, Ending::Split);
            assert_eq!(bed.item(id).lease(), Some(held.lease));
        }
        bed.complete(&bed.take());
        bed.split(&held, children(6..7));
        assert_eq!(bed.item(id).state, State::Split);
        assert_eq!(bed.children(id).len(), 7);
        bed.drain();
        bed.is(id, Status::Completed);
    }

    fn children_run_while_more_slices_come_and_the_join_waits_for_the_last(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..1)));
        bed.complete(&bed.take());
        bed.is(id, Status::Processing);
        bed.split(&held, Vec::new());
        bed.is(id, Status::Completed);
    }

    fn ordinals_of_earlier_slices_are_ignored(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..3)));
        let first = bed.children(id);
        bed.settle(&held, slice(children(0..3)));
        bed.settle(&held, slice(vec![child(3), child(2)]));
        assert_eq!(bed.children(id).len(), 4);
        assert_eq!(bed.children(id)[..3], first);
        assert_eq!(bed.tally(id).children.total(), 4);
    }

    /// The second of them was taken for a repeat once, and lost.
    fn two_children_with_one_ordinal_are_refused_together(bed) {
        let (id, other) = (bed.add(item()), bed.add(item()));
        let held = bed.take();
        let also = bed.take();
        for outcome in [split, slice] {
            let twins = vec![child(0), child(7), child(1), child(7)];
            let refusal = bed.try_settle(&held, outcome(twins)).expect_err("it is refused");
            assert_eq!(refusal.code(), "invalid");
            let said = refusal.to_string();
            assert!(said.starts_with("children: ") && said.contains('7'), "{said}");
        }
        assert_eq!((bed.children(held.id), bed.item(held.id).lease()), (vec![], Some(held.lease)));
        bed.split(&held, children(0..2));
        bed.split(&also, children(0..1));
        assert_eq!(bed.children(id).len() + bed.children(other).len(), 3);
    }

    fn a_repeated_last_slice_gets_its_first_answer(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let first = bed.settle(&held, split(children(0..2)));
        assert_eq!(bed.try_settle(&held, split(children(0..9))), Ok(first));
        assert_eq!(bed.children(id).len(), 2);
    }

    fn completing_after_slices_says_that_the_last_one_was_the_last(bed) {
        for outcome in [Outcome::complete(), skip()] {
            let id = bed.add(routed(&["cut", "join"]));
            let held = bed.take_in("cut");
            bed.settle(&held, slice(vec![routed_child(0, &["part"])]));
            assert_eq!(bed.settle(&held, outcome).ending, Ending::Split);
            assert_eq!(bed.item(id).state, State::Split);
            bed.complete(&bed.take_in("part"));
            bed.complete(&bed.take_in("join"));
            bed.is(id, Status::Completed);
        }
    }

    fn failing_between_slices_leaves_the_children_behind(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..2)));
        let left = bed.children(id);
        bed.settle(&held, fail());
        bed.is(id, Status::Failed);
        bed.nothing_waits();
        bed.sweep();
        left.iter().for_each(|part| bed.is(*part, Status::Cancelled));
        bed.retry(id);
        let new = bed.split(&bed.take(), children(0..2));
        assert!(new.iter().all(|part| !left.contains(part)));
        bed.drain();
        bed.is(id, Status::Completed);
    }

    fn a_retry_between_slices_goes_on_where_it_was(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..2)));
        let first = bed.children(id);
        bed.settle(&held, retry());
        bed.complete(&bed.take());
        bed.advance(60_000);
        let parent = bed.claim(2).into_iter().find(|h| h.id == id).expect("it is due");
        bed.settle(&parent, split(children(0..3)));
        assert_eq!(bed.children(id)[..2], first);
        assert_eq!(bed.tally(id).children.total(), 3);
    }

    fn a_lease_that_expires_between_slices_loses_no_child(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, slice(children(0..2)));
        bed.advance(300_000);
        bed.is(id, Status::Pending);
        assert_eq!(bed.children(id).len(), 2);
        bed.complete(&bed.take());
        bed.complete(&bed.take());
        bed.is(id, Status::Pending);
        bed.advance(60_000);
        bed.split(&bed.take(), children(0..2));
        bed.is(id, Status::Completed);
    }

    fn a_failed_child_does_not_stop_the_join_unless_that_is_asked(bed) {
        let lenient = bed.add(routed(&["cut", "join"]));
        bed.settle(&bed.take_in("cut"), split(children(0..2)));
        bed.settle(&bed.take_in("work"), fail());
        bed.complete(&bed.take_in("work"));
        assert_eq!(bed.take_in("join").id, lenient);
        let strict = bed.add(routed(&["cut", "join"]));
        bed.settle(&bed.take_in("cut"), strict_split(children(0..2)));
        bed.settle(&bed.take_in("work"), fail());
        bed.is(strict, Status::Pending);
        bed.complete(&bed.take_in("work"));
        bed.is(strict, Status::Failed);
        let trail = bed.trail(strict);
        let error = trail.last_error().expect("it says why");
        assert_eq!((error.class, &*error.message), (Class::Children, "1 of 2 children failed"));
        assert_eq!(trail.stages[0].status, Status::Failed);
    }

    fn a_cancelled_child_is_a_gap_too(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), strict_split(children(0..2)));
        bed.cancel(bed.children(id)[0]);
        bed.complete(&bed.take());
        bed.is(id, Status::Failed);
    }

    fn a_skipped_child_is_no_gap(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), strict_split(children(0..2)));
        bed.settle(&bed.take(), skip());
        bed.complete(&bed.take());
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).gaps, 0);
    }

    fn an_item_may_be_split_again_in_a_later_stage(bed) {
        let id = bed.add(routed(&["first", "between", "second", "last"]));
        let one = bed.split(&bed.take_in("first"), vec![routed_child(0, &["x"])]);
        bed.complete(&bed.take_in("x"));
        bed.complete(&bed.take_in("between"));
        let held = bed.take_in("second");
        let both = bed.split(&held, vec![routed_child(0, &["y"]), routed_child(1, &["y"])]);
        assert_eq!((both.len(), both[0]), (3, one[0]), "numbers begin anew in each split");
        assert_eq!(
            bed.item(both[1]).place.map(|place| (place.stage(), place.number())),
            Some((2, 0))
        );
        bed.complete(&bed.take_in("y"));
        assert_eq!(bed.item(id).state, State::Split);
        bed.complete(&bed.take_in("y"));
        bed.complete(&bed.take_in("last"));
        bed.is(id, Status::Completed);
        assert_eq!(bed.tally(id).children.total(), 3);
    }

    fn a_tree_has_at_most_eight_levels(bed) {
        let root = bed.add(item());
        for level in 1..DEPTH_MAX {
            let held = bed.take();
            assert_eq!(held.work.item.level(), level - 1);
            bed.settle(&held, split(children(0..1)));
        }
        let deepest = bed.take();
        assert_eq!(refused(bed.try_settle(&deepest, split(children(0..1)))), "invalid");
        bed.complete(&deepest);
        bed.is(root, Status::Completed);
    }

    fn an_unsound_slice_is_refused_whole_and_without_effect(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let long = "x".repeat(NAME_MAX + 1);
        let bad = [
            child(ORDINAL_MAX + 1),
            NewChild { priority: Some(11), ..child(1) },
            NewChild { kind: long.as_str().into(), ..child(1) },
            routed_child(1, &[]),
        ];
        for bad in bad {
            assert_eq!(refused(bed.try_settle(&held, split(vec![child(0), bad]))), "invalid");
        }
        assert_eq!((bed.children(id), bed.item(id).lease()), (vec![], Some(held.lease)));
        bed.split(&held, vec![child(ORDINAL_MAX)]);
    }

    fn a_slice_has_at_most_a_thousand_children(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let many = COMMAND_ITEMS_MAX as u32;
        let items = vec![(id, slice(children(0..many + 1)))];
        let answer = bed.ask(Command::Settle { lease: held.lease, items });
        assert!(matches!(answer, Answer::Refused(Refusal::Invalid { .. })), "{answer:?}");
        bed.settle(&held, slice(children(0..many)));
        assert_eq!(bed.tally(id).children.total(), many);
    }

    fn only_the_current_lease_may_split(bed) {
        let id = bed.add(item());
        let late = bed.take();
        bed.advance(300_000);
        assert_eq!(refused(bed.try_settle(&late, split(children(0..2)))), "lease_lost");
        assert_eq!(bed.children(id), []);
    }
}
