//! What is held, moment by moment.

use windrow_core::item::Body;

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// What a test holds, and when.
struct Bed {
    held: Held,
    now: Instant,
}

fn bed(items: usize, batch: usize, drains: bool) -> Bed {
    let held = Held::new(Bounds { items, batch, lease: LEASE, drains });
    Bed { held, now: Instant::now() }
}

fn works(from: u128, count: u128) -> Vec<Work> {
    let work = |id| Work {
        id: ItemId(id),
        body: Body::new("t", "q"),
        stage: "one".into(),
        attempt: 1,
        priority: 5,
        parent: None,
        input: None,
    };
    (from..from + count).map(work).collect()
}

impl Bed {
    fn add(&mut self, lease: u128, items: u128) {
        self.held.add(LeaseId(lease), works(lease * 1_000, items), self.now);
    }

    /// Begins the next item and ends it after so long; says whether a settler must look.
    fn work(&mut self, took: Duration) -> bool {
        let place = self.held.begin().expect("an item").place;
        self.now += took;
        self.end(place, took)
    }

    fn end(&mut self, place: Place, took: Duration) -> bool {
        let told = Told::of(Outcome::complete());
        self.held.handled(Ended { place, told, took }, self.now)
    }

    /// How many letters go now, under which lease.
    fn sent(&mut self) -> Option<(u128, usize)> {
        match self.held.post(self.now) {
            Post::Send(lease, letters) => Some((lease.0, letters.len())),
            Post::Wait { .. } | Post::Over => None,
        }
    }
}

const QUICKLY: Duration = Duration::from_micros(5);
const SLOWLY: Duration = Duration::from_millis(50);

#[test]
fn outcomes_that_end_together_go_together() {
    let mut bed = bed(100, 100, false);
    bed.add(1, 100);
    assert!(bed.work(QUICKLY), "somebody must look after the first one");
    for _ in 1..99 {
        assert!(!bed.work(QUICKLY));
        assert_eq!(bed.sent(), None);
    }
    assert!(bed.work(QUICKLY));
    assert_eq!(bed.sent(), Some((1, 100)));
    assert_eq!(bed.sent(), None);
}

#[test]
fn a_lone_outcome_goes_at_once() {
    let mut bed = bed(10, 10, false);
    // Nothing else is in line.
    bed.add(1, 1);
    assert!(bed.work(QUICKLY));
    assert_eq!(bed.sent(), Some((1, 1)));
    // Others are, but they take their time.
    bed.add(2, 3);
    assert!(bed.work(SLOWLY));
    assert_eq!(bed.sent(), Some((2, 1)));
}

#[test]
fn what_waits_for_others_waits_a_moment_only() {
    let mut bed = bed(10, 10, false);
    bed.add(1, 3);
    bed.work(QUICKLY);
    let Post::Wait { until: Some(until) } = bed.held.post(bed.now) else {
        panic!("it goes later");
    };
    assert_eq!(until, bed.now + LINGER);
    let running = bed.held.begin().expect("an item that takes long").place;
    bed.now = until;
    assert_eq!(bed.sent(), Some((1, 1)));
    bed.now += SLOWLY;
    assert!(bed.end(running, SLOWLY));
    assert_eq!(bed.sent(), Some((1, 1)));
}

#[test]
fn one_claim_waits_and_more_are_made_only_where_there_is_enough() {
    let mut bed = bed(400, 100, false);
    let first = bed.held.ask().expect("there is room");
    assert_eq!((first.max, first.waits), (100, true));
    assert_eq!(bed.held.ask(), None);
    bed.held.answered(first, Some(100));
    bed.add(1, 100);
    let asks: Vec<Ask> = std::iter::from_fn(|| bed.held.ask()).collect();
    let waits: Vec<bool> = asks.iter().map(|ask| ask.waits).collect();
    assert_eq!(waits, [true, false, false], "and no more than there is room for");
    bed.held.answered(asks[0], Some(40));
    bed.add(2, 40);
    assert_eq!(bed.held.ask(), None, "that was all");
}

#[test]
fn no_more_is_claimed_than_may_be_in_hand() {
    let mut bed = bed(4, 4, false);
    let ask = bed.held.ask().expect("there is room");
    bed.held.answered(ask, Some(4));
    bed.add(1, 4);
    let begun: Vec<Place> =
        std::iter::from_fn(|| bed.held.begin()).map(|claimed| claimed.place).collect();
    assert_eq!((begun.len(), bed.held.ask()), (4, None));
    // What is being settled is not in the way.
    bed.end(begun[0], SLOWLY);
    assert_eq!(bed.held.ask().map(|ask| ask.max), Some(1));
}

#[test]
fn it_is_drained_when_nothing_was_in_hand_and_nothing_came() {
    let mut bed = bed(4, 4, true);
    let ask = bed.held.ask().expect("there is room");
    assert!(!ask.waits);
    bed.held.answered(ask, Some(1));
    bed.add(1, 1);
    let empty = bed.held.ask();
    let running = bed.held.begin().expect("an item").place;
    let empty = empty.or_else(|| bed.held.ask()).expect("there is room");
    bed.held.answered(empty, Some(0));
    assert!(!bed.held.is_drained, "what runs may make more");
    assert_eq!(bed.held.ask(), None, "and is waited for");
    bed.end(running, SLOWLY);
    assert_eq!(bed.held.ask(), None);
    bed.held.settled([(running, Some(Ending::Completed))]);
    let last = bed.held.ask().expect("nothing is in hand");
    bed.held.answered(last, Some(0));
    assert!(bed.held.is_drained);
}

