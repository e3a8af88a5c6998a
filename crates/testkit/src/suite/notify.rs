//! Notify: an item that ends leaves a delivery, in the same commit, however it ends.

use windrow_core::command::{Claim, Outcome};
use windrow_core::item::End;
use windrow_core::rules::notify::{DELIVERIES, DELIVERY, EVERY_QUEUE};
use windrow_core::settings::{Notify, OnExpiry};
use windrow_core::tally::OnGaps;
use windrow_core::trail::Class;
use windrow_core::{Answer, Command, ItemId};

use super::*;

const ENDINGS: [End; 4] = [End::Completed, End::Failed, End::Cancelled, End::Skipped];

fn wants<S: Store>(bed: &Bed<S>, queue: &str, webhook: &str, tenants: &[&str], endings: &[End]) {
    let tenants = tenants.iter().map(|tenant| (*tenant).into()).collect();
    let wanted = Notify { webhook: webhook.into(), tenants, endings: endings.to_vec() };
    ask(bed, queue, webhook, Some(wanted));
}

fn ask<S: Store>(bed: &Bed<S>, queue: &str, webhook: &str, wanted: Option<Notify>) {
    let command = Command::Notify { queue: queue.into(), webhook: webhook.into(), wanted };
    assert_eq!(bed.ask(command), Answer::Done);
}

/// What waits to be delivered: to whom, what became of an item, and which.
fn delivered<S: Store>(bed: &Bed<S>) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    while let Some(grant) = bed.try_claim(Claim::new("courier", DELIVERIES, 1)) {
        for work in &grant.items {
            let body = &work.body;
            assert_eq!((&*body.queue, &*body.kind), (DELIVERIES, DELIVERY));
            let webhook = body.group.as_deref().expect("a webhook");
            let item = body.reference.as_deref().expect("an item");
            all.push((webhook.into(), body.op.to_string(), item.into()));
            let done = bed.try_settle_as(grant.lease, work.item.id, Outcome::complete());
            done.expect("it is delivered");
        }
    }
    all.sort();
    all
}

fn expect(all: &[(&str, &str, ItemId)]) -> Vec<(String, String, String)> {
    let one = |(webhook, op, id): &(&str, &str, ItemId)| {
        ((*webhook).into(), (*op).into(), id.to_string())
    };
    let mut all: Vec<_> = all.iter().map(one).collect();
    all.sort();
    all
}

