//! The running queue: claims that wait, ticks, presence, events, admission. On both stores.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use windrow_core::command::{Claim, Grant, NewItem, Outcome, Scope};
use windrow_core::explain::Reason;
use windrow_core::item::Body;
use windrow_core::ports::{Listener, Now, Store, StoreError, Work};
use windrow_core::settings::{Policy, Settings};
use windrow_core::{Answer, ItemId, Request, Status, Timestamp};
use windrow_engine::drained::Names;
use windrow_engine::events::Resumed;
use windrow_engine::{Engine, Failure, Limits};
use windrow_store::embedded::{Embedded, Options};
use windrow_testkit::clock::{Hands, SimClock};
use windrow_testkit::disk::SimDisk;
use windrow_testkit::model::Model;
use windrow_testkit::stepped::Stepped;
use windrow_testkit::suite::block_on;

type Queue<S> = Engine<S, Hands>;

fn queue<S: Store>(store: S) -> (Queue<S>, SimClock) {
    let hands = Hands::default();
    let clock = hands.0.clone();
    (Engine::new(store, hands, Limits::default(), usize::MAX), clock)
}

fn embedded() -> Stepped {
    let options = Options { segment_bytes: 1 << 20, seed: Some(1), ..Options::default() };
    Stepped::open(Arc::new(SimDisk::new(1)), options).expect("an empty disk can be opened")
}

/// Each case on the model and on the embedded store.
macro_rules! on_both_stores {
    ($($(#[$meta:meta])* fn $name:ident($queue:ident, $clock:ident) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            fn case<S: Store>(($queue, $clock): (Queue<S>, SimClock)) $body
            case(queue(Model::new(1)));
            case(queue(embedded()));
        }
    )*};
}

fn item() -> NewItem {
    NewItem::new(Body::new("acme", "q"))
}

fn later(ms: u64, clock: &SimClock) -> NewItem {
    NewItem { not_before: clock.now().plus(ms), ..item() }
}

fn add<S: Store>(queue: &Queue<S>, items: Vec<NewItem>) -> Vec<ItemId> {
    let answers = block_on(queue.enqueue(items, None)).expect("it is answered");
    answers.into_iter().map(|answer| answer.expect("it is taken").id).collect()
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Option<Grant<Work>>, Failure>> + 'a>>;

fn wait<'a, S: Store>(queue: &'a Queue<S>, worker: &str, ms: u64) -> Waiting<'a> {
    Box::pin(queue.claim(Claim::new(worker, "q", 1), ms, None))
}

/// Whether a claim is over, and what it got.
fn look(waiting: &mut Waiting<'_>) -> Option<Option<Grant<Work>>> {
    let mut context = Context::from_waker(Waker::noop());
    match waiting.as_mut().poll(&mut context) {
        Poll::Ready(claimed) => Some(claimed.expect("a claim is answered")),
        Poll::Pending => None,
    }
}

fn take<S: Store>(queue: &Queue<S>) -> Option<Grant<Work>> {
    block_on(queue.claim(Claim::new("w", "q", 1), 0, None)).expect("a claim is answered")
}

fn step<S: Store>(queue: &Queue<S>) -> Timestamp {
    block_on(queue.step()).expect("the engine steps")
}

