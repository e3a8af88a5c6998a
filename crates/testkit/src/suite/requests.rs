//! Request ids: sending a request again is harmless.

use windrow_core::command::{Claim, Command, Outcome};
use windrow_core::limits::REQUEST_KEPT_MS;
use windrow_core::{Answer, Refusal, Status};

use super::*;

cases! {
    fn a_repeated_enqueue_gets_the_first_answer_and_adds_nothing(bed) {
        let command = Command::Enqueue(vec![item(), item()]);
        let first = bed.ask_as(request(1), command.clone());
        assert_eq!(bed.ask_as(request(1), command), first);
        assert_eq!(bed.everything().len(), 2);
    }

    fn the_first_answer_comes_even_when_the_item_is_finished_and_gone(bed) {
        let command = Command::Enqueue(vec![item().key("k")]);
        let first = bed.ask_as(request(1), command.clone());
        let held = bed.take();
        bed.complete(&held);
        bed.try_delete(held.id).expect("it is deleted");
        assert_eq!(bed.ask_as(request(1), command), first);
        assert_eq!(bed.everything(), []);
    }

    fn another_request_under_the_same_id_is_refused(bed) {
        bed.ask_as(request(1), Command::Enqueue(vec![item()]));
        let other = Command::Enqueue(vec![item().payload(b"other")]);
        assert_eq!(bed.ask_as(request(1), other), Answer::Refused(Refusal::RequestReused));
        let other = Command::Claim(Claim::new("w", QUEUE, 1));
        assert_eq!(bed.ask_as(request(1), other), Answer::Refused(Refusal::RequestReused));
        assert_eq!(bed.everything().len(), 1);
    }

    fn a_repeated_claim_gets_the_same_lease_and_items(bed) {
        bed.add_many(3);
        let claim = Command::Claim(Claim::new("w", QUEUE, 2));
        let first = bed.ask_as(request(1), claim.clone());
        assert_eq!(bed.ask_as(request(1), claim.clone()), first);
        assert_eq!(bed.claim(10).len(), 1);
    }

    fn a_repeated_claim_leaves_out_what_its_lease_holds_no_more(bed) {
        bed.add_many(4);
        let claim = Command::Claim(Claim::new("w", QUEUE, 4));
        let Answer::Claimed(Some(first)) = bed.ask_as(request(1), claim.clone()) else {
            panic!("four items wait");
        };
        let [gone, done, back, held] = [0, 1, 2, 3].map(|n| first.items[n].item.id);
        bed.cancel(gone);
        bed.try_delete(gone).expect("it is deleted");
        bed.try_settle_as(first.lease, done, Outcome::complete()).expect("it is settled");
        bed.try_settle_as(first.lease, back, release()).expect("it is settled");
        let Answer::Claimed(Some(again)) = bed.ask_as(request(1), claim) else {
            panic!("it was answered before");
        };
        assert_eq!(again.lease, first.lease);
        assert_eq!(again.items.iter().map(|work| work.item.id).collect::<Vec<_>>(), [held]);
    }

    fn a_repeated_settle_gets_the_first_answer(bed) {
        let id = bed.add(item());
        let held = bed.take();
        let settle = Command::Settle {
            lease: held.lease,
            items: vec![(id, complete_and(vec![item().queue("r")]))],
        };
        let first = bed.ask_as(request(1), settle.clone());
        bed.try_delete(id).expect("it is deleted");
        assert_eq!(bed.ask_as(request(1), settle), first);
        assert_eq!(bed.everything().len(), 1);
    }

    fn a_repeated_operators_command_does_nothing_twice(bed) {
        let id = bed.add(item());
        bed.settle(&bed.take(), fail());
        let mode = windrow_core::command::RetryMode::Clone;
        let retry = Command::Retry { items: vec![id], mode, from_stage: None };
        let first = bed.ask_as(request(1), retry.clone());
        assert_eq!(bed.ask_as(request(1), retry), first);
        assert_eq!(bed.everything().len(), 2);
        let cancel = Command::Cancel { items: vec![bed.everything()[1].item.id] };
        let first = bed.ask_as(request(2), cancel.clone());
        assert_eq!(bed.ask_as(request(2), cancel), first);
    }

    fn an_answer_with_refusals_in_it_is_remembered(bed) {
        let command = Command::Enqueue(vec![item(), item().priority(11)]);
        let first = bed.ask_as(request(1), command.clone());
        assert_eq!(bed.ask_as(request(1), command), first);
        assert_eq!(bed.everything().len(), 1);
    }

    fn a_refused_command_may_be_sent_again(bed) {
        let claim = Command::Claim(Claim::new("w", QUEUE, 2_000));
        assert!(matches!(bed.ask_as(request(1), claim), Answer::Refused(_)));
        let sound = Command::Claim(Claim::new("w", QUEUE, 1));
        assert_eq!(bed.ask_as(request(1), sound), Answer::Claimed(None));
    }

    fn a_request_of_which_nothing_was_done_may_be_mended_and_sent_again(bed) {
        let wrong = Command::Enqueue(vec![item().priority(11)]);
        bed.ask_as(request(1), wrong);
        let mended = Command::Enqueue(vec![item()]);
        let first = bed.ask_as(request(1), mended.clone());
        assert!(matches!(&first, Answer::Enqueued(each) if each[0].is_ok()), "{first:?}");
        assert_eq!(bed.ask_as(request(1), mended), first);
        assert_eq!(bed.everything().len(), 1);
    }

    fn a_repeat_that_asks_for_a_delay_asks_for_a_later_moment(bed) {
        let new = || Command::Enqueue(vec![item().at(bed.later(5_000))]);
        let first = bed.ask_as(request(1), new());
        bed.advance(1_000);
        assert_eq!(bed.ask_as(request(1), new()), first);
        assert_eq!(bed.everything().len(), 1);
    }

    fn an_empty_claim_is_not_remembered(bed) {
        let claim = Command::Claim(Claim::new("w", QUEUE, 1));
        assert_eq!(bed.ask_as(request(1), claim.clone()), Answer::Claimed(None));
        bed.add(item());
        assert!(matches!(bed.ask_as(request(1), claim), Answer::Claimed(Some(_))));
    }

    fn a_request_is_forgotten_after_a_day(bed) {
        let command = Command::Enqueue(vec![item()]);
        bed.ask_as(request(1), command.clone());
        bed.advance(REQUEST_KEPT_MS);
        bed.ask_as(request(1), command.clone());
        assert_eq!(bed.everything().len(), 1);
        bed.advance(1);
        bed.ask_as(request(1), command);
        assert_eq!(bed.everything().len(), 2);
    }

    fn a_repeat_within_one_batch_is_a_repeat_too(bed) {
        let one =
            windrow_core::Request { id: Some(request(1)), command: Command::Enqueue(vec![item()]) };
        let answers = bed.ask_all(vec![one.clone(), one]);
        assert_eq!(answers[0], answers[1]);
        assert_eq!(bed.everything().len(), 1);
    }

    fn without_a_request_id_everything_is_done_again(bed) {
        bed.add(item());
        bed.add(item());
        assert_eq!(bed.everything().len(), 2);
        let held = bed.take();
        bed.settle(&held, Outcome::complete());
        bed.is(held.id, Status::Completed);
    }
}