cases! {
    fn whoever_wants_to_know_is_told_however_an_item_ends(bed) {
        bed.configure(|settings| {
            settings.defaults.on_expiry = OnExpiry::Fail;
            settings.defaults.lease_ms = 10;
        });
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        bed.add(item());
        let completed = bed.take();
        bed.complete(&completed);
        bed.add(item());
        let failed = bed.take();
        bed.settle(&failed, Outcome::Fail { class: Class::Other, message: "no".into() });
        bed.add(item());
        let skipped = bed.take();
        bed.settle(&skipped, Outcome::Skip { reason: "nothing to do".into() });
        let waiting = bed.add(item());
        bed.cancel(waiting);
        let leased = bed.add(item());
        bed.take();
        bed.cancel(leased);
        bed.add(item());
        let expired = bed.take();
        assert_eq!(bed.advance(20).items, 1);
        assert_eq!(delivered(bed), expect(&[
            ("hook", "completed", completed.id),
            ("hook", "failed", failed.id),
            ("hook", "skipped", skipped.id),
            ("hook", "cancelled", waiting),
            ("hook", "cancelled", leased),
            ("hook", "failed", expired.id),
        ]));
    }

    fn an_item_that_goes_on_leaves_nothing(bed) {
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        bed.add(routed(&["one", "two"]));
        let held = bed.take();
        bed.complete(&held);
        let held = bed.take();
        let (class, message) = (Class::Other, "later".into());
        let again = Outcome::Retry { class, message, delay_ms: Some(5) };
        bed.settle(&held, again);
        assert_eq!(delivered(bed), expect(&[]));
        bed.advance(5);
        let held = bed.take();
        bed.complete(&held);
        assert_eq!(delivered(bed), expect(&[("hook", "completed", held.id)]));
    }

    fn a_tree_is_told_once_by_its_root(bed) {
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        let (joined, _) = bed.family(item(), 3);
        bed.drain();
        assert_eq!(delivered(bed), expect(&[("hook", "completed", joined)]));

        let stopped = bed.add(item());
        let held = bed.take();
        let children = children(0..2);
        let split = Outcome::Split { children, more: false, on_gaps: OnGaps::Stop, output: None };
        bed.settle(&held, split);
        let child = bed.take();
        bed.settle(&child, Outcome::Fail { class: Class::Other, message: "no".into() });
        bed.drain();
        assert_eq!(delivered(bed), expect(&[("hook", "failed", stopped)]));

        let (cancelled, _) = bed.family(item(), 3);
        assert!(bed.cancel(cancelled).ongoing);
        assert_eq!(delivered(bed), expect(&[]), "its children have not ended");
        bed.sweep();
        assert_eq!(delivered(bed), expect(&[("hook", "cancelled", cancelled)]));
    }

    fn only_what_is_wanted_is_told(bed) {
        wants(bed, QUEUE, "failures", &[], &[End::Failed]);
        wants(bed, QUEUE, "of-a", &["a"], &[End::Completed, End::Cancelled]);
        wants(bed, EVERY_QUEUE, "all", &[], &[End::Completed]);
        wants(bed, EVERY_QUEUE, "of-a", &[], &ENDINGS);
        let of_a = bed.add(item().tenant("a"));
        let of_b = bed.add(item().tenant("b"));
        bed.drain();
        let other = bed.add(item().queue("other"));
        bed.complete(&bed.take_from("other"));
        bed.cancel(bed.add(item().tenant("b")));
        // What a queue says of a webhook counts there, whatever is said for every queue.
        assert_eq!(delivered(bed), expect(&[
            ("of-a", "completed", of_a),
            ("all", "completed", of_a),
            ("all", "completed", of_b),
            ("all", "completed", other),
            ("of-a", "completed", other),
        ]));
    }

    fn a_delivery_leaves_none_itself(bed) {
        wants(bed, EVERY_QUEUE, "hook", &[], &ENDINGS);
        wants(bed, DELIVERIES, "hook", &[], &ENDINGS);
        bed.add(item());
        bed.drain();
        assert_eq!(delivered(bed).len(), 1);
        assert_eq!(delivered(bed), expect(&[]));
        bed.nothing_waits();
    }

    fn whoever_names_no_queue_gets_no_deliveries(bed) {
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        bed.add(item());
        let held = bed.take();
        bed.complete(&held);
        let all = Claim { queues: Vec::new(), ..Claim::new("w", QUEUE, 9) };
        assert_eq!(bed.try_claim(all), None);
        assert_eq!(delivered(bed), expect(&[("hook", "completed", held.id)]));
    }

    fn settings_of_the_queue_leave_its_webhooks_alone(bed) {
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        bed.configure(|settings| settings.forget_completed = true);
        bed.add(item());
        let held = bed.take();
        bed.complete(&held);
        assert_eq!(delivered(bed), expect(&[("hook", "completed", held.id)]));
        ask(bed, QUEUE, "hook", None);
        bed.add(item());
        bed.drain();
        assert_eq!(delivered(bed), expect(&[]));
    }

    fn an_item_that_runs_again_is_told_again(bed) {
        wants(bed, QUEUE, "hook", &[], &ENDINGS);
        let id = bed.add(item());
        bed.cancel(id);
        bed.retry(id);
        bed.drain();
        assert_eq!(delivered(bed), expect(&[
            ("hook", "cancelled", id),
            ("hook", "completed", id),
        ]));
    }
}