#[test]
fn a_lease_is_renewed_at_a_third_and_lost_when_it_has_run_out() {
    let mut bed = bed(4, 4, false);
    bed.add(1, 2);
    let begun = bed.held.begin().expect("an item");
    let beat = bed.held.beat(bed.now).expect("it is not over");
    assert_eq!((beat.renew.len(), beat.until), (0, Some(bed.now + LEASE / 3)));
    bed.now += LEASE / 3;
    assert_eq!(bed.held.beat(bed.now).expect("it is not over").renew, [LeaseId(1)]);
    // Once at a time.
    assert!(bed.held.beat(bed.now).expect("it is not over").renew.is_empty());
    assert!(bed.held.not_renewed(LeaseId(1), false, bed.now).is_empty());
    bed.now += LEASE;
    assert_eq!(bed.held.not_renewed(LeaseId(1), false, bed.now).len(), 2);
    assert!(begun.token.is_said());
    assert!(!bed.end(begun.place, SLOWLY), "its outcome is dropped");
    assert!(bed.held.begin().is_none(), "and what waited is not begun");
    assert!(bed.held.is_idle());
}

#[test]
fn what_a_renewed_lease_does_not_hold_is_lost_and_the_rest_goes_on() {
    let mut bed = bed(4, 4, false);
    bed.add(1, 3);
    let [a, b, c] = [(); 3].map(|()| bed.held.begin().expect("an item"));
    bed.end(c.place, SLOWLY);
    let held = [a.work.id];
    // What is being settled may be gone from the lease because it was settled.
    let lost = bed.held.renewed(LeaseId(1), bed.now, bed.now, &held);
    assert_eq!(lost, [b.work.id]);
    assert!(b.token.is_said() && !a.token.is_said() && !c.token.is_said());
    assert!(bed.end(a.place, SLOWLY) || bed.sent().is_some());
}

#[test]
fn progress_is_told_now_and_then_and_only_the_last_word() {
    let mut bed = bed(4, 4, false);
    bed.add(1, 1);
    let claimed = bed.held.begin().expect("an item");
    let say = |bed: &mut Bed, current| {
        let progress = Progress { current, total: 3, message: String::new() };
        bed.held.report(claimed.place, progress)
    };
    assert!(say(&mut bed, 1) && say(&mut bed, 2));
    let told = bed.held.beat(bed.now).expect("it is not over").progress;
    assert_eq!((told.len(), told[0].1.len(), told[0].1[0].1.current), (1, 1, 2));
    assert!(say(&mut bed, 3));
    let beat = bed.held.beat(bed.now).expect("it is not over");
    assert_eq!((beat.progress.len(), beat.until), (0, Some(bed.now + PROGRESS)));
    bed.end(claimed.place, SLOWLY);
    assert!(!say(&mut bed, 4), "it has ended");
}

#[test]
fn a_settle_takes_as_much_as_a_request_may_and_a_large_split_alone() {
    let mut bed = bed(10, 10, false);
    bed.add(1, 4);
    let big = || Outcome::Complete {
        result: Some(vec![0; SETTLE_BYTES_MAX / 2 + 1]),
        output: None,
        spawn: Vec::new(),
    };
    let split = Told { before: vec![Outcome::complete()], last: Outcome::complete() };
    let all = [Told::of(big()), Told::of(big()), split, Told::of(Outcome::complete())];
    for told in all {
        let place = bed.held.begin().expect("an item").place;
        bed.held.handled(Ended { place, told, took: SLOWLY }, bed.now);
    }
    let sent: Vec<_> = std::iter::from_fn(|| bed.sent()).collect();
    assert_eq!(sent, [(1, 1), (1, 1), (1, 1), (1, 1)]);
}

#[test]
fn what_has_not_begun_is_handed_back_first() {
    let mut bed = bed(4, 4, false);
    bed.add(1, 3);
    let running = bed.held.begin().expect("an item");
    assert_eq!(bed.held.hand_back(false, bed.now), 2);
    assert!(!running.token.is_said());
    assert_eq!(bed.sent(), Some((1, 2)));
    assert_eq!(bed.held.hand_back(true, bed.now), 1);
    assert!(running.token.is_said());
    assert_eq!(bed.sent(), Some((1, 1)));
    assert!(!bed.end(running.place, SLOWLY), "it has an outcome already");
}

#[test]
fn a_handler_whose_item_is_lost_keeps_its_place_until_it_ends() {
    let mut bed = bed(1, 1, false);
    bed.add(1, 1);
    let begun = bed.held.begin().expect("an item");
    bed.held.not_renewed(LeaseId(1), true, bed.now);
    assert!(!bed.held.may_ask(), "nobody could work on what it would get");
    bed.end(begun.place, SLOWLY);
    assert!(bed.held.may_ask());
}
