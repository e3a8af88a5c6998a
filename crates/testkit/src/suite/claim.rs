//! Claim: a worker takes the next items and a lease over them.

use windrow_core::command::{Claim, Command, DOCUMENTS, Grant};
use windrow_core::ports::Work;
use windrow_core::limits::{COMMAND_ITEMS_MAX, LEASE_MAX_MS, NAME_MAX};
use windrow_core::settings::{KindSettings, Policy, StageSettings};
use windrow_core::{Answer, LeaseId, Refusal, Status};

use super::*;

cases! {
    fn a_claim_hands_out_the_item_with_its_body_and_stage(bed) {
        let id = bed.add(routed(&["ocr", "chunk"]).key("k").payload(b"scan"));
        let held = bed.take();
        assert_eq!((held.id, &*held.work.stage, held.work.input.clone()), (id, "ocr", None));
        assert_eq!(held.work.body, bed.see(id).body);
        bed.is(id, Status::Processing);
    }

    fn the_attempt_is_counted_before_the_hand_out(bed) {
        let id = bed.add(item());
        assert_eq!(bed.take().work.item.attempts, 1);
        assert_eq!(bed.item(id).attempts, 1);
    }

    fn one_claim_gives_one_lease_over_all_its_items(bed) {
        let ids = bed.add_many(5);
        let held = bed.claim(3);
        assert_eq!(held.iter().map(|h| h.id).collect::<Vec<_>>(), ids[..3]);
        assert!(held.iter().all(|h| h.lease == held[0].lease));
        let rest = bed.claim(10);
        assert_eq!(rest.len(), 2);
        assert_ne!(rest[0].lease, held[0].lease);
    }

    fn what_a_lease_holds_is_told_until_it_is_settled(bed) {
        bed.add_many(4);
        let (held, other) = (bed.claim(3), bed.take());
        let of = |leases: &[LeaseId], limit| {
            let mut told = block_on(bed.store.held_by(leases, limit)).expect("it is read");
            told.iter_mut().for_each(|(_, items)| items.sort());
            told
        };
        let (lease, ids) = (held[0].lease, held.iter().map(|held| held.id).collect::<Vec<_>>());
        assert_eq!(of(&[lease], 10), [(lease, ids.clone())]);
        assert_eq!(of(&[lease], 2)[0].1.len(), 2);
        assert_eq!(of(&[lease, other.lease], 9).len(), 2);
        bed.complete(&held[0]);
        bed.complete(&other);
        assert_eq!(of(&[lease, other.lease], 9), [(lease, ids[1..].to_vec())]);
    }

    fn a_leased_item_is_given_to_nobody_else(bed) {
        bed.add(item());
        bed.take();
        bed.nothing_waits();
    }

    fn whoever_names_no_queue_gets_all_but_documents(bed) {
        bed.add(item().queue(DOCUMENTS));
        let other = bed.add(item().queue("other"));
        let claim = |queues| bed.try_claim(Claim { queues, ..Claim::new("w", QUEUE, 9) });
        let ids = |granted: Option<Grant<Work>>| {
            let items = granted.into_iter().flat_map(|granted| granted.items);
            items.map(|work| work.item.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(claim(Vec::new())), [other]);
        assert_eq!(ids(claim(vec![DOCUMENTS.into()])).len(), 1);
    }

    fn an_empty_queue_gives_nothing(bed) {
        assert_eq!(bed.try_claim(Claim::new("w", QUEUE, 5)), None);
        bed.add(item().queue("other"));
        assert_eq!(bed.try_claim(Claim::new("w", QUEUE, 5)), None);
    }

    fn a_claim_may_name_queues_stages_kinds_and_tenants(bed) {
        let wanted = bed.add(routed(&["a"]).queue("q1").kind("k1").tenant("t1"));
        bed.add(routed(&["a"]).queue("q2").kind("k1").tenant("t1"));
        bed.add(routed(&["b"]).queue("q1").kind("k1").tenant("t1"));
        bed.add(routed(&["a"]).queue("q1").kind("k2").tenant("t1"));
        bed.add(routed(&["a"]).queue("q1").kind("k1").tenant("t2"));
        let claim = Claim {
            stages: vec!["a".into()],
            kinds: vec!["k1".into()],
            tenants: vec!["t1".into()],
            ..Claim::new("w", "q1", 10)
        };
        let granted = bed.try_claim(claim).expect("one fits");
        assert_eq!(granted.items.iter().map(|w| w.item.id).collect::<Vec<_>>(), [wanted]);
        let all = Claim { queues: Vec::new(), ..Claim::new("w", "", 10) };
        assert_eq!(bed.try_claim(all).expect("the rest").items.len(), 4);
    }

    fn a_claim_may_name_several_of_each(bed) {
        for queue in ["q1", "q2", "q3"] {
            bed.add(item().queue(queue));
        }
        let two = Claim { queues: vec!["q1".into(), "q3".into()], ..Claim::new("w", "", 10) };
        assert_eq!(bed.try_claim(two).expect("two").items.len(), 2);
    }

    fn the_next_stage_gets_what_the_stage_before_put_out(bed) {
        bed.add(routed(&["a", "b", "c"]));
        bed.settle(&bed.take_in("a"), complete_with(b"from a"));
        let held = bed.take_in("b");
        assert_eq!(held.work.input.as_deref(), Some(&b"from a"[..]));
        bed.complete(&held);
        assert_eq!(bed.take_in("c").work.input, None);
    }

    fn a_lease_lasts_as_long_as_its_policy_says(bed) {
        bed.configure(|settings| {
            settings.defaults.lease_ms = 1_000;
            let policy = Policy { lease_ms: 2_000, ..Policy::default() };
            settings.stages.push(StageSettings { stage: "slow".into(), policy });
            settings.kinds.push(KindSettings { kind: "big".into(), lease_ms: 3_000 });
        });
        for (new, lease_ms) in [
            (item(), 1_000),
            (routed(&["slow"]), 2_000),
            (item().kind("big"), 3_000),
            (item().kind("page"), 1_000),
            (item().queue("plain"), 300_000),
            (item().queue("plain").kind("page"), 120_000),
        ] {
            let queue = new.body.queue.clone();
            bed.add(new);
            assert_eq!(bed.take_from(&queue).expires_at, bed.later(lease_ms));
        }
    }

    fn a_claim_may_ask_for_a_lease_of_its_own_within_limits(bed) {
        for (asked, given) in [(7_000, 7_000), (0, 1), (u64::MAX, LEASE_MAX_MS)] {
            bed.add(item());
            let claim = Claim { lease_ms: Some(asked), ..Claim::new("w", QUEUE, 1) };
            let granted = bed.try_claim(claim).expect("an item");
            assert_eq!(granted.expires_at, bed.later(given));
        }
    }

    fn a_claim_takes_at_most_a_thousand_items(bed) {
        bed.add(item());
        let claim = |max| bed.ask(Command::Claim(Claim::new("w", QUEUE, max)));
        assert!(matches!(
            claim(COMMAND_ITEMS_MAX + 1),
            Answer::Refused(Refusal::Invalid { field: "items", .. })
        ));
        assert!(matches!(claim(COMMAND_ITEMS_MAX), Answer::Claimed(Some(_))));
    }

    fn a_claim_of_everything_there_is_is_refused(bed) {
        let everything = bed.ask(Command::Claim(Claim::new("w", QUEUE, usize::MAX)));
        assert!(matches!(everything, Answer::Refused(Refusal::Invalid { field: "items", .. })));
    }

    fn a_claim_for_a_tenant_finds_it_once_it_comes(bed) {
        bed.add(item());
        let claim = Claim { tenants: vec!["new".into()], ..Claim::new("w", QUEUE, 1) };
        assert_eq!(bed.try_claim(claim.clone()), None);
        bed.add(item().tenant("new"));
        assert!(bed.try_claim(claim).is_some(), "an item of its tenant waits");
    }

    fn a_worker_has_a_name_of_at_most_128_bytes(bed) {
        bed.add(item());
        let claim = |len| bed.ask(Command::Claim(Claim::new("w".repeat(len), QUEUE, 1)));
        assert!(matches!(
            claim(NAME_MAX + 1),
            Answer::Refused(Refusal::Invalid { field: "worker", .. })
        ));
        assert!(matches!(claim(NAME_MAX), Answer::Claimed(Some(_))));
    }

    fn a_claim_sees_what_the_batch_before_it_enqueued(bed) {
        let batch = vec![
            Command::Enqueue(vec![item(), item()]).into(),
            Command::Claim(Claim::new("w", QUEUE, 1)).into(),
            Command::Claim(Claim::new("w", QUEUE, 5)).into(),
        ];
        let mut ids = Vec::new();
        for answer in bed.ask_all(batch) {
            if let Answer::Claimed(Some(grant)) = answer {
                ids.extend(grant.items.iter().map(|work| work.item.id));
            }
        }
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
    }

    fn settings_hold_for_items_that_were_there_before(bed) {
        bed.add(item());
        bed.configure(|settings| settings.defaults.lease_ms = 7_000);
        assert_eq!(bed.take().expires_at, bed.later(7_000));
    }
}
