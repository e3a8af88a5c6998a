//! Enqueue: created, duplicate, replaced, and what is refused.

use windrow_core::command::{Command, EnqueueOutcome, NewItem, Outcome};
use windrow_core::item::Payload;
use windrow_core::limits::{
    COMMAND_ITEMS_MAX, DELAY_MAX_MS, KEY_MAX, METADATA_MAX, NAME_MAX, PAYLOAD_INLINE_MAX,
    STAGES_MAX, TEXT_MAX,
};
use windrow_core::route::{Route, Stage};
use windrow_core::settings::Unique;
use windrow_core::{Answer, Refusal, Status};

use super::*;

cases! {
    fn a_new_item_waits_with_what_the_producer_said(bed) {
        let done = bed.enqueue(item().key("k").payload(b"hello").op("update").priority(7));
        assert_eq!(done.outcome, EnqueueOutcome::Created);
        let seen = bed.see(done.id);
        assert_eq!(seen.item.status(), Status::Pending);
        assert_eq!((seen.item.priority, seen.item.stage, seen.item.attempts), (7, 0, 0));
        assert_eq!(seen.body.payload, Payload::Inline(b"hello".to_vec()));
        assert_eq!((&*seen.body.op, seen.body.key.as_deref()), ("update", Some("k")));
        assert_eq!(done.id.created_at(), bed.now());
    }

    fn ids_rise_with_creation(bed) {
        let ids: Vec<_> = (0..20).map(|_| bed.add(item())).collect();
        assert!(ids.is_sorted());
    }

    fn a_duplicate_key_returns_the_first_item(bed) {
        let first = bed.add(item().key("k").payload(b"old"));
        let second = bed.enqueue(item().key("k").payload(b"new"));
        assert_eq!((second.id, second.outcome), (first, EnqueueOutcome::Duplicate));
        assert_eq!(bed.see(first).body.payload, Payload::Inline(b"old".to_vec()));
        assert_eq!(bed.everything().len(), 1);
    }

    fn a_key_belongs_to_one_tenant_and_queue(bed) {
        bed.add(item().key("k"));
        for other in [item().key("k").tenant("u"), item().key("k").queue("r"), item().key("K")] {
            assert_eq!(bed.enqueue(other).outcome, EnqueueOutcome::Created);
        }
    }

    fn items_without_a_key_are_never_duplicates(bed) {
        bed.add(item());
        assert_eq!(bed.enqueue(item()).outcome, EnqueueOutcome::Created);
    }

    fn a_replaced_item_takes_the_newer_payload_and_stays_what_it_is(bed) {
        let old = item().key("k").payload(b"old").kind("file").group("g").route(Route::of(&["a"]));
        let first = bed.add(old);
        let new = item().key("k").payload(b"new").kind("url").group("h").priority(9).replacing();
        let replaced = bed.enqueue(new);
        assert_eq!((replaced.id, replaced.outcome), (first, EnqueueOutcome::Replaced));
        let seen = bed.see(first);
        assert_eq!(seen.body.payload, Payload::Inline(b"new".to_vec()));
        assert_eq!((&*seen.body.kind, seen.body.group.as_deref()), ("file", Some("g")));
        assert_eq!((&*seen.body.route.stage(0).name, seen.item.priority), ("a", 9));
        assert_eq!(bed.take_in("a").work.body.payload, Payload::Inline(b"new".to_vec()));
    }

    fn operations_on_one_identity_come_together(bed) {
        let table = [
            ("ingest", "update", "ingest"),
            ("ingest", "delete", "delete"),
            ("update", "delete", "delete"),
            ("update", "update", "update"),
            ("delete", "ingest", "ingest"),
        ];
        for (first, second, both) in table {
            let key = format!("{first} {second}");
            let id = bed.add(item().key(&key).op(first).payload(b"1"));
            bed.add(item().key(&key).op(second).payload(b"2").replacing());
            let body = bed.see(id).body;
            assert_eq!((&*body.op, body.payload), (both, Payload::Inline(b"2".to_vec())), "{key}");
        }
    }

    fn replacing_an_item_that_waits_for_its_retry_begins_again(bed) {
        let id = bed.add(item().key("k"));
        bed.settle(&bed.take(), retry());
        assert_eq!(bed.item(id).attempts, 1);
        bed.add(item().key("k").payload(b"new").replacing());
        let held = bed.take();
        assert_eq!((held.id, held.work.item.attempts), (id, 1));
        assert_eq!(bed.trail(id).attempts, []);
    }

    fn replacing_an_item_in_a_later_stage_begins_at_the_first(bed) {
        let id = bed.add(routed(&["a", "b"]).key("k"));
        bed.settle(&bed.take_in("a"), complete_with(b"out"));
        bed.add(routed(&["a", "b"]).key("k").payload(b"new").replacing());
        assert_eq!(bed.item(id).stage, 0);
        assert_eq!(bed.take_in("a").id, id);
    }

    fn replacing_an_item_that_had_children_makes_new_ones(bed) {
        let id = bed.add(routed(&["a", "b"]).key("k"));
        let old = bed.split(&bed.take_in("a"), vec![routed_child(0, &["c"])]);
        bed.complete(&bed.take_in("c"));
        assert_eq!(bed.item(id).stage, 1);
        bed.add(routed(&["a", "b"]).key("k").payload(b"new").replacing());
        let new = bed.split(&bed.take_in("a"), vec![routed_child(0, &["c"])]);
        assert_ne!(old, new);
        assert_eq!(bed.tally(id).children.total(), 1);
        bed.complete(&bed.take_in("c"));
        bed.complete(&bed.take_in("b"));
        bed.is(id, Status::Completed);
    }

    fn a_finished_item_does_not_block_its_key(bed) {
        let first = bed.add(item().key("k"));
        bed.complete(&bed.take());
        let second = bed.enqueue(item().key("k"));
        assert_eq!(second.outcome, EnqueueOutcome::Created);
        assert_ne!(second.id, first);
    }

    fn a_finished_item_blocks_its_key_where_keys_are_retained(bed) {
        bed.configure(|settings| settings.unique = Unique::Retained);
        let first = bed.add(item().key("k"));
        bed.settle(&bed.take(), fail());
        let again = bed.enqueue(item().key("k"));
        assert_eq!((again.id, again.outcome), (first, EnqueueOutcome::Duplicate));
        bed.try_delete(first).expect("it is deleted");
        assert_eq!(bed.enqueue(item().key("k")).outcome, EnqueueOutcome::Created);
    }

    fn a_delayed_item_is_not_handed_out_before_its_time(bed) {
        let id = bed.add(item().at(bed.later(5_000)));
        bed.nothing_waits();
        bed.advance(4_999);
        bed.nothing_waits();
        bed.advance(1);
        assert_eq!(bed.take().id, id);
    }

    fn the_next_due_time_is_when_an_item_becomes_visible(bed) {
        assert_eq!(bed.next_due(), None);
        bed.add(item().at(bed.later(5_000)));
        bed.add(item().at(bed.later(3_000)));
        assert_eq!(bed.next_due(), Some(bed.later(3_000)));
    }

    fn a_batch_answers_for_each_item_and_a_refusal_undoes_nothing(bed) {
        let bad = item().priority(11);
        let answer = bed.ask(Command::Enqueue(vec![item(), bad, item().key("k")]));
        let Answer::Enqueued(each) = answer else { panic!("{answer:?}") };
        let codes: Vec<_> = each.iter().map(|one| one.as_ref().map_err(Refusal::code)).collect();
        assert!(matches!(codes[..], [Ok(_), Err("invalid"), Ok(_)]), "{codes:?}");
        assert_eq!(bed.everything().len(), 2);
    }

    fn a_full_queue_refuses_and_says_when_to_come_back(bed) {
        bed.configure(|settings| settings.live_max = Some(2));
        bed.add_many(2);
        let refusal = bed.try_enqueue(item()).expect_err("it is full");
        assert_eq!(refusal.code(), "queue_full");
        assert!(refusal.retry_after_ms().is_some());
        bed.complete(&bed.take());
        bed.add(item());
    }

    fn settles_and_splits_use_a_reserve_in_a_full_queue(bed) {
        bed.configure(|settings| settings.live_max = Some(1));
        let id = bed.add(item());
        let held = bed.take();
        bed.split(&held, children(0..3));
        bed.settle(&bed.take(), complete_and(vec![item()]));
        assert_eq!(refused(bed.try_enqueue(item())), "queue_full");
        bed.drain();
        bed.is(id, Status::Completed);
    }

    fn every_name_and_text_has_a_limit(bed) {
        let long = |len: usize| "x".repeat(len);
        let name = long(NAME_MAX + 1);
        let text = Some(long(TEXT_MAX + 1));
        let check = |field: &str, new: NewItem| match bed.try_enqueue(new) {
            Err(Refusal::Invalid { field: said, .. }) => assert_eq!(said, field),
            other => panic!("{field}: {other:?}"),
        };
        check("tenant", item().tenant(&name));
        check("queue", item().queue(&name));
        check("kind", item().kind(&name));
        check("op", item().op(&name));
        check("group", item().group(&name));
        check("collection", item().draft(|new| new.body.collection = Some(name.as_str().into())));
        check("branch", item().draft(|new| new.body.branch = Some(name.as_str().into())));
        check("source_type", item().draft(|new| new.body.source_type = Some(name.as_str().into())));
        check(
            "content_type",
            item().draft(|new| new.body.content_type = Some(name.as_str().into())),
        );
        check("source_info", item().draft(|new| new.body.source_info = text.clone()));
        check("ref", item().draft(|new| new.body.reference = text.clone()));
        check("metadata", item().draft(|new| new.body.metadata = Some(long(METADATA_MAX + 1))));
        check("key", item().key(&long(KEY_MAX + 1)));
        check("key", item().key(""));
        check("tenant", item().tenant(""));
        check("payload", item().payload(&vec![0; PAYLOAD_INLINE_MAX + 1]));
        check("priority", item().priority(11));
        check("not_before", item().at(bed.later(DELAY_MAX_MS + 1)));
        assert_eq!(bed.everything(), []);
    }

    fn what_just_fits_is_taken(bed) {
        let long = |len: usize| "x".repeat(len);
        let new = item().tenant(&long(NAME_MAX)).key(&long(KEY_MAX)).priority(10);
        let new = new.payload(&vec![0; PAYLOAD_INLINE_MAX]).at(bed.later(DELAY_MAX_MS));
        let id = bed.add(new.draft(|new| new.body.metadata = Some(long(METADATA_MAX))));
        assert_eq!(bed.see(id).body.payload.inline_len(), PAYLOAD_INLINE_MAX);
    }

    fn a_route_has_one_to_sixteen_stages_with_names_of_their_own(bed) {
        let names: Vec<String> = (0..=STAGES_MAX).map(|n| format!("s{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let announcing = |below: usize| {
            let below: Vec<&str> = vec!["x"; below];
            std::sync::Arc::new(Route { stages: vec![Stage::splitting("a", &below)] })
        };
        let bad = [
            Route::of(&[]),
            Route::of(&names),
            Route::of(&["a", "a"]),
            Route::of(&[""]),
            Route::of(&["x".repeat(NAME_MAX + 1).as_str()]),
            announcing(17),
        ];
        for route in bad {
            assert_eq!(refused(bed.try_enqueue(item().route(route))), "invalid");
        }
        bed.add(routed(&names[..STAGES_MAX]));
    }

    fn one_command_names_at_most_a_thousand_items(bed) {
        let many = Command::Enqueue(vec![item(); COMMAND_ITEMS_MAX + 1]);
        assert!(matches!(bed.ask(many), Answer::Refused(Refusal::Invalid { .. })));
        assert_eq!(bed.everything(), []);
    }

    fn one_command_carries_at_most_sixteen_mebibytes(bed) {
        let heavy = item().payload(&vec![0; PAYLOAD_INLINE_MAX]);
        let heavy = heavy.draft(|new| new.body.metadata = Some("x".repeat(METADATA_MAX)));
        let many = Command::Enqueue(vec![heavy; COMMAND_ITEMS_MAX]);
        assert!(matches!(bed.ask(many), Answer::Refused(Refusal::Invalid { .. })));
        assert_eq!(bed.everything(), []);
    }

    fn a_settled_item_may_enqueue_others_in_the_same_commit(bed) {
        bed.add(item());
        let held = bed.take();
        let spawn = vec![item().key("s").payload(b"1"), item().queue("r")];
        bed.settle(&held, complete_and(spawn));
        assert_eq!(bed.take().work.body.key.as_deref(), Some("s"));
        bed.take_from("r");
    }

    fn an_unsound_spawn_refuses_the_settle_without_effect(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let outcome = complete_and(vec![item(), item().priority(11)]);
        assert_eq!(refused(bed.try_settle(&held, outcome)), "invalid");
        assert_eq!(
            refused(bed.try_settle(&held, complete_and(vec![item().with_blob(blob(1, 9))]))),
            "blob_missing"
        );
        assert_eq!(bed.item(id).lease(), Some(held.lease));
        assert_eq!(bed.everything().len(), 1);
        bed.settle(&held, Outcome::complete());
    }
}
