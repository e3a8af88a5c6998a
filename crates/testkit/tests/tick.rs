//! Ticking under strain: a sweep without end, and a store whose clock is not the server's.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use windrow_core::command::{Claim, Command, Grant, NewItem, Swept};
use windrow_core::item::Body;
use windrow_core::limits::GRACE_MS;
use windrow_core::ports::{Lead, Listener, Now, Store, StoreError, Work};
use windrow_core::settings::{OnExpiry, Policy, Settings};
use windrow_core::{Answer, Request, Timestamp};
use windrow_engine::{Engine, Limits};
use windrow_testkit::clock::{Hands, SimClock};
use windrow_testkit::model::Model;
use windrow_testkit::suite::block_on;

const HOUR_MS: i64 = 3_600_000;

/// A store as other servers see it too: it keeps time, and says who leads.
#[derive(Clone)]
struct Shared {
    store: Arc<Model>,
    clock: SimClock,
    /// How far its clock is ahead of the server's.
    ahead_ms: i64,
    /// Every slice of sweeping takes so long and is never the last. None: it sweeps as others do.
    slice_ms: Option<u64>,
    /// Whether it says who leads, or that nobody else could.
    has_leader: bool,
    led: Arc<AtomicU64>,
    /// How often somebody asked to lead, which is once in each step.
    steps: Arc<AtomicUsize>,
}

impl Shared {
    fn new(clock: &SimClock) -> Shared {
        Shared {
            store: Arc::new(Model::new(1)),
            clock: clock.clone(),
            ahead_ms: 0,
            slice_ms: None,
            has_leader: false,
            led: Arc::new(AtomicU64::new(clock.now().0)),
            steps: Arc::default(),
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp(self.clock.now().0.saturating_add_signed(self.ahead_ms))
    }
}

impl Store for Shared {
    async fn submit(&self, batch: Vec<Request>, now: Now) -> Result<Vec<Answer<Work>>, StoreError> {
        assert_eq!(now, Now::Database, "this store keeps time");
        if let Some(ms) = self.slice_ms
            && batch.iter().any(|request| matches!(request.command, Command::Sweep { .. }))
        {
            assert_eq!(batch.len(), 1, "a sweep comes alone here");
            self.clock.advance(ms);
            let swept = Swept { removed: 1_000, more: true, ..Swept::default() };
            return Ok(vec![Answer::Swept(swept)]);
        }
        self.store.submit(batch, Now::Given(self.time())).await
    }

    windrow_testkit::reads_through!(self, reading of self.store => reading.await);

    async fn advance(&self, _servers: Timestamp) -> Result<(), StoreError> {
        self.store.advance(self.time()).await
    }

    fn listen(&self, listener: Arc<dyn Listener>) {
        self.store.listen(listener);
    }

    fn keeps_time(&self) -> bool {
        true
    }

