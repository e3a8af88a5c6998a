//! Order: who is handed out next.

use std::collections::BTreeMap;

use windrow_core::command::{Claim, Outcome};
use windrow_core::limits::OLDEST_EVERY;
use windrow_core::trail::Class;
use windrow_core::{ItemId, Status};

use super::*;

fn ids(held: &[Held]) -> Vec<ItemId> {
    held.iter().map(|h| h.id).collect()
}

/// How often each name was served.
fn shares<T: Ord>(of: impl Iterator<Item = T>) -> BTreeMap<T, usize> {
    let mut shares = BTreeMap::new();
    of.for_each(|name| *shares.entry(name).or_default() += 1);
    shares
}

cases! {
    fn within_a_tenant_and_priority_the_oldest_goes_first(bed) {
        let all = bed.add_many(20);
        assert_eq!(ids(&bed.claim(12)), all[..12]);
        assert_eq!(ids(&bed.claim(12)), all[12..]);
    }

    fn items_of_one_millisecond_go_in_the_order_of_their_creation(bed) {
        let all: Vec<ItemId> = (0..6).map(|_| bed.add(item())).collect();
        assert_eq!(ids(&bed.claim(6)), all);
    }

    fn a_higher_priority_goes_first(bed) {
        let mut all: Vec<(u8, ItemId)> =
            [5, 0, 10, 3, 7].map(|p| (p, bed.add(item().priority(p)))).to_vec();
        all.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        let want: Vec<ItemId> = all.into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids(&bed.claim(10)), want);
    }

    /// A store that keeps its lines elsewhere took the oldest when it met an empty priority.
    fn where_a_priority_ends_the_next_one_begins_and_not_the_oldest(bed) {
        for at_once in [1, 3] {
            let queue = format!("{at_once} at once");
            let add = |priority| (priority, bed.add(item().queue(&queue).priority(priority)));
            let mut all: Vec<(u8, ItemId)> = [3, 8, 3, 9, 5, 9, 8].map(add).to_vec();
            all.sort_by_key(|(priority, id)| (std::cmp::Reverse(*priority), *id));
            let want: Vec<ItemId> = all.into_iter().map(|(_, id)| id).collect();
            let mut got = Vec::new();
            while got.len() < 6 {
                let grant = bed.try_claim(Claim::new("w", queue.as_str(), at_once));
                got.extend(grant.expect("some wait").items.iter().map(|work| work.item.id));
            }
            assert_eq!(got, want[..6], "{queue}");
        }
    }

    fn every_eighth_item_of_a_lane_is_its_oldest_whatever_its_priority(bed) {
        let old: Vec<ItemId> = (0..2).map(|_| bed.add(item().priority(0))).collect();
        for _ in 0..30 {
            bed.add(item().priority(10));
        }
        let got: Vec<ItemId> = (0..24).map(|_| bed.take().id).collect();
        let every = OLDEST_EVERY as usize;
        assert_eq!((got[every - 1], got[2 * every - 1]), (old[0], old[1]));
        assert_eq!(got.iter().filter(|id| old.contains(id)).count(), 2);
    }

    fn the_turn_of_the_oldest_counts_over_claims_and_within_them(bed) {
        let old = bed.add(item().priority(0));
        for _ in 0..20 {
            bed.add(item().priority(10));
        }
        bed.claim(5);
        assert_eq!(bed.claim(5).iter().position(|h| h.id == old), Some(2));
    }

    fn each_lane_has_its_own_oldest(bed) {
        let a = bed.add(item().kind("a").priority(0));
        let b = bed.add(item().kind("b").priority(0));
        for _ in 0..10 {
            bed.add(item().kind("a").priority(10));
            bed.add(item().kind("b").priority(10));
        }
        let of = |kind: &str| Claim { kinds: vec![kind.into()], ..Claim::new("w", QUEUE, 7) };
        bed.try_claim(of("a")).expect("seven");
        let next =
            |kind| bed.try_claim(Claim { max: 1, ..of(kind) }).expect("one").items[0].item.id;
        assert_ne!(next("b"), b);
        assert_eq!(next("a"), a);
    }

    fn the_oldest_is_the_oldest_that_the_claim_may_have(bed) {
        bed.add(item().tenant("other").priority(0));
        let mine = bed.add(item().priority(0));
        for _ in 0..10 {
            bed.add(item().priority(10));
        }
        let claim = Claim { tenants: vec![TENANT.into()], ..Claim::new("w", QUEUE, 8) };
        let got = bed.try_claim(claim).expect("eight").items;
        assert_eq!(got.last().map(|work| work.item.id), Some(mine));
    }

    fn a_delayed_item_takes_its_place_by_age_when_it_becomes_visible(bed) {
        let early = bed.add(item().at(bed.later(1_000)));
        let late = bed.add(item());
        bed.advance(1_000);
        assert_eq!(ids(&bed.claim(2)), [early, late]);
    }

    fn due_retries_go_first_where_that_is_asked(bed) {
        for retry_first in [false, true] {
            bed.configure(|settings| settings.defaults.retry_first = retry_first);
            let fresh = bed.add(item().at(bed.later(5_000)));
            let tried = bed.add(item());
            let again =
                Outcome::Retry { class: Class::Other, message: "".into(), delay_ms: Some(5_000) };
            bed.settle(&bed.take(), again);
            bed.advance(5_000);
            let urgent = bed.add(item().priority(6));
            let want = if retry_first { [urgent, tried, fresh] } else { [urgent, fresh, tried] };
            let held = bed.claim(3);
            assert_eq!(ids(&held), want, "retry_first: {retry_first}");
            held.iter().for_each(|h| bed.complete(h));
        }
    }

    fn a_released_item_is_no_retry(bed) {
        bed.configure(|settings| settings.defaults.retry_first = true);
        let fresh = bed.add(item().at(bed.later(1_000)));
        let released = bed.add(item());
        bed.settle(&bed.take(), release());
        bed.advance(1_000);
        assert_eq!(ids(&bed.claim(2)), [fresh, released]);
    }

    fn tenants_take_turns_within_a_claim(bed) {
        for tenant in ["a", "b", "c"] {
            for _ in 0..5 {
                bed.add(item().tenant(tenant));
            }
        }
        let served = bed.claim(6);
        let shares = shares(served.iter().map(|h| h.work.body.tenant.clone()));
        assert!(shares.len() == 3 && shares.values().all(|n| *n == 2), "{shares:?}");
    }

    fn tenants_take_turns_over_claims(bed) {
        for _ in 0..30 {
            bed.add(item().tenant("loud"));
        }
        bed.add(item().tenant("quiet"));
        let first: Vec<_> = (0..3).map(|_| bed.take().work.body.tenant).collect();
        assert!(first.contains(&"quiet".into()), "{first:?}");
    }

    fn a_tenant_gets_its_own_items_in_order(bed) {
        let mut all: BTreeMap<String, Vec<ItemId>> = BTreeMap::new();
        for n in 0..12 {
            let tenant = format!("t{}", n % 3);
            all.entry(tenant.clone()).or_default().push(bed.add(item().tenant(&tenant)));
        }
        let mut got: BTreeMap<String, Vec<ItemId>> = BTreeMap::new();
        for held in bed.claim(12) {
            got.entry(held.work.body.tenant.to_string()).or_default().push(held.id);
        }
        assert_eq!(got, all);
    }

    fn priority_goes_before_turns(bed) {
        for _ in 0..3 {
            bed.add(item().tenant("a").priority(9));
        }
        bed.add(item().tenant("b"));
        let served: Vec<_> = bed.claim(4).iter().map(|h| h.work.item.priority).collect();
        assert_eq!(served, [9, 9, 9, 5]);
    }

    fn a_claim_over_several_lanes_takes_the_best_priority_first(bed) {
        for (kind, priority) in [("a", 3), ("b", 8), ("c", 5), ("a", 9), ("b", 1)] {
            bed.add(item().kind(kind).priority(priority));
        }
        let served: Vec<_> = bed.claim(5).iter().map(|h| h.work.item.priority).collect();
        assert_eq!(served, [9, 8, 5, 3, 1]);
    }

    fn lanes_of_one_priority_take_turns(bed) {
        for kind in ["a", "b", "c"] {
            for _ in 0..4 {
                bed.add(item().kind(kind));
            }
        }
        let shares = shares(bed.claim(6).iter().map(|h| h.work.body.kind.clone()));
        assert!(shares.len() == 3 && shares.values().all(|n| *n == 2), "{shares:?}");
    }

    fn an_operator_may_change_the_priority_of_what_is_live(bed) {
        let all = bed.add_many(3);
        bed.try_prioritise(all[2], 9).expect("it waits");
        let held = bed.take();
        assert_eq!(held.id, all[2]);
        bed.try_prioritise(held.id, 1).expect("it is live");
        bed.split(&held, children(0..1));
        bed.try_prioritise(held.id, 2).expect("it is live");
        assert_eq!(bed.item(held.id).priority, 2);
        bed.try_prioritise(all[0], 0).expect("it waits");
        assert_eq!(bed.take().id, all[1]);
    }

    fn the_priority_of_an_ended_item_stays(bed) {
        let id = bed.add(item());
        bed.cancel(id);
        assert_eq!(refused(bed.try_prioritise(id, 9)), "already_done");
        assert_eq!(refused(bed.try_prioritise(ItemId(4), 9)), "not_found");
        assert_eq!(refused(bed.try_prioritise(bed.add(item()), 11)), "invalid");
        bed.is(id, Status::Cancelled);
    }

    fn an_item_that_goes_alone_stays_first_in_line(bed) {
        let pair = bed.add_many(2);
        bed.claim(2);
        bed.add(item().priority(9));
        bed.advance(300_000);
        let first = bed.claim(5);
        assert_eq!((first.len(), first[0].work.item.priority), (1, 9), "it is put back");
        assert_eq!(ids(&bed.claim(5)), pair[..1]);
        assert_eq!(ids(&bed.claim(5)), pair[1..]);
    }
}