on_both_stores! {
    fn a_queue_that_nobody_configured_gets_what_the_engine_was_told(queue, _clock) {
        let own = Settings { live_max: Some(9), ..Settings::default() };
        block_on(queue.configure("own", own.clone())).expect("it is configured");
        let defaults = Policy { max_attempts: 7, ..Policy::default() };
        let told = Settings { defaults, ..Settings::default() };
        queue.assume(told.clone());
        let other = NewItem::new(Body::new("acme", "own"));
        add(&queue, vec![item(), other, item()]);
        let settings = || block_on(queue.store().configured()).expect("it is read").settings;
        assert_eq!(settings(), [("own".into(), own.clone()), ("q".into(), told)]);
        // Whatever is said later counts.
        block_on(queue.configure("q", own.clone())).expect("it is configured");
        add(&queue, vec![item()]);
        assert_eq!(settings()[1], ("q".into(), own));
    }

    fn a_claim_that_waits_gets_the_work_that_arrives(queue, _clock) {
        let mut waiting = wait(&queue, "w", 10_000);
        assert!(look(&mut waiting).is_none());
        let ids = add(&queue, vec![item()]);
        let grant = look(&mut waiting).expect("it is over").expect("it got something");
        assert_eq!(grant.items[0].item.id, ids[0]);
    }

    fn as_many_waiters_get_work_as_there_are_items(queue, _clock) {
        let mut waiters: Vec<Waiting<'_>> =
            (0..5).map(|n| wait(&queue, &format!("w{n}"), 10_000)).collect();
        assert!(waiters.iter_mut().all(|waiter| look(waiter).is_none()));
        add(&queue, vec![item(), item(), item()]);
        let over: Vec<bool> = waiters.iter_mut().map(|waiter| look(waiter).is_some()).collect();
        assert_eq!(over, [true, true, true, false, false]);
        assert_eq!(queue.waiting(), 2);
    }

    fn a_closed_engine_hands_out_nothing_and_still_takes_what_is_done(queue, _clock) {
        add(&queue, vec![item()]);
        let grant = take(&queue).expect("there is work");
        let mut waiting = wait(&queue, "w", 60_000);
        assert!(look(&mut waiting).is_none());
        queue.close();
        assert!(look(&mut waiting).expect("it waits no longer").is_none());
        add(&queue, vec![item()]);
        assert!(take(&queue).is_none(), "nothing is handed out");
        let done = vec![(grant.items[0].item.id, Outcome::complete())];
        assert!(block_on(queue.settle(grant.lease, done)).expect("it is answered")[0].is_ok());
    }

    fn nobody_is_woken_for_an_item_whose_time_has_not_come(queue, clock) {
        let mut waiting = wait(&queue, "w", 60_000);
        assert!(look(&mut waiting).is_none());
        add(&queue, vec![later(5_000, &clock)]);
        step(&queue);
        assert!(look(&mut waiting).is_none());
        clock.advance(4_999);
        step(&queue);
        assert!(look(&mut waiting).is_none());
        clock.advance(1);
        step(&queue);
        assert!(look(&mut waiting).expect("its time has come").is_some());
    }

    fn the_engine_asks_to_be_stepped_when_the_next_item_becomes_visible(queue, clock) {
        step(&queue);
        add(&queue, vec![later(300, &clock)]);
        assert_eq!(step(&queue), clock.now().plus(300));
    }

    fn a_claim_that_waited_in_vain_ends_empty(queue, clock) {
        let mut waiting = wait(&queue, "w", 1_000);
        assert!(look(&mut waiting).is_none());
        clock.advance(1_000);
        assert!(look(&mut waiting).expect("it is over").is_none());
        assert_eq!(queue.waiting(), 0);
    }

    fn a_waiter_that_gives_up_after_it_was_called_passes_the_call_on(queue, _clock) {
        let mut first = wait(&queue, "first", 10_000);
        let mut second = wait(&queue, "second", 10_000);
        assert!(look(&mut first).is_none() && look(&mut second).is_none());
        add(&queue, vec![item()]);
        drop(first);
        assert!(look(&mut second).expect("the call came here").is_some());
    }

    fn what_a_dead_worker_held_comes_back_within_a_second(queue, clock) {
        let policy = Policy { lease_ms: 4_000, ..Policy::default() };
        let settings = Settings {
            defaults: Policy { on_expiry: windrow_core::settings::OnExpiry::Requeue, ..policy },
            ..Settings::default()
        };
        block_on(queue.configure("q", settings)).expect("it is configured");
        add(&queue, vec![item()]);
        let held = take(&queue).expect("there is work");
        let mut next = step(&queue);
        let mut waited = 0;
        while take(&queue).is_none() {
            waited += next.since(clock.now()).max(1);
            clock.set(next);
            next = step(&queue);
            assert!(waited <= 5_000, "lease and a second");
        }
        assert!(waited >= 4_000, "not before the lease ran out: {waited} ms");
        let done = vec![(held.items[0].item.id, Outcome::complete())];
        let late = block_on(queue.settle(held.lease, done));
        assert!(late.expect("it is answered")[0].is_err(), "the late one is told");
    }

    fn after_a_gap_in_ticking_live_leases_get_more_time(queue, clock) {
        let settings = Settings {
            defaults: Policy { lease_ms: 10_000, ..Policy::default() },
            ..Settings::default()
        };
        block_on(queue.configure("q", settings)).expect("it is configured");
        step(&queue);
        add(&queue, vec![item()]);
        let held = take(&queue).expect("there is work");
        clock.advance(600_000);
        step(&queue);
        let renewed = block_on(queue.renew(held.lease, None)).expect("the lease was kept alive");
        assert_eq!(renewed.held, [held.items[0].item.id]);
    }

    fn explain_says_when_nobody_is_there_to_do_it(queue, clock) {
        let ids = add(&queue, vec![item()]);
        let reasons = |queue: &Queue<S>| {
            let explained = block_on(queue.explain(ids[0])).expect("answered").expect("known");
            explained.reasons.iter().map(Reason::code).collect::<Vec<_>>()
        };
        assert_eq!(reasons(&queue), ["no_worker"]);
        block_on(queue.claim(Claim::new("w", "other", 1), 0, None)).expect("answered");
        assert_eq!(reasons(&queue), ["no_worker"]);
        // What one name claims in turn is all remembered.
        block_on(queue.pause(scope())).expect("it is paused");
        for of in ["q", "other"] {
            block_on(queue.claim(Claim::new("v", of, 1), 0, None)).expect("answered");
        }
        block_on(queue.resume(scope())).expect("it is resumed");
        assert_eq!(reasons(&queue), ["next_in_line"]);
        clock.advance(60_000);
        assert_eq!(reasons(&queue), ["no_worker"]);
        block_on(queue.pause(scope())).expect("it is paused");
        assert!(take(&queue).is_none());
        assert_eq!(reasons(&queue), ["paused"]);
        block_on(queue.resume(scope())).expect("it is resumed");
        assert_eq!(reasons(&queue), ["next_in_line"]);
        clock.advance(60_000);
        assert_eq!(reasons(&queue), ["no_worker"]);
    }

    fn a_worker_is_present_while_it_waits_or_holds_something_and_a_minute_longer(queue, clock) {
        let present = |queue: &Queue<S>| block_on(queue.workers()).expect("answered");
        let mut waiting = wait(&queue, "w", 300_000);
        assert!(look(&mut waiting).is_none());
        clock.advance(120_000);
        step(&queue);
        assert_eq!((present(&queue).len(), present(&queue)[0].waiting), (1, 1));
        add(&queue, vec![item()]);
        let grant = look(&mut waiting).expect("it is over").expect("it got something");
        drop(waiting);
        clock.advance(90_000);
        step(&queue);
        assert_eq!((present(&queue).len(), present(&queue)[0].leases), (1, 1));
        let id = grant.items[0].item.id;
        block_on(queue.settle(grant.lease, vec![(id, Outcome::complete())])).expect("answered");
        step(&queue);
        assert!(present(&queue).is_empty());
    }

    fn a_drained_worker_is_handed_nothing_until_it_is_resumed(queue, clock) {
        let drain = |names: &[&str]| {
            queue.drain(Names::new(names.iter().map(|name| Arc::from(*name)).collect()));
        };
        let mut waiting = wait(&queue, "w", 10_000);
        let mut other = wait(&queue, "other", 10_000);
        assert!(look(&mut waiting).is_none() && look(&mut other).is_none());
        drain(&["w"]);
        add(&queue, vec![item()]);
        assert!(look(&mut waiting).is_none(), "it was the first in line");
        let got = look(&mut other).expect("the call came here").expect("it got something");
        add(&queue, vec![item()]);
        assert!(take(&queue).is_none(), "one that does not wait gets nothing either");
        assert!(look(&mut waiting).is_none(), "it waits on, and does not ask again and again");
        let done = vec![(got.items[0].item.id, Outcome::complete())];
        assert!(block_on(queue.settle(got.lease, done)).expect("it is answered")[0].is_ok());
        drain(&[]);
        assert!(look(&mut waiting).expect("it is resumed").is_some());
        drain(&["w"]);
        let mut waiting = wait(&queue, "w", 1_000);
        assert!(look(&mut waiting).is_none());
        clock.advance(1_000);
        assert!(look(&mut waiting).expect("it is over").is_none());
        let mut waiting = wait(&queue, "w", 10_000);
        assert!(look(&mut waiting).is_none());
        queue.close();
        assert!(look(&mut waiting).expect("everybody is sent home").is_none());
    }

    fn a_drained_worker_is_shown_and_is_none_that_would_take_an_item(queue, _clock) {
        queue.drain(Names::new([Arc::from("w")].into()));
        let ids = add(&queue, vec![item()]);
        assert!(take(&queue).is_none());
        let workers = block_on(queue.workers()).expect("answered");
        assert_eq!((workers.len(), workers[0].is_drained), (1, true));
        let reasons = || {
            let explained = block_on(queue.explain(ids[0])).expect("answered").expect("known");
            explained.reasons.iter().map(Reason::code).collect::<Vec<_>>()
        };
        assert_eq!(reasons(), ["no_worker"]);
        queue.drain(Names::default());
        assert_eq!(reasons(), ["next_in_line"]);
    }

    fn events_are_told_in_order_and_can_be_resumed(queue, _clock) {
        let before = queue.events().latest();
        let ids = add(&queue, vec![item()]);
        let grant = take(&queue).expect("there is work");
        block_on(queue.settle(grant.lease, vec![(ids[0], Outcome::complete())])).expect("answered");
        let Resumed::Events(events) = queue.events().after(Some(before)) else {
            panic!("the ring reaches back")
        };
        let told: Vec<(ItemId, Status)> =
            events.iter().map(|event| (event.happened.id, event.happened.status)).collect();
        let statuses = [Status::Pending, Status::Processing, Status::Completed];
        assert_eq!(told, statuses.map(|status| (ids[0], status)));
    }

    fn jobs_say_when_they_ran_and_will_run(queue, clock) {
        assert!(queue.scheduled().iter().all(|job| job.last.is_none()));
        step(&queue);
        for job in queue.scheduled() {
            assert_eq!(job.last, Some(clock.now()), "{}", job.name);
            assert!(job.next > clock.now(), "{}", job.name);
        }
    }

    fn resuming_a_queue_wakes_those_who_wait_for_it(queue, _clock) {
        block_on(queue.pause(scope())).expect("it is paused");
        add(&queue, vec![item()]);
        let mut waiting = wait(&queue, "w", 10_000);
        assert!(look(&mut waiting).is_none());
        block_on(queue.resume(scope())).expect("it is resumed");
        assert!(look(&mut waiting).expect("it was woken").is_some());
    }
}

