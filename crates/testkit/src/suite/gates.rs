//! Gates: a closed resource and too much ahead hold a stage up without costing an attempt.

use windrow_core::settings::{Ahead, Policy, StageSettings};
use windrow_core::Timestamp;

use super::*;

fn needing<S: windrow_core::ports::Store>(bed: &Bed<S>, resource: &str) {
    bed.configure(|settings| settings.defaults.resource = Some(resource.into()));
}

cases! {
    fn a_closed_resource_holds_up_everything_that_needs_it(bed) {
        needing(bed, "llm");
        let id = bed.add(item());
        let free = bed.add(item().queue("free"));
        bed.close("llm", bed.later(5_000));
        assert_eq!(bed.take_from("free").id, free);
        bed.nothing_waits();
        bed.advance(4_999);
        bed.nothing_waits();
        bed.advance(1);
        let held = bed.take();
        assert_eq!((held.id, held.work.item.attempts), (id, 1));
    }

    fn a_resource_may_open_early(bed) {
        needing(bed, "llm");
        bed.add(item());
        bed.close("llm", bed.later(60_000));
        bed.nothing_waits();
        bed.close("llm", Timestamp::ZERO);
        bed.take();
    }

    fn other_resources_stay_open(bed) {
        needing(bed, "llm");
        bed.add(item());
        bed.close("ocr", bed.later(60_000));
        bed.take();
    }

    fn a_closed_resource_lets_its_users_finish(bed) {
        needing(bed, "llm");
        bed.add(item());
        let held = bed.take();
        bed.close("llm", bed.later(60_000));
        bed.complete(&held);
    }

    fn a_stage_waits_while_too_much_waits_further_down(bed) {
        bed.configure(|settings| {
            let ahead = Some(Ahead { stage: "load".into(), max: 2 });
            let policy = Policy { ahead, ..Policy::default() };
            settings.stages.push(StageSettings { stage: "read".into(), policy });
        });
        for _ in 0..4 {
            bed.add(routed(&["read", "load"]));
        }
        bed.complete(&bed.take_in("read"));
        bed.complete(&bed.take_in("read"));
        assert_eq!(bed.claim_in("read", 5).len(), 0);
        let held = bed.take_in("load");
        assert_eq!(bed.claim_in("read", 5).len(), 2, "what is in hand waits no more");
        bed.complete(&held);
    }
}