    async fn lead(&self) -> Result<Lead, StoreError> {
        self.steps.fetch_add(1, Ordering::SeqCst);
        let before = Timestamp(self.led.swap(self.clock.now().0, Ordering::SeqCst));
        let idle_ms = self.clock.now().since(before);
        Ok(if self.has_leader { Lead::Leads { idle_ms } } else { Lead::Alone })
    }
}

type Queue = Engine<Shared, Hands>;

/// A queue whose leases last so long; an item whose lease ran out is visible at once.
fn queue(store: &Shared, lease_ms: u64) -> Queue {
    let hands = Hands(store.clock.clone());
    let queue = Engine::new(store.clone(), hands, Limits::default(), 4);
    let defaults = Policy { lease_ms, on_expiry: OnExpiry::Requeue, ..Policy::default() };
    let settings = Settings { defaults, ..Settings::default() };
    block_on(queue.configure("q", settings)).expect("it is configured");
    queue
}

fn add(queue: &Queue, not_before: Timestamp) {
    let new = NewItem { not_before, ..NewItem::new(Body::new("acme", "q")) };
    let each = block_on(queue.enqueue(vec![new], None)).expect("it is answered");
    assert!(each[0].is_ok(), "{each:?}");
}

fn take(queue: &Queue) -> Option<Grant<Work>> {
    block_on(queue.claim(Claim::new("w", "q", 1), 0, None)).expect("a claim is answered")
}

/// Lets the engine run, a millisecond at a time, until a claim that waits gets something. Says how
/// long that took.
fn runs_until_claimed(queue: &Queue, clock: &SimClock, most_ms: u64) -> u64 {
    let began = clock.now();
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(queue.run());
    let mut claim = Box::pin(queue.claim(Claim::new("w", "q", 1), 10 * most_ms, None));
    loop {
        assert!(running.as_mut().poll(&mut context).is_pending(), "it goes on");
        if let Poll::Ready(claimed) = claim.as_mut().poll(&mut context) {
            assert!(claimed.expect("it is answered").is_some());
            return clock.now().since(began);
        }
        assert!(clock.now().since(began) <= most_ms, "nothing came in {most_ms} ms");
        clock.advance(1);
    }
}

#[test]
fn whoever_holds_a_lease_is_present_although_this_servers_clock_is_another() {
    for ahead_ms in [-HOUR_MS, HOUR_MS] {
        let clock = SimClock::default();
        clock.advance(2 * HOUR_MS as u64);
        let store = Shared { ahead_ms, ..Shared::new(&clock) };
        let [there, here] = [(); 2].map(|()| queue(&store, 60_000));
        add(&there, Timestamp::ZERO);
        assert!(take(&there).is_some());
        let workers = block_on(here.workers()).expect("it is answered");
        let told: Vec<_> = workers.iter().map(|worker| (&*worker.name, worker.leases)).collect();
        assert_eq!(told, [("w", 1)], "{ahead_ms}");
    }
}

#[test]
fn a_long_sweep_does_not_keep_what_a_dead_worker_held() {
    // A step swept for as long as there was something to sweep. The next one took that for a gap
    // in ticking and gave every lease more time, again and again.
    for has_leader in [false, true] {
        let clock = SimClock::default();
        let store = Shared { slice_ms: Some(200), has_leader, ..Shared::new(&clock) };
        let queue = queue(&store, 4_000);
        block_on(queue.step()).expect("it steps");
        add(&queue, Timestamp::ZERO);
        assert!(take(&queue).is_some(), "there is work");
        let taken = clock.now();
        // It never rests, so it is stepped and not run.
        while take(&queue).is_none() {
            block_on(queue.step()).expect("it steps");
            let waited = clock.now().since(taken);
            assert!(waited <= 4_000 + 2 * 1_200, "lease and two steps: {waited} ms");
        }
        assert!(clock.now().since(taken) >= 4_000, "not before the lease ran out");
    }
}

#[test]
fn an_item_appears_on_time_whatever_the_servers_clock_says() {
    // A server whose clock was ahead stepped a thousand times a second until the item was due.
    for (ahead_ms, late_ms, steps_max) in [(-HOUR_MS, 50, 110), (HOUR_MS, 1_000, 10)] {
        let clock = SimClock::default();
        let store = Shared { ahead_ms, ..Shared::new(&clock) };
        let queue = queue(&store, 4_000);
        add(&queue, store.time().plus(5_000));
        let waited = runs_until_claimed(&queue, &clock, 5_000 + late_ms);
        assert!(waited >= 5_000, "not before its time: {waited} ms");
        let steps = store.steps.load(Ordering::SeqCst);
        assert!(steps <= steps_max, "{steps} steps, {ahead_ms} ms ahead");
    }
}

#[test]
fn what_a_dead_worker_held_comes_back_whatever_the_servers_clock_says() {
    for ahead_ms in [-HOUR_MS, 0, HOUR_MS] {
        let clock = SimClock::default();
        let store = Shared { ahead_ms, ..Shared::new(&clock) };
        let queue = queue(&store, 4_000);
        block_on(queue.step()).expect("it steps");
        add(&queue, Timestamp::ZERO);
        assert!(take(&queue).is_some(), "there is work");
        let waited = runs_until_claimed(&queue, &clock, 5_000);
        assert!(waited >= 4_000, "not before the lease ran out: {waited} ms");
    }
}

#[test]
fn after_a_gap_a_lease_gets_the_same_grace_whatever_the_servers_clock_says() {
    // By a clock that was behind, the grace was over before it began; by one that was ahead, it
    // lasted an hour.
    for ahead_ms in [-HOUR_MS, 0, HOUR_MS] {
        let clock = SimClock::default();
        let store = Shared { ahead_ms, ..Shared::new(&clock) };
        let queue = queue(&store, 600_000);
        block_on(queue.step()).expect("it steps");
        add(&queue, Timestamp::ZERO);
        let held = take(&queue).expect("there is work");
        clock.advance(700_000);
        block_on(queue.step()).expect("it steps");
        let leases = block_on(store.leases()).expect("they are known");
        let left: Vec<_> = leases.iter().map(|one| (one.id, one.expires)).collect();
        assert_eq!(left, [(held.lease, store.time().plus(GRACE_MS))], "{ahead_ms} ms ahead");
        block_on(queue.renew(held.lease, None)).expect("its lease is not lost");
    }
}
