//! Settle: every way in which an attempt can end.

use windrow_core::command::Outcome;
use windrow_core::route::Route;
use windrow_core::settings::{Backoff, Policy, Settings};
use windrow_core::trail::{Class, Ending};
use windrow_core::{ItemId, LeaseId, Status};

use super::only;
use crate::suite::{Draft as _, complete_and, complete_with, fail, release, retry, retry_of, skip};

cases! {
    fn a_completed_item_has_ended(bed) {
        let id = bed.ended(Outcome::complete());
        let seen = bed.seen(id);
        assert_eq!((seen.status, seen.lease), (Status::Completed, None));
        assert!(seen.finished_at.is_some_and(|at| at >= id.created_at()));
        assert_eq!(seen.stages[0].status, Status::Completed);
        assert_eq!(seen.log.len(), 1);
        assert_eq!(&*seen.log[0].worker, &*bed.name);
        assert_eq!(seen.log[0].ending, Ending::Completed);
    }

    fn a_completed_stage_moves_the_item_on(bed) {
        let id = bed.add(bed.item().route(Route::of(&["ocr", "vector", "graph"])));
        bed.complete(&bed.take());
        let seen = bed.seen(id);
        assert_eq!((seen.status, &*seen.stage, seen.attempts), (Status::Pending, "vector", 0));
        let names: Vec<&str> = seen.stages.iter().map(|stage| &*stage.name).collect();
        assert_eq!(names, ["ocr", "vector", "graph"]);
        assert_eq!(seen.stages[0].status, Status::Completed);
    }

    fn an_output_survives_a_later_failure(bed) {
        bed.policy(Policy { max_attempts: 1, ..Policy::default() });
        let id = bed.add(bed.item().route(Route::of(&["a", "b"])));
        bed.settle(&bed.take(), complete_with(b"paid for"));
        assert_eq!(bed.settle(&bed.take(), fail()), Ending::Failed);
        bed.get(bed.port.retry(id, windrow_core::command::RetryMode::Reset, None, None));
        let held = bed.take();
        assert_eq!((&*held.work.stage, held.work.input.as_deref()), ("b", Some(&b"paid for"[..])));
    }

    fn what_is_spawned_is_enqueued_in_the_same_commit(bed) {
        bed.add(bed.item());
        let queue = bed.other("spawned");
        let spawn = vec![bed.item().queue(&queue).key("s").payload(b"{\"n\":1}")];
        bed.settle(&bed.take(), complete_and(spawn.clone()));
        let claim = windrow_core::command::Claim::new("w", &*queue, 1);
        let granted = bed.claim(claim).expect("what was spawned");
        assert_eq!(granted.items[0].body.payload, spawn[0].body.payload);
        assert_eq!(granted.items[0].body.tenant, spawn[0].body.tenant);
    }

    fn a_retry_waits_and_comes_again(bed) {
        let backoff = Backoff { base_ms: 1, cap_ms: 1, slow_base_ms: 1, slow_cap_ms: 1 };
        bed.policy(Policy { backoff, ..Policy::default() });
        let id = bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Retried);
        let held = bed.take_soon();
        assert_eq!((held.id(), held.work.attempt), (id, 2));
        let seen = bed.seen(id);
        let fault = seen.log[0].error.as_ref().expect("what went wrong");
        assert_eq!((fault.class, &*fault.message), (Class::Other, "it went wrong"));
    }

    fn a_retry_may_say_how_long_to_wait(bed) {
        let id = bed.add(bed.item());
        let held = bed.take();
        let message = "later".to_owned();
        let delay_ms = Some(7_200_000);
        bed.settle(&held, Outcome::Retry { class: Class::Resource, message, delay_ms });
        let seen = bed.seen(id);
        assert_eq!(seen.status, Status::Pending);
        let waits_ms = seen.not_before.expect("it waits").since(bed.now());
        assert!(waits_ms > 6_000_000, "{waits_ms}");
    }

    fn the_last_attempt_fails(bed) {
        bed.policy(Policy { max_attempts: 1, ..Policy::default() });
        let id = bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), retry()), Ending::Failed);
        assert_eq!(bed.status(id), Status::Failed);
    }

    fn what_can_never_work_is_not_tried_again(bed) {
        for class in [Class::Gone, Class::BadData] {
            let id = bed.add(bed.item());
            assert_eq!(bed.settle(&bed.take(), retry_of(class)), Ending::Failed);
            let seen = bed.seen(id);
            assert_eq!(seen.stages[0].error.as_ref().map(|fault| fault.class), Some(class));
        }
    }

    fn a_failed_item_says_why(bed) {
        let message = "Seite 7 ist leer: \"\u{1f33e}\"\n\ttwo lines";
        let outcome = Outcome::Fail { class: Class::BadData, message: message.into() };
        let id = bed.ended(outcome);
        let seen = bed.seen(id);
        let fault = seen.stages[0].error.as_ref().expect("why");
        assert_eq!((seen.status, fault.class), (Status::Failed, Class::BadData));
        assert_eq!(fault.message, message);
    }

    fn a_skipped_item_says_why(bed) {
        let id = bed.ended(skip());
        let seen = bed.seen(id);
        assert_eq!(seen.status, Status::Skipped);
        assert!(seen.reason.is_some_and(|reason| reason.contains("nothing to do")));
    }

    fn a_released_item_costs_no_attempt(bed) {
        let id = bed.add(bed.item());
        assert_eq!(bed.settle(&bed.take(), release()), Ending::Released);
        let held = bed.take_soon();
        assert_eq!((held.id(), held.work.attempt), (id, 1));
    }

    fn a_snoozed_item_comes_back_at_its_time(bed) {
        let id = bed.add(bed.item());
        let until = bed.now().plus(3_600_000);
        assert_eq!(bed.settle(&bed.take(), Outcome::Snooze { until }), Ending::Snoozed);
        let seen = bed.seen(id);
        assert_eq!((seen.status, seen.attempts), (Status::Pending, 0));
        assert_eq!(seen.not_before, Some(until));
    }

    fn a_thousand_are_settled_at_once_and_each_is_answered(bed) {
        let ids = bed.add_some(1_000);
        let granted = bed.claim(bed.asks(1_000)).expect("work");
        let items = ids.iter().map(|id| (*id, Outcome::complete())).collect();
        let each = bed.get(bed.port.settle(granted.lease, items, None));
        let settled: Vec<ItemId> = each.into_iter().map(|one| one.expect("settled").id).collect();
        assert_eq!(settled, ids);
        assert_eq!(bed.counted(Status::Completed), 1_000);
    }

    fn one_that_is_refused_undoes_nothing_of_the_others(bed) {
        let ids = bed.add_some(2);
        let granted = bed.claim(bed.asks(2)).expect("work");
        let unknown = ItemId(ids[0].0 ^ 1);
        let items = [ids[0], unknown, ids[1]].map(|id| (id, Outcome::complete())).to_vec();
        let each = bed.get(bed.port.settle(granted.lease, items, None));
        assert!(each[0].is_ok() && each[2].is_ok(), "{each:?}");
        assert_eq!(each[1].as_ref().expect_err("unknown").code, "not_found");
        assert_eq!(bed.counted(Status::Completed), 2);
    }

    fn a_lease_that_was_never_granted_settles_nothing(bed) {
        let id = bed.add(bed.item());
        bed.take();
        let unknown = LeaseId(bed.request().0);
        assert_eq!(bed.settle_refused(unknown, id, Outcome::complete()), "lease_lost");
        assert_eq!(bed.status(id), Status::Processing);
    }

    fn an_item_that_is_forgotten_leaves_nothing(bed) {
        bed.configure(Settings { forget_completed: true, ..Settings::default() });
        let id = bed.ended(Outcome::complete());
        assert_eq!(bed.get(bed.port.inspect(id)), None);
    }

    fn a_result_that_is_too_large_is_refused_and_may_be_told_again(bed) {
        bed.add(bed.item());
        let held = bed.take();
        let result = Some(vec![b'x'; windrow_core::limits::RESULT_MAX + 1]);
        let large = Outcome::Complete { result, output: None, spawn: Vec::new() };
        assert_eq!(bed.settle_refused(held.lease, held.id(), large), "invalid");
        bed.complete(&held);
    }

    fn settling_answers_for_one_as_for_many(bed) {
        bed.add(bed.item());
        let held = bed.take();
        let items = vec![(held.id(), Outcome::complete())];
        let settled = only(bed.get(bed.port.settle(held.lease, items, None))).expect("settled");
        assert_eq!((settled.id, settled.ending), (held.id(), Ending::Completed));
    }
}
