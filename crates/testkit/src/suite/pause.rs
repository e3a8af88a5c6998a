//! Pause: a queue, a stage or a tenant hands out nothing.

use windrow_core::command::{Claim, Command};
use windrow_core::{Answer, Refusal};

use super::*;

cases! {
    fn a_paused_queue_hands_out_nothing_until_it_is_resumed(bed) {
        let id = bed.add(item());
        bed.pause(scope(None, None));
        bed.nothing_waits();
        let later = bed.add(item());
        bed.nothing_waits();
        bed.resume(scope(None, None));
        assert_eq!([bed.take().id, bed.take().id], [id, later]);
    }

    fn a_paused_queue_lets_its_workers_finish(bed) {
        bed.add(routed(&["a", "b"]));
        let held = bed.take();
        bed.pause(scope(None, None));
        bed.try_renew(held.lease, None).expect("it is live");
        bed.complete(&held);
        bed.nothing_waits();
    }

    fn other_queues_go_on(bed) {
        bed.add(item());
        let other = bed.add(item().queue("other"));
        bed.pause(scope(None, None));
        let any = Claim { queues: Vec::new(), ..Claim::new("w", "", 10) };
        let granted = bed.try_claim(any).expect("the other");
        assert_eq!(granted.items.iter().map(|w| w.item.id).collect::<Vec<_>>(), [other]);
    }

    fn a_paused_stage_holds_only_that_stage(bed) {
        let id = bed.add(routed(&["a", "b"]));
        bed.pause(scope(Some("b"), None));
        bed.complete(&bed.take_in("a"));
        bed.nothing_waits();
        bed.resume(scope(Some("b"), None));
        assert_eq!(bed.take_in("b").id, id);
    }

    fn a_paused_tenant_holds_only_that_tenant(bed) {
        bed.add(item().tenant("u"));
        let other = bed.add(item());
        bed.pause(scope(None, Some("u")));
        assert_eq!(bed.take().id, other);
        bed.nothing_waits();
    }

    fn a_tenant_may_be_paused_in_one_stage(bed) {
        bed.add(routed(&["a"]).tenant("u"));
        let free = [bed.add(routed(&["b"]).tenant("u")), bed.add(routed(&["a"]))];
        bed.pause(scope(Some("a"), Some("u")));
        let mut got = [bed.take().id, bed.take().id];
        got.sort();
        assert_eq!(got, free);
        bed.nothing_waits();
    }

    fn pauses_are_lifted_one_by_one(bed) {
        bed.add(item());
        bed.pause(scope(None, None));
        bed.pause(scope(None, Some(TENANT)));
        bed.resume(scope(None, None));
        bed.nothing_waits();
        bed.resume(scope(None, Some(TENANT)));
        bed.take();
    }

    fn pausing_twice_needs_one_resume(bed) {
        bed.add(item());
        bed.pause(scope(None, None));
        bed.pause(scope(None, None));
        bed.resume(scope(None, None));
        bed.take();
    }

    fn a_queue_may_be_paused_before_it_has_items(bed) {
        bed.pause(scope(None, None));
        bed.add(item());
        bed.nothing_waits();
    }

    fn a_scope_has_names_that_could_exist(bed) {
        let long = "x".repeat(129);
        for bad in [scope(Some(&long), None), scope(None, Some(""))] {
            let answer = bed.ask(Command::Pause(bad));
            assert!(matches!(answer, Answer::Refused(Refusal::Invalid { .. })), "{answer:?}");
        }
    }
}
