//! Vitals: what waits, since when, and what holds it back.

use windrow_core::settings::{Policy, StageSettings};
use windrow_core::vitals::{Closed, Vitals, Waiting};
use windrow_core::Timestamp;

use super::*;

fn vitals<S: windrow_core::ports::Store>(bed: &Bed<S>) -> Vitals {
    block_on(bed.store.vitals(bed.now())).expect("it tells")
}

/// Since when the queue's first waits: open, and held back.
fn waits<S: windrow_core::ports::Store>(bed: &Bed<S>) -> (Option<Timestamp>, Option<Timestamp>) {
    let waiting = vitals(bed).waiting;
    let ours = waiting.into_iter().find(|waiting| *waiting.queue == *QUEUE);
    ours.map_or((None, None), |waiting: Waiting| (waiting.open_since(), waiting.held_since))
}

/// Since when the first waits in each stage that anybody may claim from.
fn open<S: windrow_core::ports::Store>(bed: &Bed<S>) -> Vec<(String, Timestamp)> {
    let waiting = vitals(bed).waiting.into_iter();
    let open = waiting.filter(|waiting| *waiting.queue == *QUEUE).flat_map(|waiting| waiting.open);
    open.map(|(stage, since)| (stage.to_string(), since)).collect()
}

/// What waits and runs in each stage of the queue, and since when the first waits.
fn stages<S: windrow_core::ports::Store>(
    bed: &Bed<S>,
) -> Vec<(String, u64, u64, Option<Timestamp>)> {
    let told = block_on(bed.store.stages(bed.now(), 100)).expect("it tells");
    let each = told.into_iter().map(|of| {
        assert!(*of.queue == *QUEUE && !of.is_capped, "{of:?}");
        (of.stage.to_string(), of.waiting, of.running, of.since)
    });
    each.collect()
}

cases! {
    fn what_waits_is_as_old_as_its_first_and_what_is_worked_on_waits_no_more(bed) {
        assert_eq!(waits(bed), (None, None));
        let first = bed.now();
        bed.add(item());
        bed.advance(5_000);
        let second = bed.now();
        bed.add(item());
        bed.add(item().queue("other"));
        assert_eq!(waits(bed), (Some(first), None));
        let queues: Vec<String> =
            vitals(bed).waiting.iter().map(|waiting| waiting.queue.to_string()).collect();
        assert_eq!(queues.len(), 2, "{queues:?}");
        let held = bed.take();
        assert_eq!(waits(bed), (Some(second), None));
        bed.take();
        assert_eq!(waits(bed), (None, None));
        bed.complete(&held);
    }

    fn stages_say_what_waits_and_runs_in_them(bed) {
        let stage = |name: &str, waits, runs, since| (name.to_owned(), waits, runs, since);
        assert_eq!(stages(bed), []);
        let first = bed.now();
        for kind in ["page", "page", "mail"] {
            bed.add(routed(&["read", "write"]).kind(kind));
        }
        bed.add(routed(&["read", "write"]).at(bed.later(60_000)));
        assert_eq!(stages(bed), [stage("read", 4, 0, Some(first))]);
        bed.advance(1_000);
        let held = bed.claim_in("read", 2);
        assert_eq!(stages(bed), [stage("read", 2, 2, Some(first))]);
        bed.complete(&held[0]);
        let both = [stage("read", 2, 1, Some(first)), stage("write", 1, 0, Some(bed.now()))];
        assert_eq!(stages(bed), both);
        bed.settle(&held[1], fail());
        bed.complete(&bed.take_in("write"));
        bed.complete(&bed.take_in("read"));
        bed.complete(&bed.take_in("write"));
        assert_eq!(stages(bed), [stage("read", 1, 0, None)], "its time has not come");
    }

    fn an_item_waits_from_when_it_may_be_claimed(bed) {
        let due = bed.later(3_000);
        bed.add(item().at(due));
        assert_eq!(waits(bed), (None, None), "its time has not come");
        bed.advance(4_000);
        assert_eq!(waits(bed), (Some(due), None));
        bed.take();
        bed.add(routed(&["read", "load"]));
        bed.advance(1_000);
        let moved_on = bed.now();
        bed.complete(&bed.take_in("read"));
        assert_eq!(waits(bed), (Some(moved_on), None), "in its second stage");
        bed.advance(1_000);
        bed.add(routed(&["read", "load"]));
        assert_eq!(open(bed), [("load".to_owned(), moved_on), ("read".to_owned(), bed.now())]);
        bed.take_in("load");
        assert_eq!(open(bed), [("read".to_owned(), bed.now())]);
    }

    fn what_is_paused_or_needs_a_closed_resource_is_held_back(bed) {
        let since = bed.now();
        bed.add(item());
        bed.pause(scope(None, None));
        assert_eq!(waits(bed), (None, Some(since)));
        bed.resume(scope(None, None));
        bed.pause(scope(None, Some(draft::TENANT)));
        assert_eq!(waits(bed), (None, Some(since)));
        bed.add(item().tenant("another"));
        assert_eq!(waits(bed), (Some(since), Some(since)));
        bed.resume(scope(None, Some(draft::TENANT)));
        bed.configure(|settings| {
            let policy = Policy { resource: Some("llm".into()), ..Policy::default() };
            settings.stages.push(StageSettings { stage: "work".into(), policy });
        });
        let until = bed.later(5_000);
        bed.close("llm", until);
        assert_eq!(waits(bed), (None, Some(since)));
        assert_eq!(vitals(bed).closed, [Closed { resource: "llm".into(), until }]);
        bed.advance(5_000);
        assert_eq!(waits(bed), (Some(since), None));
        assert_eq!(vitals(bed).closed, []);
    }
}
