//! Inspect and count: what can be seen of items.

use windrow_core::command::Outcome;
use windrow_core::route::Route;
use windrow_core::{ItemId, Status};

use crate::suite::{Draft as _, fail, skip};

cases! {
    fn an_item_that_waits_is_seen_as_it_was_said(bed) {
        let new = bed.item().kind("pdf").key("k").priority(7).payload(b"{\"page\":1}");
        let id = bed.add(new.clone());
        let seen = bed.seen(id);
        assert_eq!((seen.id, seen.status, seen.priority), (id, Status::Pending, 7));
        assert_eq!((&seen.body.kind, &seen.body.key), (&new.body.kind, &new.body.key));
        assert_eq!(seen.body.payload, new.body.payload);
        assert_eq!((seen.attempts, seen.generation), (0, 0));
        assert_eq!((seen.finished_at, seen.not_before, seen.lease), (None, None, None));
        assert_eq!((seen.place, seen.successor, seen.children), (None, None, None));
        assert_eq!((seen.stages.len(), seen.log.len()), (1, 0));
    }

    fn an_item_that_is_not_known_is_not_seen(bed) {
        let id = ItemId(bed.add(bed.item()).0 ^ 1);
        assert_eq!(bed.get(bed.port.inspect(id)), None);
        assert_eq!(bed.get(bed.port.children(id, 0, 10)), None);
    }

    fn a_stage_says_who_did_it_and_when(bed) {
        let id = bed.ended(Outcome::complete());
        let stage = bed.seen(id).stages.remove(0);
        assert_eq!(stage.worker.as_deref(), Some(&*bed.name));
        let (started, completed) = (stage.started.expect("when"), stage.completed.expect("when"));
        assert!(started <= completed);
        assert_eq!(stage.attempts, 1);
    }

    fn items_are_counted_by_status(bed) {
        bed.ended(Outcome::complete());
        bed.ended(fail());
        bed.ended(skip());
        let id = bed.add(bed.item());
        bed.get(bed.port.cancel(id, None));
        bed.add_some(2);
        bed.take();
        for status in Status::ALL {
            assert_eq!(bed.counted(status), 1, "{status}");
        }
    }

    fn items_are_counted_by_tenant(bed) {
        let other = bed.other("tenant");
        bed.add(bed.item());
        bed.add(bed.item().tenant(&other));
        let counts = bed.get(bed.port.counts());
        let ours = counts.iter().filter(|count| *count.queue == *bed.name);
        let mut tenants: Vec<&str> = ours.map(|count| &*count.tenant).collect();
        tenants.sort_unstable();
        assert_eq!(tenants, [&*bed.name, &*other]);
    }

    /// Its stage was shown as pending and never tried, until the attempt ended.
    fn an_item_in_work_shows_the_attempt_that_runs(bed) {
        let id = bed.add(bed.item().route(Route::of(&["a", "b"])));
        bed.complete(&bed.take());
        let held = bed.take();
        let seen = bed.seen(id);
        let stage = &seen.stages[1];
        assert_eq!((stage.status, stage.attempts), (Status::Processing, 1));
        assert_eq!(stage.worker.as_deref(), Some(&*bed.name));
        assert!(stage.started.is_some() && stage.completed.is_none());
        assert_eq!(seen.stages[0].status, Status::Completed);
        bed.complete(&held);
        assert_eq!(bed.seen(id).stages[1].status, Status::Completed);
    }

    fn what_nobody_has_is_not_counted(bed) {
        bed.add(bed.item());
        let counts = bed.get(bed.port.counts());
        assert!(counts.iter().all(|count| count.items > 0));
    }
}
