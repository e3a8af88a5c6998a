//! Resources: what one worker reports of an upstream holds for all, costs nobody an attempt, and
//! passes gently; a rate lets so much through in so much time.

use windrow_core::command::{Claim, Outcome};
use windrow_core::ports::Inspected;
use windrow_core::resource::{Breaker, Limits, Rate};
use windrow_core::trail::{Class, Ending};
use windrow_core::{Answer, Command, Refusal, Timestamp};

use super::*;

fn needing<S: Store>(bed: &Bed<S>, resource: &str) {
    bed.configure(|settings| {
        settings.defaults.resource = Some(resource.into());
        settings.defaults.max_attempts = 1;
    });
}

fn limit<S: Store>(bed: &Bed<S>, resource: &str, limits: Limits) {
    let limit = Command::Limit { resource: resource.into(), limits: Some(limits) };
    assert_eq!(bed.ask(limit), Answer::Done);
}

fn busy(delay_ms: Option<u64>) -> Outcome {
    Outcome::Retry { class: Class::RateLimit, message: "too many requests".into(), delay_ms }
}

fn down() -> Outcome {
    Outcome::Retry { class: Class::Infrastructure, message: "no answer".into(), delay_ms: Some(0) }
}

cases! {
    fn one_workers_429_closes_the_resource_for_all(bed) {
        needing(bed, "llm");
        bed.add_many(20);
        let free = bed.add(item().queue("free"));
        let held = bed.take();
        assert_eq!(bed.settle(&held, busy(Some(5_000))).ending, Ending::Released);
        assert_eq!(bed.take_from("free").id, free);
        bed.nothing_waits();
        bed.advance(4_999);
        bed.nothing_waits();
        bed.advance(1);
        // One item is let through, and no other until it is heard of.
        let probe = bed.claim(10);
        assert_eq!(probe.len(), 1);
        bed.nothing_waits();
        bed.complete(&probe[0]);
        // Then two, then four, and so on.
        for gently in [2, 4, 8] {
            let some = bed.claim(20);
            assert_eq!(some.len(), gently);
            bed.nothing_waits();
            bed.complete(&some[0]);
        }
        let attempts = |seen: &Inspected| u32::from(seen.item.attempts);
        assert!(bed.everything().iter().all(|seen| attempts(seen) <= 1), "nobody paid twice");
    }

    fn an_outage_closes_it_after_a_few_failures_and_costs_no_attempt(bed) {
        needing(bed, "llm");
        limit(bed, "llm", Limits { failures: 3, ..Limits::default() });
        let ids = bed.add_many(4);
        for _ in 0..3 {
            assert_eq!(bed.settle(&bed.take(), down()).ending, Ending::Released);
        }
        bed.nothing_waits();
        for id in ids {
            assert_eq!(bed.see(id).item.attempts, 0);
        }
        bed.advance(10_000);
        bed.settle(&bed.take(), down());
        bed.advance(19_999);
        bed.nothing_waits();
        bed.advance(1);
        bed.complete(&bed.take());
        assert_eq!(bed.claim(10).len(), 2, "it opens gently");
    }

    fn a_report_that_is_repeated_counts_once(bed) {
        needing(bed, "llm");
        limit(bed, "llm", Limits { failures: 2, ..Limits::default() });
        bed.add_many(2);
        let held = bed.take();
        bed.settle(&held, down());
        bed.settle(&held, down());
        bed.take();
    }

    fn a_worker_without_its_lease_reports_nothing(bed) {
        needing(bed, "llm");
        bed.add_many(2);
        let held = bed.take();
        bed.advance(400_000);
        assert_eq!(refused(bed.try_settle(&held, busy(None))), "lease_lost");
        bed.take();
    }

    fn a_probe_whose_worker_died_is_followed_by_another(bed) {
        needing(bed, "llm");
        bed.add_many(3);
        bed.settle(&bed.take(), busy(Some(1_000)));
        bed.advance(1_000);
        bed.take();
        bed.nothing_waits();
        bed.advance(10_000);
        bed.take();
        bed.nothing_waits();
    }

    fn an_operator_opens_what_rests(bed) {
        needing(bed, "llm");
        bed.add_many(9);
        bed.settle(&bed.take(), busy(Some(60_000)));
        bed.nothing_waits();
        bed.close("llm", Timestamp::ZERO);
        assert_eq!(bed.claim(9).len(), 8, "all but the one that waits for its retry");
    }

    fn a_rate_lets_so_much_through(bed) {
        needing(bed, "llm");
        let rate = Some(Rate { count: 2, per_ms: 1_000, burst: 3 });
        limit(bed, "llm", Limits { rate, ..Limits::default() });
        bed.add_many(10);
        assert_eq!(bed.claim(10).len(), 3);
        bed.nothing_waits();
        bed.advance(499);
        bed.nothing_waits();
        bed.advance(1);
        assert_eq!(bed.claim(10).len(), 1);
        bed.advance(1_000);
        assert_eq!(bed.claim(1).len(), 1);
        assert_eq!(bed.claim(9).len(), 1);
        bed.close("llm", Timestamp::ZERO);
        bed.nothing_waits();
        assert_eq!(
            bed.ask(Command::Limit { resource: "llm".into(), limits: None }),
            Answer::Done
        );
        assert_eq!(bed.claim(10).len(), 4, "without limits there are none");
    }

    fn two_queues_share_a_bucket(bed) {
        for queue in ["a", "b"] {
            bed.configure_queue(queue, |settings| settings.defaults.resource = Some("llm".into()));
            bed.add(item().queue(queue));
            bed.add(item().queue(queue));
        }
        let rate = Some(Rate { count: 1, per_ms: 1_000, burst: 3 });
        limit(bed, "llm", Limits { rate, ..Limits::default() });
        bed.take_from("a");
        bed.take_from("b");
        bed.take_from("a");
        assert!(bed.try_claim(Claim::new("w", "b", 1)).is_none());
        bed.advance(1_000);
        bed.take_from("b");
    }

    /// A store that looked on for more in the open queue left out what the bucket, by then empty,
    /// held back, and lost what it had let through.
    fn what_a_bucket_lets_through_is_handed_out_also_beside_an_empty_queue(bed) {
        needing(bed, "llm");
        bed.add(item().queue("free"));
        bed.take_from("free");
        let rate = Some(Rate { count: 1, per_ms: 1_000, burst: 2 });
        limit(bed, "llm", Limits { rate, ..Limits::default() });
        let ids = bed.add_many(9);
        let claim = || {
            let any = Claim { queues: Vec::new(), ..Claim::new("w", "", 4) };
            let items = bed.try_claim(any).map(|grant| grant.items).unwrap_or_default();
            items.iter().map(|work| work.item.id).collect::<Vec<_>>()
        };
        assert_eq!(claim(), ids[..2]);
        assert_eq!(claim(), []);
        let free = bed.add(item().queue("free"));
        bed.advance(1_000);
        let mut both = claim();
        both.sort();
        assert_eq!(both, [ids[2], free]);
    }

    fn what_a_batch_opens_is_claimed_in_the_same_batch(bed) {
        needing(bed, "llm");
        bed.add(item().queue("free"));
        bed.take_from("free");
        bed.add_many(3);
        bed.close("llm", bed.later(60_000));
        let open = Command::Gate { resource: "llm".into(), closed_until: Timestamp::ZERO };
        let any = Claim { queues: Vec::new(), ..Claim::new("w", "", 4) };
        let answers = bed.ask_all(vec![open.into(), Command::Claim(any).into()]);
        let Answer::Claimed(Some(grant)) = &answers[1] else { panic!("{answers:?}") };
        assert_eq!(grant.items.len(), 3);
    }

    fn what_is_known_of_resources_is_shown(bed) {
        let all = || block_on(bed.store.resources()).expect("they are read");
        assert_eq!(all(), []);
        needing(bed, "llm");
        bed.add(item());
        let limits = Limits { failures: 1, ..Limits::default() };
        limit(bed, "llm", limits);
        bed.close("ocr", bed.later(7));
        bed.settle(&bed.take(), down());
        let known = all();
        let [(llm, state), (ocr, closed)] = &known[..] else { panic!("{known:?}") };
        assert_eq!((&**llm, state.limits), ("llm", limits));
        assert_eq!(state.breaker, Breaker::Resting { times: 1 });
        assert_eq!(state.closed_until, bed.later(10_000));
        assert_eq!((&**ocr, closed.closed_until), ("ocr", bed.later(7)));
    }

    fn limits_that_cannot_be_meant_are_refused(bed) {
        let rate = |count, per_ms, burst| Some(Rate { count, per_ms, burst });
        let plain = Limits::default();
        for limits in [
            Limits { rate: rate(0, 1, 1), ..plain },
            Limits { rate: rate(1, 0, 1), ..plain },
            Limits { rate: rate(1, 1, 0), ..plain },
            Limits { rest_ms: 0, ..plain },
            Limits { rest_max_ms: 9, ..plain },
            Limits { window_ms: u64::MAX, ..plain },
        ] {
            let limit = Command::Limit { resource: "r".into(), limits: Some(limits) };
            let answer = bed.ask(limit);
            assert!(matches!(answer, Answer::Refused(Refusal::Invalid { .. })), "{limits:?}");
        }
    }
}
