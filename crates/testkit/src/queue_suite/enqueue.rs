//! Enqueue: what goes in, and what is said about it.

use windrow_core::Status;
use windrow_core::command::{EnqueueOutcome, Outcome};
use windrow_core::limits::COMMAND_ITEMS_MAX;
use windrow_core::settings::{Settings, Unique};

use super::{code, only};
use crate::suite::Draft as _;

cases! {
    fn a_new_item_is_created_and_waits(bed) {
        let enqueued = bed.enqueued(bed.item());
        assert_eq!(enqueued.outcome, EnqueueOutcome::Created);
        assert_eq!(bed.status(enqueued.id), Status::Pending);
        assert_eq!(bed.take().id(), enqueued.id);
    }

    fn everything_that_was_said_arrives_at_the_worker(bed) {
        let new = bed.item().kind("pdf").op("delete").key("k").group("g").priority(9).draft(|new| {
            new.body.collection = Some("c".into());
            new.body.branch = Some("b".into());
            new.body.source_type = Some("mail".into());
            new.body.source_info = Some("inbox 7".into());
            new.body.reference = Some("order-7".into());
            new.body.metadata = Some(r#"{"a":[1,2.50]}"#.into());
            new.body.content_type = Some("text/plain".into());
        });
        let new = new.payload(b"hello");
        bed.add(new.clone());
        let work = bed.take().work;
        assert_eq!(work.body, new.body);
        assert_eq!((&*work.stage, work.attempt, work.priority), ("work", 1, 9));
        assert_eq!((work.parent, work.input), (None, None));
    }

    fn several_are_answered_in_their_order(bed) {
        let ids = bed.add_some(5);
        assert!(ids.is_sorted(), "{ids:?}");
        let granted = bed.claim(bed.asks(10)).expect("work");
        assert_eq!(granted.items.iter().map(|work| work.id).collect::<Vec<_>>(), ids);
    }

    fn one_that_is_refused_undoes_nothing_of_the_others(bed) {
        let bad = bed.item().priority(11);
        let mut each = bed.try_add(vec![bed.item(), bad, bed.item()]);
        let refused = each.remove(1).expect_err("a priority of eleven");
        assert_eq!(&*refused.code, "invalid");
        assert!(refused.message.contains("priority"), "{refused}");
        assert!(each.iter().all(Result::is_ok));
        assert_eq!(bed.counted(Status::Pending), 2);
    }

    fn a_thousand_go_at_once_and_no_more(bed) {
        let ids = bed.add_some(COMMAND_ITEMS_MAX);
        assert_eq!(ids.len(), COMMAND_ITEMS_MAX);
        assert_eq!(bed.counted(Status::Pending), COMMAND_ITEMS_MAX as u64);
        let more = vec![bed.item(); COMMAND_ITEMS_MAX + 1];
        assert_eq!(code(bed.wait(bed.port.enqueue(more, None))), "invalid");
        assert_eq!(bed.counted(Status::Pending), COMMAND_ITEMS_MAX as u64);
    }

    fn a_key_that_waits_is_kept(bed) {
        let first = bed.add(bed.item().key("k").payload(b"1"));
        let again = bed.enqueued(bed.item().key("k").payload(b"2"));
        assert_eq!((again.id, again.outcome), (first, EnqueueOutcome::Duplicate));
        assert_eq!(bed.take().work.body.payload.inline(), Some(&b"1"[..]));
    }

    fn a_key_that_waits_is_replaced_if_that_is_asked_for(bed) {
        let first = bed.add(bed.item().key("k").payload(b"1"));
        let again = bed.enqueued(bed.item().key("k").payload(b"2").op("delete").replacing());
        assert_eq!((again.id, again.outcome), (first, EnqueueOutcome::Replaced));
        let work = bed.take().work;
        assert_eq!((work.body.payload.inline(), &*work.body.op), (Some(&b"2"[..]), "delete"));
    }

    fn a_key_that_is_worked_on_gets_a_successor(bed) {
        let first = bed.add(bed.item().key("k"));
        let held = bed.take();
        let next = bed.enqueued(bed.item().key("k"));
        assert_eq!(next.outcome, EnqueueOutcome::Successor);
        assert_eq!(bed.seen(first).successor, Some(next.id));
        bed.nothing_waits();
        bed.complete(&held);
        assert_eq!(bed.take_soon().id(), next.id);
    }

    fn a_finished_item_does_not_block_its_key(bed) {
        bed.add(bed.item().key("k"));
        bed.complete(&bed.take());
        assert_eq!(bed.enqueued(bed.item().key("k")).outcome, EnqueueOutcome::Created);
    }

    fn a_finished_item_blocks_its_key_where_that_is_set(bed) {
        bed.configure(Settings { unique: Unique::Retained, ..Settings::default() });
        let first = bed.add(bed.item().key("k"));
        bed.complete(&bed.take());
        let again = bed.enqueued(bed.item().key("k"));
        assert_eq!((again.id, again.outcome), (first, EnqueueOutcome::Duplicate));
    }

    fn a_key_belongs_to_its_tenant_and_its_queue(bed) {
        let ours = bed.item().key("k");
        let tenant = bed.item().key("k").tenant(&bed.other("tenant"));
        let queue = bed.item().key("k").queue(&bed.other("queue"));
        let each = bed.try_add(vec![ours, tenant, queue]);
        let created = |one: &Result<windrow_core::command::Enqueued, _>| {
            one.as_ref().is_ok_and(|one| one.outcome == EnqueueOutcome::Created)
        };
        assert!(each.iter().all(created), "{each:?}");
    }

    fn one_request_may_name_several_queues(bed) {
        let other = bed.other("b");
        let each = bed.try_add(vec![bed.item(), bed.item().queue(&other)]);
        assert!(each.iter().all(Result::is_ok));
        let claim = windrow_core::command::Claim::new("w", &*other, 10);
        let granted = bed.claim(claim).expect("work");
        assert_eq!((&*granted.items[0].body.queue, granted.items.len()), (&*other, 1));
        assert_eq!(&*bed.take().work.body.queue, &*bed.name);
    }

    fn a_queue_must_have_a_name_that_could_exist(bed) {
        let long = "x".repeat(129);
        for bad in ["", &long, "nul\0"] {
            let refused = only(bed.try_add(vec![bed.item().queue(bad)])).expect_err(bad);
            assert_eq!(&*refused.code, "invalid", "{bad:?}");
        }
    }

    fn a_delayed_item_is_not_handed_out_before_its_time(bed) {
        let at = bed.now().plus(3_600_000);
        let id = bed.add(bed.item().at(at));
        bed.nothing_waits();
        assert_eq!(bed.seen(id).not_before, Some(at));
    }

    fn a_full_queue_says_when_to_come_again(bed) {
        bed.configure(Settings { live_max: Some(2), ..Settings::default() });
        bed.add_some(2);
        let refused = only(bed.try_add(vec![bed.item()])).expect_err("it is full");
        assert_eq!(&*refused.code, "queue_full");
        assert!(refused.retry_after_ms.is_some_and(|ms| ms > 0), "{refused:?}");
        bed.settle(&bed.take(), Outcome::complete());
        bed.add(bed.item());
    }
}