fn scope() -> Scope {
    Scope { queue: "q".into(), stage: None, tenant: None }
}

/// A store that counts how it is called, and answers only when it is let.
#[derive(Clone)]
struct Slow {
    store: Arc<Model>,
    submits: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    /// It cannot be reached, as a database that is being started again.
    away: Arc<AtomicBool>,
}

impl Slow {
    fn reach(&self) -> Result<(), StoreError> {
        let away = self.away.load(Ordering::SeqCst);
        if away { Err(StoreError::NotApplied("it is away".into())) } else { Ok(()) }
    }
}

impl Store for Slow {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        self.reach()?;
        self.submits.fetch_add(1, Ordering::SeqCst);
        let open = &self.open;
        std::future::poll_fn(|_| {
            if open.load(Ordering::SeqCst) > 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.store.submit(batch, now).await
    }

    windrow_testkit::reads_through!(self, reading of self.store => reading.await);

    async fn advance(&self, now: Timestamp) -> Result<(), StoreError> {
        self.reach()?;
        self.store.advance(now).await
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.store.listen(listener);
    }
}

fn slow() -> Slow {
    let (submits, open, away) = Default::default();
    Slow { store: Arc::new(Model::new(1)), submits, open, away }
}

#[test]
fn after_a_time_without_its_store_an_engine_goes_on_and_live_leases_get_more_time() {
    // It ticked in vain, took that for ticking, and took every lease away once the store was back.
    let store = slow();
    store.open.store(1, Ordering::SeqCst);
    let (queue, clock) = queue(store.clone());
    let mut running = Box::pin(queue.run());
    let mut tick = |ms: u64| {
        clock.advance(ms);
        let mut context = Context::from_waker(Waker::noop());
        assert!(running.as_mut().poll(&mut context).is_pending(), "it goes on");
    };
    tick(0);
    add(&queue, vec![item()]);
    let grant = take(&queue).expect("there is work");
    store.away.store(true, Ordering::SeqCst);
    while clock.now() <= grant.expires_at {
        tick(1_000);
    }
    store.away.store(false, Ordering::SeqCst);
    tick(1_000);
    tick(1_000);
    block_on(queue.renew(grant.lease, None)).expect("its lease is not lost");
}

#[test]
fn commands_that_arrive_during_a_submit_go_together_in_the_next_one() {
    let store = slow();
    let queue = Engine::new(store.clone(), Hands::default(), Limits::default(), 1);
    let mut context = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..6).map(|_| Box::pin(queue.enqueue(vec![item()], None))).collect();
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_pending()));
    assert_eq!(store.submits.load(Ordering::SeqCst), 1);
    store.open.store(1, Ordering::SeqCst);
    // The first is answered and gives its turn to the second, which takes the others along.
    assert!(calls[0].as_mut().poll(&mut context).is_ready());
    assert!(calls[1].as_mut().poll(&mut context).is_ready());
    assert!(calls[2..].iter_mut().all(|call| call.as_mut().poll(&mut context).is_ready()));
    assert_eq!(store.submits.load(Ordering::SeqCst), 2, "one alone, five together");
}

