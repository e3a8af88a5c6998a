//! Pause and resume: a queue, a stage or a tenant hands out nothing for a while.

use windrow_core::command::Scope;
use windrow_core::route::Route;

use super::code;
use crate::suite::Draft as _;

cases! {
    fn a_paused_queue_hands_out_nothing_until_it_is_resumed(bed) {
        let id = bed.add(bed.item());
        bed.get(bed.port.pause(bed.scope()));
        bed.nothing_waits();
        bed.get(bed.port.resume(bed.scope()));
        assert_eq!(bed.take().id(), id);
    }

    fn a_paused_queue_takes_in_and_lets_workers_finish(bed) {
        bed.add(bed.item());
        let held = bed.take();
        bed.get(bed.port.pause(bed.scope()));
        bed.add(bed.item());
        bed.get(bed.port.renew(held.lease, None));
        bed.complete(&held);
        bed.nothing_waits();
    }

    fn a_paused_stage_holds_only_that_stage(bed) {
        bed.add(bed.item().route(Route::of(&["a", "b"])));
        let stage = Scope { stage: Some("b".into()), ..bed.scope() };
        bed.get(bed.port.pause(stage.clone()));
        bed.complete(&bed.take());
        bed.nothing_waits();
        bed.get(bed.port.resume(stage));
        assert_eq!(&*bed.take().work.stage, "b");
    }

    fn a_paused_tenant_holds_only_that_tenant(bed) {
        let other = bed.other("tenant");
        bed.add(bed.item().tenant(&other));
        let ours = bed.add(bed.item());
        bed.get(bed.port.pause(Scope { tenant: Some(other.as_str().into()), ..bed.scope() }));
        assert_eq!(bed.take().id(), ours);
        bed.nothing_waits();
    }

    fn pausing_and_resuming_again_is_harmless(bed) {
        bed.add(bed.item());
        bed.get(bed.port.resume(bed.scope()));
        bed.get(bed.port.pause(bed.scope()));
        bed.get(bed.port.pause(bed.scope()));
        bed.get(bed.port.resume(bed.scope()));
        bed.take();
    }

    fn a_scope_has_names_that_could_exist(bed) {
        let nobody = Scope { tenant: Some("".into()), ..bed.scope() };
        assert_eq!(code(bed.wait(bed.port.pause(nobody))), "invalid");
        let nowhere = Scope { queue: "".into(), ..bed.scope() };
        assert_eq!(code(bed.wait(bed.port.pause(nowhere))), "invalid");
    }
}
