//! Listening: who waits for work is told when there is some, and what happened.

use std::sync::Arc;

use parking_lot::Mutex;
use windrow_core::Status;
use windrow_core::command::Claim;
use windrow_core::ports::{Happened, Listener, Ready, Store};
use windrow_core::transitions::Event;

use super::*;

#[derive(Default)]
struct Ear {
    ready: Mutex<Vec<Ready>>,
    happened: Mutex<Vec<Happened>>,
}

impl Listener for Ear {
    fn ready(&self, ready: &[Ready]) {
        self.ready.lock().extend_from_slice(ready);
    }

    fn happened(&self, happened: &[Happened]) {
        self.happened.lock().extend_from_slice(happened);
    }
}

impl Ear {
    /// How many items of a kind became ready in all.
    fn of_kind(&self, kind: &str) -> usize {
        let ready = self.ready.lock();
        ready.iter().filter(|ready| *ready.kind == *kind).map(|ready| ready.count).sum()
    }

    /// How many items became ready since the last question.
    fn count(&self) -> usize {
        self.ready.lock().drain(..).map(|ready| ready.count).sum()
    }
}

fn listen<S: Store>(bed: &Bed<S>) -> Arc<Ear> {
    let ear = Arc::new(Ear::default());
    bed.store.listen(ear.clone());
    ear
}

cases! {
    fn new_work_is_told_by_lane_and_tenant(bed) {
        let ear = listen(bed);
        bed.add(routed(&["ocr"]).kind("page").tenant("u"));
        let want = Ready {
            queue: QUEUE.into(),
            stage: "ocr".into(),
            kind: "page".into(),
            tenant: "u".into(),
            count: 1,
        };
        assert_eq!(*ear.ready.lock(), [want]);
    }

    fn as_much_work_is_told_as_there_is(bed) {
        let ear = listen(bed);
        bed.ask(windrow_core::command::Command::Enqueue(vec![item(); 7]));
        assert_eq!(ear.count(), 7);
        bed.family(item().queue(QUEUE).priority(10), 3);
        assert_eq!(ear.count(), 4, "the parent, then three children");
    }

    fn invisible_work_is_told_when_its_time_comes(bed) {
        let ear = listen(bed);
        bed.add(item().at(bed.later(1_000)));
        bed.advance(999);
        assert_eq!(ear.count(), 0);
        bed.advance(1);
        assert_eq!(ear.count(), 1);
    }

    fn paused_work_is_told_when_it_is_resumed(bed) {
        let ear = listen(bed);
        bed.pause(scope(None, None));
        bed.add(item());
        assert_eq!(ear.count(), 0);
        bed.resume(scope(None, None));
        assert!(ear.count() >= 1);
    }

    fn a_settle_in_a_full_group_tells_of_the_next(bed) {
        bed.configure(|settings| settings.defaults.group_limit = Some(1));
        bed.add(item().group("g"));
        let held = bed.take();
        let ear = listen(bed);
        bed.add(item().group("g"));
        assert_eq!(ear.count(), 0);
        bed.complete(&held);
        assert!(ear.count() >= 1);
    }

    fn room_that_another_kind_leaves_in_a_group_is_told(bed) {
        bed.configure(|settings| settings.defaults.group_limit = Some(4));
        for _ in 0..2 {
            bed.add(item().group("g").kind("b"));
        }
        let held = bed.claim(2);
        let ear = listen(bed);
        for _ in 0..3 {
            bed.add(item().group("g").kind("a"));
        }
        bed.complete(&held[0]);
        let claim = Claim { kinds: vec!["a".into()], ..Claim::new("w", QUEUE, 1) };
        let got = (0..4).filter(|_| bed.try_claim(claim.clone()).is_some()).count();
        assert_eq!(got, 3);
        assert!(ear.of_kind("a") >= got, "{} told", ear.of_kind("a"));
    }

    fn room_that_another_kind_does_not_take_in_a_group_is_told(bed) {
        bed.configure(|settings| settings.defaults.group_limit = Some(2));
        let ear = listen(bed);
        bed.add(item().group("g").kind("b"));
        for _ in 0..2 {
            bed.add(item().group("g").kind("a"));
        }
        let claim = Claim { kinds: vec!["a".into()], ..Claim::new("w", QUEUE, 1) };
        let got = (0..3).filter(|_| bed.try_claim(claim.clone()).is_some()).count();
        assert!(ear.of_kind("a") >= got, "{} told of {got}", ear.of_kind("a"));
    }

    fn the_next_stage_a_retry_and_a_successor_are_told(bed) {
        bed.add(routed(&["a", "b"]).key("k"));
        let held = bed.take();
        bed.add(item().key("k"));
        let ear = listen(bed);
        bed.complete(&held);
        assert_eq!(ear.count(), 1);
        bed.settle(&bed.take(), release());
        assert_eq!(ear.count(), 1);
        bed.settle(&bed.take(), fail());
        assert_eq!(ear.count(), 1, "the successor");
    }

    fn what_happened_is_told_in_order(bed) {
        let ear = listen(bed);
        let id = bed.add(routed(&["a", "b"]));
        bed.complete(&bed.take());
        bed.settle(&bed.take(), fail());
        let told: Vec<_> =
            ear.happened.lock().iter().map(|h| (h.id, h.stage, h.status, h.event)).collect();
        use Status::{Failed, Pending, Processing};
        assert_eq!(
            told,
            [
                (id, 0, Pending, None),
                (id, 0, Processing, Some(Event::Claim)),
                (id, 1, Pending, Some(Event::Advance)),
                (id, 1, Processing, Some(Event::Claim)),
                (id, 1, Failed, Some(Event::Fail)),
            ]
        );
        let first = ear.happened.lock()[0].clone();
        assert_eq!((&*first.queue, &*first.tenant, first.at), (QUEUE, TENANT, bed.now()));
    }

    fn what_happened_is_told_with_its_stage_and_since_when_it_waited_or_ran(bed) {
        let ear = listen(bed);
        let id = bed.add(routed(&["a", "b"]));
        let mut times = vec![id.created_at()];
        let mut later = |ms| {
            bed.advance(ms);
            times.push(bed.now());
        };
        later(1_000);
        let held = bed.take();
        later(500);
        bed.complete(&held);
        later(250);
        let held = bed.take();
        later(70);
        bed.settle(&held, fail());
        let told: Vec<_> =
            ear.happened.lock().iter().map(|h| (h.in_stage.to_string(), h.since)).collect();
        let since = |stage: &str, at: usize| (stage.to_owned(), Some(times[at]));
        let expected =
            [("a".to_owned(), None), since("a", 0), since("a", 1), since("b", 2), since("b", 3)];
        assert_eq!(told, expected);
    }
}
