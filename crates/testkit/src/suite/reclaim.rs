//! Reclaim: what expired leases held goes back in line.

use windrow_core::command::{Claim, Command};
use windrow_core::item::Marks;
use windrow_core::settings::OnExpiry;
use windrow_core::trail::{Class, Ending};
use windrow_core::{Answer, State, Status};

use super::*;

cases! {
    fn an_expired_item_waits_for_its_next_attempt_as_after_an_error(bed) {
        let id = bed.add(item());
        bed.take();
        assert_eq!(bed.advance(299_999).items, 0);
        let reclaimed = bed.advance(1);
        assert_eq!((reclaimed.leases, reclaimed.items), (1, 1));
        let State::Pending { not_before } = bed.item(id).state else { panic!("it waits") };
        let wait = not_before.since(bed.now());
        assert!((9_000..=11_000).contains(&wait), "{wait} ms");
        assert_eq!(bed.item(id).attempts, 1);
        let trail = bed.trail(id);
        assert_eq!(trail.attempts[0].ending, Ending::Expired);
        assert_eq!(trail.last_error().map(|error| error.class), Some(Class::LeaseExpired));
    }

    fn a_requeued_item_is_visible_at_once(bed) {
        bed.configure(|settings| settings.defaults.on_expiry = OnExpiry::Requeue);
        let id = bed.add(item());
        bed.take();
        bed.advance(300_000);
        let held = bed.take();
        assert_eq!((held.id, held.work.item.attempts), (id, 2));
    }

    fn an_expired_item_fails_where_that_is_the_policy(bed) {
        bed.configure(|settings| settings.defaults.on_expiry = OnExpiry::Fail);
        let id = bed.add(item());
        bed.take();
        bed.advance(300_000);
        bed.is(id, Status::Failed);
        let record = &bed.trail(id).stages[0];
        assert_eq!((record.status, record.completed), (Status::Failed, Some(bed.now())));
    }

    fn an_item_that_expires_without_attempts_left_fails(bed) {
        for policy in [OnExpiry::Retry, OnExpiry::Requeue] {
            bed.configure(|settings| settings.defaults.on_expiry = policy);
            let id = bed.add(item());
            for _ in 0..3 {
                bed.take();
                bed.advance(300_000);
                bed.advance(60_000);
            }
            bed.is(id, Status::Failed);
            assert_eq!(bed.trail(id).stages[0].attempts, 3);
            bed.nothing_waits();
        }
    }

    fn items_of_a_lease_over_several_get_their_attempt_back_and_go_alone(bed) {
        let ids = bed.add_many(3);
        bed.claim(3);
        bed.advance(300_000);
        for id in &ids {
            assert_eq!(bed.item(*id).attempts, 0);
            assert!(bed.item(*id).has(Marks::ALONE));
        }
        for id in &ids {
            let held = bed.claim(3);
            assert_eq!(held.iter().map(|h| h.id).collect::<Vec<_>>(), [*id], "handed out alone");
        }
    }

    fn every_policy_pardons_the_items_of_a_lease_over_several(bed) {
        for policy in [OnExpiry::Retry, OnExpiry::Requeue, OnExpiry::Fail] {
            bed.configure(|settings| settings.defaults.on_expiry = policy);
            bed.add_many(2);
            bed.claim(2);
            bed.advance(300_000);
            bed.complete(&bed.take());
            bed.complete(&bed.take());
        }
    }

    fn an_item_goes_alone_until_it_settles(bed) {
        bed.add_many(2);
        bed.claim(2);
        bed.advance(300_000);
        let held = bed.take();
        bed.settle(&held, release());
        assert!(!bed.item(held.id).has(Marks::ALONE));
        let other = bed.claim(2);
        assert_eq!(other.len(), 1);
        assert_eq!(other[0].id, held.id, "the one before it in line goes first, without company");
    }

    fn a_poison_item_still_runs_out_of_attempts(bed) {
        let ids = bed.add_many(4);
        bed.claim(4);
        bed.advance(300_000);
        let poison = ids[0];
        for _ in 0..3 {
            let held = bed.take();
            if held.id == poison {
                bed.advance(300_000);
                bed.advance(60_000);
            } else {
                bed.complete(&held);
            }
        }
        while let Some(held) = bed.claim(1).pop() {
            if held.id != poison {
                bed.complete(&held);
            } else {
                bed.advance(300_000);
                bed.advance(60_000);
            }
        }
        bed.is(poison, Status::Failed);
        ids[1..].iter().for_each(|id| bed.is(*id, Status::Completed));
        assert_eq!(bed.trail(poison).stages[0].attempts, 3);
    }

    fn the_last_unsettled_item_of_a_lease_over_several_is_pardoned_too(bed) {
        let ids = bed.add_many(2);
        let held = bed.claim(2);
        bed.complete(&held[0]);
        bed.advance(300_000);
        assert_eq!(bed.item(ids[1]).attempts, 0);
        assert!(bed.item(ids[1]).has(Marks::ALONE));
    }

    fn a_renewed_lease_keeps_what_it_holds(bed) {
        let id = bed.add(item());
        let held = bed.take();
        bed.advance(200_000);
        bed.try_renew(held.lease, None).expect("it is live");
        assert_eq!(bed.advance(200_000).items, 0);
        assert_eq!(bed.item(id).lease(), Some(held.lease));
    }

    fn reclaiming_twice_changes_nothing(bed) {
        let id = bed.add(item());
        bed.take();
        bed.advance(300_000);
        let before = bed.see(id);
        assert_eq!(bed.reclaim().items, 0);
        assert_eq!(bed.see(id), before);
    }

    fn reclaim_goes_in_slices_and_says_when_there_is_more(bed) {
        bed.add_many(3);
        for _ in 0..3 {
            bed.take();
        }
        bed.clock.advance(300_000);
        let reclaim = |limit| match bed.ask(Command::Reclaim { limit }) {
            Answer::Reclaimed(done) => done,
            other => panic!("{other:?}"),
        };
        let first = reclaim(2);
        assert_eq!((first.leases, first.items, first.more), (2, 2, true));
        assert_eq!(reclaim(2).leases, 1);
    }

    fn only_what_expired_is_taken_back(bed) {
        let ids = bed.add_many(2);
        bed.take();
        let claim = Claim { lease_ms: Some(600_000), ..Claim::new("w", QUEUE, 1) };
        bed.try_claim(claim).expect("an item");
        assert_eq!(bed.advance(300_000).items, 1);
        bed.is(ids[0], Status::Pending);
        bed.is(ids[1], Status::Processing);
    }
}
