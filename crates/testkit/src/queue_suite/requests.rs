//! Request ids: what is repeated is done once and answered alike.

use windrow_core::command::{Outcome, RetryMode};
use windrow_core::{Status, command::Claim};

use super::code;
use crate::suite::{Draft as _, fail};

cases! {
    fn a_repeated_enqueue_gets_the_first_answer_and_adds_nothing(bed) {
        let request = Some(bed.request());
        let items = vec![bed.item(), bed.item().priority(11)];
        let first = bed.get(bed.port.enqueue(items.clone(), request));
        assert_eq!(bed.get(bed.port.enqueue(items, request)), first);
        assert_eq!(bed.counted(Status::Pending), 1);
    }

    fn the_first_answer_comes_even_when_the_item_is_gone(bed) {
        let request = Some(bed.request());
        let first = bed.get(bed.port.enqueue(vec![bed.item()], request));
        let held = bed.take();
        bed.complete(&held);
        bed.get(bed.port.delete(held.id(), None));
        assert_eq!(bed.get(bed.port.enqueue(vec![bed.item()], request)), first);
        bed.nothing_waits();
    }

    fn another_request_under_the_same_id_is_refused(bed) {
        let request = Some(bed.request());
        bed.get(bed.port.enqueue(vec![bed.item()], request));
        let other = bed.port.enqueue(vec![bed.item().key("other")], request);
        assert_eq!(code(bed.wait(other)), "request_reused");
    }

    fn a_repeated_claim_gets_the_same_lease_and_items(bed) {
        bed.add_some(2);
        let request = Some(bed.request());
        let first = bed.get(bed.port.claim(bed.asks(1), 0, request)).expect("work");
        let again = bed.get(bed.port.claim(bed.asks(1), 0, request)).expect("the same work");
        assert_eq!((again.lease, &again.items), (first.lease, &first.items));
        assert_eq!(bed.counted(Status::Pending), 1);
    }

    fn a_claim_that_got_nothing_may_be_repeated_for_something(bed) {
        let request = Some(bed.request());
        assert_eq!(bed.get(bed.port.claim(bed.asks(1), 0, request)), None);
        let id = bed.add(bed.item());
        let granted = bed.get(bed.port.claim(bed.asks(1), 0, request)).expect("work");
        assert_eq!(granted.items[0].id, id);
    }

    fn a_repeated_settle_gets_the_first_answer(bed) {
        bed.add(bed.item());
        let (held, request) = (bed.take(), Some(bed.request()));
        let items = vec![(held.id(), Outcome::complete())];
        let first = bed.get(bed.port.settle(held.lease, items.clone(), request));
        assert_eq!(bed.get(bed.port.settle(held.lease, items.clone(), request)), first);
        // Also without an id, by the lease alone.
        assert_eq!(bed.get(bed.port.settle(held.lease, items, None)), first);
    }

    fn a_repeated_clone_makes_one_clone(bed) {
        let id = bed.ended(fail());
        let request = Some(bed.request());
        let first = bed.get(bed.port.retry(id, RetryMode::Clone, None, request));
        let again = bed.get(bed.port.retry(id, RetryMode::Clone, None, request));
        assert_eq!((again.id, bed.counted(Status::Pending)), (first.id, 1));
    }

    fn a_repeated_cancel_and_delete_get_their_first_answers(bed) {
        let id = bed.add(bed.item());
        let request = Some(bed.request());
        let first = bed.get(bed.port.cancel(id, request));
        assert_eq!(bed.get(bed.port.cancel(id, request)), first);
        let request = Some(bed.request());
        assert_eq!(bed.get(bed.port.delete(id, request)), 1);
        assert_eq!(bed.get(bed.port.delete(id, request)), 1);
        assert_eq!(code(bed.wait(bed.port.delete(id, None))), "not_found");
    }

    fn without_an_id_everything_is_done_again(bed) {
        let claim = Claim { max: 10, ..bed.asks(1) };
        bed.try_add(vec![bed.item()]);
        bed.try_add(vec![bed.item()]);
        assert_eq!(bed.claim(claim).expect("work").items.len(), 2);
    }
}
