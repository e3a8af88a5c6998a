//! Explain: every reason from a real situation, and what would move the item on.

use windrow_core::Status;
use windrow_core::explain::Reason;
use windrow_core::rules::claim::Gate;
use windrow_core::settings::{Ahead, Policy, StageSettings};

use super::*;

cases! {
    fn nothing_holds_what_is_next_in_line(bed) {
        let id = bed.add(item());
        let said = bed.explain(id);
        assert_eq!(
            (said.item, said.status, said.reasons.clone()),
            (id, Status::Pending, vec![Reason::NextInLine])
        );
        assert_eq!(said.reasons[0].unblocked_by(), "the next claim");
    }

    fn a_delayed_item_is_not_visible_until_its_time(bed) {
        let at = bed.later(60_000);
        let id = bed.add(item().at(at));
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::NotVisibleUntil(at)));
        assert_eq!(
            (reason.code(), reason.unblocked_by()),
            ("not_visible", format!("its time, {at}; a retry makes it due at once"))
        );
        bed.advance(60_000);
        assert_eq!(bed.why(id), ["next_in_line"]);
    }

    fn a_paused_item_waits_for_a_resume(bed) {
        let id = bed.add(item());
        for paused in [scope(None, None), scope(Some("work"), None), scope(None, Some(TENANT))] {
            bed.pause(paused.clone());
            let reason = bed.explain(id).reasons.remove(0);
            assert_eq!(reason.code(), "paused");
            assert_eq!(reason.unblocked_by(), "resuming its queue, stage or tenant");
            bed.resume(paused);
        }
        assert_eq!(bed.why(id), ["next_in_line"]);
    }

    fn a_split_item_waits_for_its_children(bed) {
        let (id, _) = bed.family(item(), 3);
        bed.complete(&bed.take());
        let said = bed.explain(id);
        assert_eq!(said.status, Status::Pending);
        let open = |open, cancelled| [Reason::Held(Gate::Children { open, cancelled })];
        assert_eq!(said.reasons, open(2, false));
        assert_eq!(said.reasons[0].unblocked_by(), "the end of 2 children");
        bed.take();
        assert_eq!(bed.explain(id).status, Status::Processing);
        bed.cancel(id);
        assert_eq!(bed.explain(id).reasons, open(2, true));
    }

    fn a_successor_waits_for_the_item_with_its_key(bed) {
        let first = bed.add(item().key("k"));
        bed.take();
        let id = bed.add(item().key("k"));
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::EarlierWithKey(first)));
        assert_eq!(reason.unblocked_by(), format!("the end of item {first}, which has its key"));
    }

    fn a_full_group_names_who_holds_it(bed) {
        bed.configure(|settings| settings.defaults.group_limit = Some(1));
        let holder = bed.add(item().group("g"));
        bed.take();
        let id = bed.add(item().group("g"));
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::GroupFull { load: 1, limit: 1, held_by: vec![holder] });
        let want = format!("a settle in its group, which holds 1 of 1 leases: item {holder}");
        assert_eq!((reason.code(), reason.unblocked_by()), ("group_full", want));
    }

    fn in_an_ordered_group_an_item_waits_for_the_one_ahead(bed) {
        bed.configure(|settings| settings.defaults.ordered = true);
        let first = bed.add(item().group("g").at(bed.later(1_000)));
        let id = bed.add(item().group("g"));
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::GroupOrder { ahead: first }));
        assert_eq!(reason.unblocked_by(), format!("the end of item {first} of its group"));
        bed.cancel(first);
        assert_eq!(bed.why(id), ["next_in_line"]);
    }

    fn a_closed_resource_says_when_it_opens(bed) {
        bed.configure(|settings| settings.defaults.resource = Some("llm".into()));
        let id = bed.add(item());
        let until = bed.later(60_000);
        bed.close("llm", until);
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::ResourceClosed { until }));
        assert_eq!(reason.unblocked_by(), format!("its resource opening, at the latest {until}"));
    }

    fn under_a_cancelled_item_nothing_runs_until_that_is_retried(bed) {
        let id = bed.add(document());
        let pages = bed.split(&bed.take_in("pages"), vec![page(0), page(1)]);
        bed.complete(&bed.take_in("ocr"));
        let chunks = bed.split(&bed.take_in("chunk"), vec![chunk(0)]);
        bed.cancel(id);
        let reason = bed.explain(pages[1]).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::UnderCancelled(id)));
        let want = format!("nothing: item {id} above it was cancelled; retry that one");
        assert_eq!(reason.unblocked_by(), want);
        assert_eq!(bed.why(chunks[0]), ["under_cancelled"]);
        assert_eq!(bed.why(pages[0]), ["waits_for_children", "under_cancelled"]);
    }

    fn too_much_further_down_says_how_much(bed) {
        bed.configure(|settings| {
            let ahead = Some(Ahead { stage: "load".into(), max: 1 });
            let policy = Policy { ahead, ..Policy::default() };
            settings.stages.push(StageSettings { stage: "read".into(), policy });
        });
        bed.add(routed(&["read", "load"]));
        bed.complete(&bed.take_in("read"));
        let id = bed.add(routed(&["read", "load"]));
        let reason = bed.explain(id).reasons.remove(0);
        assert_eq!(reason, Reason::Held(Gate::TooMuchAhead { waiting: 1, max: 1 }));
        assert_eq!(reason.unblocked_by(), "the stage further down: 1 wait there, at most 1 may");
        bed.take_in("load");
        assert_eq!(bed.why(id), ["next_in_line"]);
    }

    fn a_leased_item_is_in_the_hands_of_its_worker(bed) {
        let id = bed.add(item());
        let until = bed.take().expires_at;
        let said = bed.explain(id);
        assert_eq!(said.status, Status::Processing);
        assert_eq!(said.reasons, [Reason::InHand { worker: "worker".into(), until }]);
        let want = format!("worker worker settling it, or its lease ending at {until}");
        assert_eq!(said.reasons[0].unblocked_by(), want);
    }

    fn without_a_present_worker_nobody_comes(bed) {
        let id = bed.add(item());
        let said = bed.explain(id).without_workers(Vec::new());
        assert_eq!(said.reasons, [Reason::NoWorker { drained: Vec::new() }]);
        let want = "a worker that claims its queue, stage and kind";
        assert_eq!(
            (said.reasons[0].code(), said.reasons[0].unblocked_by()),
            ("no_worker", want.into())
        );
        assert_eq!(bed.explain(id).reasons, [Reason::NextInLine]);
        bed.take();
        assert_eq!(bed.explain(id).without_workers(Vec::new()).reasons[0].code(), "in_hand");
    }

    fn an_ended_item_waits_for_nothing_but_a_retry(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), fail());
        let said = bed.explain(id);
        assert_eq!((said.status, said.reasons[0].code()), (Status::Failed, "ended"));
        assert_eq!(said.reasons[0].unblocked_by(), "a retry");
    }

    fn all_gates_that_hold_are_listed_in_fixed_order(bed) {
        bed.add(item().group("g").key("k"));
        bed.take();
        bed.configure(|settings| {
            settings.defaults.group_limit = Some(1);
            settings.defaults.resource = Some("llm".into());
            settings.defaults.ahead = Some(Ahead { stage: "work".into(), max: 1 });
        });
        let id = bed.add(item().group("g").key("k").at(bed.later(1_000)));
        bed.add(item().group("g"));
        bed.pause(scope(None, None));
        bed.close("llm", bed.later(1_000));
        let want = [
            "not_visible",
            "paused",
            "earlier_with_key",
            "group_full",
            "resource_closed",
            "too_much_ahead",
        ];
        assert_eq!(bed.why(id), want);
        let said = bed.explain(id).without_workers(Vec::new());
        let codes: Vec<_> = said.reasons.iter().map(Reason::code).collect();
        assert_eq!(codes[4..], ["resource_closed", "no_worker", "too_much_ahead"]);
    }

    fn what_is_unknown_is_not_explained(bed) {
        let nobody = windrow_core::ItemId(1);
        assert_eq!(block_on(bed.store.explain(nobody, bed.now())), Ok(None));
        assert_eq!(bed.try_see(nobody), None);
        assert_eq!(bed.children(nobody), []);
    }
}
