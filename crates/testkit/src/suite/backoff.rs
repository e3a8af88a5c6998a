//! Retries by the worker: attempts, error classes, delays, releases and snoozes.

use windrow_core::command::{Claim, Outcome};
use windrow_core::settings::Backoff;
use windrow_core::trail::{Class, Ending};
use windrow_core::{ItemId, State, Status, Timestamp};

use super::*;

/// When an item becomes visible.
fn visible<S: windrow_core::ports::Store>(bed: &Bed<S>, id: ItemId) -> Timestamp {
    match bed.item(id).state {
        State::Pending { not_before } => not_before,
        other => panic!("it waits: {other:?}"),
    }
}

fn wait_of<S: windrow_core::ports::Store>(bed: &Bed<S>, id: ItemId) -> u64 {
    visible(bed, id).since(bed.now())
}

cases! {
    fn a_retry_waits_twice_as_long_each_time_within_a_tenth(bed) {
        bed.configure(|settings| settings.defaults.max_attempts = 0);
        let id = bed.add(item());
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(bed.settle(&bed.take(), retry()).ending, Ending::Retried);
            let wait = wait_of(bed, id);
            assert!((seconds * 900..=seconds * 1_100).contains(&wait), "{seconds} s: {wait} ms");
            bed.advance(wait - 1);
            bed.nothing_waits();
            bed.advance(1);
        }
    }

    fn the_delay_is_a_queues_to_set(bed) {
        let backoff = Backoff { base_ms: 100, cap_ms: 150, ..Backoff::default() };
        bed.configure(|settings| settings.defaults.backoff = backoff);
        let id = bed.add(item());
        bed.settle(&bed.take(), retry());
        assert!((90..=110).contains(&wait_of(bed, id)));
        bed.advance(110);
        bed.settle(&bed.take(), retry());
        assert!((135..=165).contains(&wait_of(bed, id)));
    }

    fn a_worker_may_say_how_long_to_wait(bed) {
        let id = bed.add(item());
        let delay_ms = Some(1_234);
        let outcome = Outcome::Retry { class: Class::Other, message: "soon".into(), delay_ms };
        bed.settle(&bed.take(), outcome);
        assert_eq!(wait_of(bed, id), 1_234);
    }

    fn max_attempts_is_the_total_of_runs_and_three_by_default(bed) {
        let id = bed.add(item());
        for run in 1..=3 {
            let held = bed.take();
            assert_eq!(held.work.item.attempts, run);
            let ending = bed.settle(&held, retry()).ending;
            assert_eq!(ending, if run < 3 { Ending::Retried } else { Ending::Failed });
            bed.advance(60_000);
        }
        bed.is(id, Status::Failed);
        bed.nothing_waits();
    }

    fn no_limit_of_attempts_means_none(bed) {
        bed.configure(|settings| settings.defaults.max_attempts = 0);
        let id = bed.add(item());
        for _ in 0..20 {
            bed.settle(&bed.take(), retry());
            bed.advance(400_000);
        }
        assert_eq!(bed.item(id).attempts, 20);
    }

    fn attempts_are_counted_per_stage(bed) {
        let id = bed.add(routed(&["a", "b"]));
        for stage in ["a", "b"] {
            for _ in 0..2 {
                bed.settle(&bed.take_in(stage), retry());
                bed.advance(60_000);
            }
            bed.complete(&bed.take_in(stage));
        }
        bed.is(id, Status::Completed);
        let runs: Vec<u16> = bed.trail(id).stages.iter().map(|stage| stage.attempts).collect();
        assert_eq!(runs, [3, 3]);
    }

    fn what_is_gone_or_bad_is_never_tried_again(bed) {
        for class in [Class::Gone, Class::BadData, Class::Internal] {
            let id = bed.add(item());
            assert_eq!(bed.settle(&bed.take(), retry_of(class)).ending, Ending::Failed);
            bed.is(id, Status::Failed);
            assert_eq!(bed.trail(id).last_error().map(|error| error.class), Some(class));
        }
    }

    fn an_outage_waits_longer_than_other_errors(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), retry_of(Class::Infrastructure));
        assert!((54_000..=66_000).contains(&wait_of(bed, id)));
        let id = bed.add(item());
        bed.settle(&bed.take(), retry_of(Class::Resource));
        assert!((9_000..=11_000).contains(&wait_of(bed, id)));
    }

    fn a_rate_limit_costs_no_attempt(bed) {
        let id = bed.add(item());
        for _ in 0..5 {
            let ending = bed.settle(&bed.take(), retry_of(Class::RateLimit)).ending;
            assert_eq!(ending, Ending::Released);
            assert_eq!(bed.item(id).attempts, 0);
            bed.advance(60_000);
        }
        let error = bed.trail(id).last_error().map(|error| error.class);
        assert_eq!(error, Some(Class::RateLimit));
    }

    fn a_release_gives_the_attempt_back_at_once_or_after_a_delay(bed) {
        let id = bed.add(item());
        assert_eq!(bed.settle(&bed.take(), release()).ending, Ending::Released);
        assert_eq!((bed.item(id).attempts, bed.item(id).deferrals), (0, 1));
        bed.settle(&bed.take(), Outcome::Release { delay_ms: 500 });
        bed.nothing_waits();
        bed.advance(500);
        assert_eq!(bed.take().work.item.attempts, 1);
    }

    fn a_snooze_waits_until_its_time_and_gives_the_attempt_back(bed) {
        let id = bed.add(item());
        let until = bed.later(7_000);
        let ending = bed.settle(&bed.take(), Outcome::Snooze { until }).ending;
        assert_eq!((ending, bed.item(id).attempts), (Ending::Snoozed, 0));
        assert_eq!(visible(bed, id), until);
    }

    fn what_was_deferred_too_often_pays_with_attempts(bed) {
        bed.configure(|settings| {
            settings.defaults.deferrals_max = 2;
            settings.defaults.max_attempts = 2;
        });
        let id = bed.add(item());
        let defer = || {
            let ending = bed.settle(&bed.take(), release()).ending;
            bed.advance(60_000);
            ending
        };
        assert_eq!([defer(), defer()], [Ending::Released; 2]);
        assert_eq!([defer(), defer()], [Ending::Retried, Ending::Failed]);
        bed.is(id, Status::Failed);
    }

    fn a_snooze_is_bounded_too(bed) {
        bed.configure(|settings| settings.defaults.deferrals_max = 1);
        bed.add(item());
        let mut endings = Vec::new();
        while let Some(held) = bed.claim(1).pop() {
            let until = bed.later(1_000);
            endings.push(bed.settle(&held, Outcome::Snooze { until }).ending);
            bed.advance(1_000);
        }
        use Ending::{Failed, Retried, Snoozed};
        assert_eq!(endings, [Snoozed, Retried, Retried, Failed]);
    }

    fn deferrals_are_counted_per_stage(bed) {
        bed.configure(|settings| settings.defaults.deferrals_max = 1);
        let id = bed.add(routed(&["a", "b"]));
        for stage in ["a", "b"] {
            bed.settle(&bed.take_in(stage), release());
            bed.complete(&bed.take_in(stage));
        }
        bed.is(id, Status::Completed);
    }

    fn what_an_earlier_stage_put_out_survives_a_later_failure(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.settle(&bed.take_in("a"), complete_with(b"paid for"));
        bed.settle(&bed.take_in("b"), retry());
        bed.advance(60_000);
        let held = bed.take_in("b");
        assert_eq!(held.work.input.as_deref(), Some(&b"paid for"[..]));
        bed.settle(&held, fail());
        assert_eq!(bed.trail(id).stages[0].output.as_deref(), Some(&b"paid for"[..]));
        bed.retry(id);
        assert_eq!(bed.take_in("b").work.input.as_deref(), Some(&b"paid for"[..]));
    }

    fn shutting_down_hands_everything_back_without_cost(bed) {
        bed.add_many(3);
        let held = bed.claim(3);
        for one in &held {
            bed.settle(one, release());
        }
        let again = bed.try_claim(Claim::new("next", QUEUE, 3)).expect("all of them");
        assert!(again.items.iter().all(|work| work.item.attempts == 1));
        assert_eq!(again.items.len(), 3);
    }
}