type Enqueueing<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn enqueueing(queue: &Queue<Slow>) -> Enqueueing<'_> {
    Box::pin(async { add_one(queue).await })
}

async fn add_one(queue: &Queue<Slow>) {
    let each = queue.enqueue(vec![item()], None).await.expect("it is answered");
    assert!(each[0].is_ok(), "{each:?}");
}

fn is_over(call: &mut Enqueueing<'_>) -> bool {
    call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_batch_that_does_not_come_back_holds_up_a_later_request_for_a_moment_only() {
    // Small requests waited for the one batch under way, however long a lock held that up.
    let (store, hands) = (slow(), Hands::default());
    let queue = Engine::new(store.clone(), hands.clone(), Limits::default(), 3);
    let submits = || store.submits.load(Ordering::SeqCst);
    let mut stuck = enqueueing(&queue);
    let mut second = enqueueing(&queue);
    let mut along = enqueueing(&queue);
    assert!(!is_over(&mut stuck) && !is_over(&mut second) && !is_over(&mut along));
    hands.0.advance(19);
    assert!(!is_over(&mut second));
    assert_eq!(submits(), 1, "so far it waits for company");
    hands.0.advance(1);
    assert!(!is_over(&mut second));
    assert_eq!(submits(), 2, "it does not wait for what is stuck");
    let mut third = enqueueing(&queue);
    assert!(!is_over(&mut third));
    hands.0.advance(10);
    assert!(!is_over(&mut along) && !is_over(&mut third));
    assert_eq!(submits(), 2, "who is under way is not late, and who came later has time");
    store.open.store(1, Ordering::SeqCst);
    assert!(is_over(&mut second) && is_over(&mut along));
    assert!(!is_over(&mut third), "alone it is not worth a submit beside the first");
    hands.0.advance(10);
    assert!(is_over(&mut third));
    assert_eq!(submits(), 3);
    let mut last = enqueueing(&queue);
    assert!(!is_over(&mut last), "the first is still under way");
    hands.0.advance(20);
    assert!(is_over(&mut last));
}

#[test]
fn who_came_when_no_further_batch_could_begin_gets_the_next_turn() {
    let (store, hands) = (slow(), Hands::default());
    let queue = Engine::new(store.clone(), hands.clone(), Limits::default(), 2);
    let mut stuck = enqueueing(&queue);
    let mut second = enqueueing(&queue);
    assert!(!is_over(&mut stuck) && !is_over(&mut second));
    hands.0.advance(20);
    assert!(!is_over(&mut second));
    let mut third = enqueueing(&queue);
    assert!(!is_over(&mut third));
    hands.0.advance(20);
    assert!(!is_over(&mut third), "two are under way, which is all that may be");
    let mut fourth = enqueueing(&queue);
    assert!(!is_over(&mut fourth));
    hands.0.advance(20);
    assert!(!is_over(&mut fourth));
    // Whoever is first goes away; that is nobody else's fault.
    drop(third);
    store.open.store(1, Ordering::SeqCst);
    assert!(is_over(&mut second));
    assert!(is_over(&mut fourth), "it does not wait for the first");
}

#[test]
fn small_requests_gather_while_one_is_under_way_until_they_are_worth_another() {
    let store = slow();
    let queue = Engine::new(store.clone(), Hands::default(), Limits::default(), 4);
    let submits = || store.submits.load(Ordering::SeqCst);
    let mut calls: Vec<_> = (0..8).map(|_| enqueueing(&queue)).collect();
    assert!(!calls.iter_mut().any(is_over));
    assert_eq!(submits(), 1, "one is under way, the others gather");
    let mut last = enqueueing(&queue);
    assert!(!is_over(&mut last));
    assert_eq!(submits(), 2, "so many are worth a submit of their own");
    store.open.store(1, Ordering::SeqCst);
    assert!(is_over(&mut last), "it took the others along");
    assert!(calls[1..].iter_mut().all(is_over));
    assert_eq!(submits(), 2);
}

#[test]
fn a_store_that_takes_one_submit_at_a_time_gets_one_however_long_it_takes() {
    let (store, hands) = (slow(), Hands::default());
    let queue = Engine::new(store.clone(), hands.clone(), Limits::default(), 1);
    let mut calls: Vec<_> = (0..20).map(|_| enqueueing(&queue)).collect();
    assert!(!calls.iter_mut().any(is_over));
    hands.0.advance(60_000);
    assert!(!calls.iter_mut().any(is_over));
    assert_eq!(store.submits.load(Ordering::SeqCst), 1);
}

#[test]
fn a_caller_that_goes_away_leaves_nobody_else_without_an_answer() {
    let store = slow();
    let queue = Engine::new(store.clone(), Hands::default(), Limits::default(), 1);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(queue.enqueue(vec![item()], None));
    let mut second = pin!(queue.enqueue(vec![item()], None));
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(first);
    store.open.store(1, Ordering::SeqCst);
    assert!(second.as_mut().poll(&mut context).is_ready(), "it was given the turn");
    assert!(block_on(queue.enqueue(vec![item()], None)).is_ok());
}

#[test]
fn beyond_its_limits_the_engine_refuses_and_says_how_long_to_wait() {
    let store = slow();
    let limits = Limits { in_flight_max: 2, waiting_max: 1 };
    let queue = Engine::new(store.clone(), Hands::default(), limits, usize::MAX);
    let mut context = Context::from_waker(Waker::noop());
    let mut calls: Vec<_> = (0..2).map(|_| Box::pin(queue.enqueue(vec![item()], None))).collect();
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_pending()));
    let third = block_on(queue.enqueue(vec![item()], None));
    assert!(matches!(third, Err(Failure::Overloaded { retry_after_ms: 1_000 })));
    store.open.store(1, Ordering::SeqCst);
    assert!(calls.iter_mut().all(|call| call.as_mut().poll(&mut context).is_ready()));
    let taken = block_on(queue.claim(Claim::new("w", "q", 10), 0, None)).expect("answered");
    assert_eq!(taken.expect("there is work").items.len(), 2);
    let mut waiting = wait_on(&queue);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    let refused = block_on(wait_on(&queue));
    assert!(matches!(refused, Err(Failure::Overloaded { .. })));
}

fn wait_on(queue: &Queue<Slow>) -> Waiting<'_> {
    wait(queue, "w", 1_000)
}

#[test]
fn an_engine_ends_when_its_store_is_closed() {
    let options = Options { segment_bytes: 64 << 10, reserve_segments: 1, ..Options::default() };
    let store = Embedded::open(Arc::new(SimDisk::new(1)), options).expect("it opens");
    let running = store.run().expect("its threads start");
    let hands = Hands(SimClock::default());
    let engine = Engine::new(running.clone(), hands, Limits::default(), usize::MAX);
    drop(running);
    assert!(matches!(block_on(engine.run()), Failure::Store(StoreError::Closed)));
}
