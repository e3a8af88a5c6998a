//! Settle: complete, fail, skip, and who may say so. Retries have a file of their own.

use windrow_core::command::{Command, Outcome};
use windrow_core::limits::{ATTEMPTS_KEPT, ERROR_MAX, RESULT_MAX};
use windrow_core::trail::{Class, Ending};
use windrow_core::{Answer, LeaseId, Refusal, Status};

use super::*;

cases! {
    fn completing_the_last_stage_ends_the_item_with_its_result(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let result = Some(b"42".to_vec());
        let outcome = Outcome::Complete { result: result.clone(), output: None, spawn: Vec::new() };
        assert_eq!(bed.settle(&held, outcome).ending, Ending::Completed);
        bed.is(id, Status::Completed);
        let trail = bed.trail(id);
        assert_eq!((trail.result, trail.finished_at), (result, Some(bed.now())));
        bed.nothing_waits();
    }

    fn completing_a_stage_moves_on_to_the_next_with_no_attempt_made(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.settle(&bed.take(), retry());
        bed.advance(60_000);
        bed.complete(&bed.take());
        let moved = bed.item(id);
        assert_eq!((moved.stage, moved.attempts, moved.status()), (1, 0, Status::Pending));
        let held = bed.take_in("b");
        assert_eq!(held.work.item.attempts, 1);
        bed.complete(&held);
        bed.is(id, Status::Completed);
    }

    fn each_stage_keeps_its_record_for_life(bed) {
        let id = bed.add(routed(&["a", "b"]));
        let started = bed.now();
        let held = bed.take();
        bed.advance(1_000);
        bed.settle(&held, complete_with(b"out"));
        let completed = bed.now();
        bed.settle(&bed.take(), fail());
        let trail = bed.trail(id);
        let [a, b] = &trail.stages[..] else { panic!("{:?}", trail.stages) };
        assert_eq!(
            (a.status, a.attempts, a.worker.as_deref()),
            (Status::Completed, 1, Some("worker"))
        );
        assert_eq!((a.started, a.completed), (Some(started), Some(completed)));
        assert_eq!(a.output.as_deref(), Some(&b"out"[..]));
        let error = b.error.as_ref().expect("it failed");
        assert_eq!(
            (b.status, error.class, &*error.message),
            (Status::Failed, Class::Other, "it is broken")
        );
    }

    fn failing_ends_the_item_at_once(bed) {
        let id = bed.add(item());
        assert_eq!(bed.settle(&bed.take(), fail()).ending, Ending::Failed);
        bed.is(id, Status::Failed);
        bed.advance(3_600_000);
        bed.nothing_waits();
    }

    fn skipping_every_stage_ends_as_skipped(bed) {
        let id = bed.add(routed(&["a", "b"]));
        assert_eq!(bed.settle(&bed.take_in("a"), skip()).ending, Ending::Skipped);
        bed.settle(&bed.take_in("b"), skip());
        bed.is(id, Status::Skipped);
        assert_eq!(bed.trail(id).reason.as_deref(), Some("nothing to do"));
    }

    fn skipping_one_stage_ends_as_completed(bed) {
        for skipped in ["a", "b"] {
            let id = bed.add(routed(&["a", "b"]));
            for stage in ["a", "b"] {
                let outcome = if stage == skipped { skip() } else { Outcome::complete() };
                bed.settle(&bed.take_in(stage), outcome);
            }
            bed.is(id, Status::Completed);
            let index = usize::from(skipped == "b");
            assert_eq!(bed.trail(id).stages[index].status, Status::Skipped);
        }
    }

    fn a_settle_repeated_with_its_lease_gets_the_first_answer(bed) {
        for outcome in [Outcome::complete(), fail(), skip(), retry(), release()] {
            let id = bed.add(routed(&["a", "b"]).key("k"));
            let held = bed.take();
            let first = bed.settle(&held, outcome.clone());
            let before = bed.see(id);
            assert_eq!(bed.try_settle(&held, outcome), Ok(first));
            assert_eq!(bed.see(id), before);
            _ = bed.try_cancel(id);
        }
    }

    fn a_settle_repeated_with_another_outcome_is_refused_and_the_first_stands(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.settle(&held, Outcome::complete());
        let before = bed.see(id);
        let why = "outcome: this lease has settled it before, as completed; that stands";
        for outcome in [fail(), skip(), retry(), release()] {
            let refusal = bed.try_settle(&held, outcome).expect_err("it was completed");
            assert_eq!(refusal.to_string(), why);
        }
        assert_eq!(bed.see(id), before);
    }

    fn a_repeated_settle_spawns_nothing_more(bed) {
        bed.add(item());
        let held = bed.take();
        bed.settle(&held, complete_and(vec![item()]));
        bed.settle(&held, complete_and(vec![item()]));
        assert_eq!(bed.everything().len(), 2);
    }

    fn a_settle_repeated_while_another_worker_has_the_item_changes_nothing(bed) {
        let id = bed.add(item());
        let first = bed.take();
        let answer = bed.settle(&first, release());
        let second = bed.take();
        assert_eq!(bed.try_settle(&first, release()), Ok(answer));
        assert_eq!(refused(bed.try_settle(&first, Outcome::complete())), "invalid");
        assert_eq!(bed.item(id).lease(), Some(second.lease));
    }

    fn a_worker_that_lost_its_lease_cannot_settle(bed) {
        let id = bed.add(item());
        let late = bed.take();
        bed.advance(300_000);
        assert_eq!(refused(bed.try_settle(&late, Outcome::complete())), "lease_lost");
        bed.advance(60_000);
        let current = bed.take();
        assert_eq!(refused(bed.try_settle(&late, Outcome::complete())), "lease_lost");
        assert_eq!(bed.item(id).lease(), Some(current.lease));
        bed.complete(&current);
    }

    fn a_lease_that_expired_is_lost_before_anybody_reclaims_it(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.clock.advance(300_000);
        assert_eq!(refused(bed.try_settle(&held, Outcome::complete())), "lease_lost");
        bed.is(id, Status::Processing);
    }

    fn a_settle_just_before_expiry_counts(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.clock.advance(299_999);
        bed.complete(&held);
        bed.is(id, Status::Completed);
    }

    fn another_lease_cannot_settle(bed) {
        let ids = bed.add_many(2);
        let (mine, theirs) = (bed.take(), bed.take());
        for lease in [theirs.lease, LeaseId(7)] {
            let answer = bed.try_settle_as(lease, mine.id, Outcome::complete());
            assert_eq!(refused(answer), "lease_lost");
        }
        assert_eq!(bed.item(ids[0]).lease(), Some(mine.lease));
    }

    fn an_item_that_waits_cannot_be_settled(bed) {
        let id = bed.add(item());
        assert_eq!(refused(bed.try_settle_as(LeaseId(7), id, Outcome::complete())), "lease_lost");
        bed.is(id, Status::Pending);
    }

    fn an_unknown_item_is_not_found(bed) {
        bed.add(item());
        let held = bed.take();
        let nobody = windrow_core::ItemId(5);
        let answer = bed.try_settle_as(held.lease, nobody, Outcome::complete());
        assert_eq!(refused(answer), "not_found");
    }

    fn a_batch_settles_each_item_by_itself(bed) {
        bed.add_many(3);
        let held = bed.claim(3);
        bed.cancel(held[1].id);
        let items = held.iter().map(|h| (h.id, Outcome::complete())).collect();
        let answer = bed.ask(Command::Settle { lease: held[0].lease, items });
        let Answer::Settled(each) = answer else { panic!("{answer:?}") };
        let codes: Vec<_> = each.iter().map(|one| one.as_ref().map_err(Refusal::code)).collect();
        assert!(matches!(codes[..], [Ok(_), Err("lease_lost"), Ok(_)]), "{codes:?}");
    }

    fn a_result_or_output_that_is_too_large_is_refused_without_effect(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let large = Some(vec![0; RESULT_MAX + 1]);
        for (result, output) in [(large.clone(), None), (None, large)] {
            let outcome = Outcome::Complete { result, output, spawn: Vec::new() };
            assert_eq!(refused(bed.try_settle(&held, outcome)), "invalid");
        }
        assert_eq!(bed.item(id).lease(), Some(held.lease));
        let fits = Some(vec![0; RESULT_MAX]);
        bed.settle(&held, Outcome::Complete { result: fits, output: None, spawn: Vec::new() });
    }

    fn a_long_error_is_cut_and_never_refused(bed) {
        let id = bed.add(item());
        let message = "e".repeat(ERROR_MAX * 2);
        bed.settle(&bed.take(), Outcome::Fail { class: Class::Other, message });
        let trail = bed.trail(id);
        assert_eq!(trail.last_error().expect("it failed").message.len(), ERROR_MAX);
    }

    fn the_last_five_attempts_are_kept(bed) {
        bed.configure(|settings| settings.defaults.max_attempts = 0);
        let id = bed.add(item());
        for _ in 0..ATTEMPTS_KEPT + 2 {
            bed.settle(
                &bed.take(),
                Outcome::Retry { class: Class::Other, message: "no".into(), delay_ms: Some(0) },
            );
        }
        let attempts = bed.trail(id).attempts;
        assert_eq!(attempts.iter().map(|a| a.number).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
        assert!(attempts.iter().all(|a| a.ending == Ending::Retried && a.stage == 0));
    }

    fn a_cancelled_item_cannot_be_settled(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.cancel(id);
        assert_eq!(refused(bed.try_settle(&held, Outcome::complete())), "lease_lost");
        bed.is(id, Status::Cancelled);
    }

    fn nothing_is_kept_of_a_completed_item_where_that_is_asked(bed) {
        bed.configure(|settings| settings.forget_completed = true);
        let done = bed.add(routed(&["a", "b"]).key("k"));
        bed.complete(&bed.take());
        bed.see(done);
        bed.complete(&bed.take());
        bed.is_gone(done);
        let failed = bed.add(item());
        bed.settle(&bed.take(), fail());
        bed.is(failed, Status::Failed);
        let parent = bed.family(item(), 1).0;
        bed.drain();
        bed.is(parent, Status::Completed);
    }

    fn a_successor_follows_an_item_that_is_forgotten(bed) {
        bed.configure(|settings| settings.forget_completed = true);
        let first = bed.add(item().key("k"));
        let held = bed.take();
        let next = bed.add(item().key("k"));
        bed.complete(&held);
        bed.is_gone(first);
        assert_eq!(bed.take().id, next);
    }

    fn an_id_without_a_serial_is_not_known(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.complete(&held);
        let nobody = windrow_core::ItemId::from_serial(0, id.tag());
        let settle = bed.try_settle_as(held.lease, nobody, Outcome::complete());
        assert_ne!(refused(settle), "internal");
        assert_eq!(refused(bed.try_cancel(nobody)), "not_found");
    }
}
