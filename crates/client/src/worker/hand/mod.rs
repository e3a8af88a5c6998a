//! What a worker has in hand, and who waits for what.
//!
//! Slots wait for items, claimers for room, settlers for outcomes, and the heart for leases to
//! renew; all of them meet here, under one lock. What is decided is in `held.rs`.

mod held;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use windrow_core::queue::Work;
use windrow_core::trail::{Ending, Progress};
use windrow_core::{ItemId, LeaseId};

pub(super) use self::held::{Ask, Beat, Bounds, Claimed, Ended, Letter, Place};
use self::held::{Held, Post};
use super::events::Endings;

#[derive(Debug)]
pub(super) struct Hand {
    inside: Mutex<Inside>,
    /// There is room for a claim.
    room: Notify,
    /// No handler runs, or nothing is left.
    quiet: Notify,
    /// There is nothing more to do.
    end: Notify,
    /// There is an outcome to send.
    post: Notify,
    /// There is a lease to renew, or progress to tell.
    beat: Notify,
}

#[derive(Debug)]
struct Inside {
    held: Held,
    /// Where slots wait for an item.
    benches: Vec<Arc<Bench>>,
    /// How many wait for room, and whether somebody waits for quiet. Each is called for what it
    /// waits for alone: with handlers that are quick, something ends all the time.
    room_waiting: usize,
    quiet_is_awaited: bool,
    /// The heart has nothing to wait for.
    heart_rests: bool,
    /// Only one bench was called, because handlers are quick; when the others are, if something is
    /// still to be done.
    others_at: Option<Instant>,
}

/// After how long benches are called that were not at first: the one that was may be blocked.
const OTHERS: Duration = Duration::from_millis(2);

impl Inside {
    /// Calls who is to work on so many items: somebody on every bench, since nobody knows on which
    /// of them a thread is blocked, or on one if that is quick. Says whether the heart must look
    /// after the others.
    fn call(&mut self, items: usize, now: Instant) -> bool {
        let waits = |bench: &&Arc<Bench>| bench.waiting.load(Ordering::Relaxed) > 0;
        let mut waiting = self.benches.iter().filter(waits);
        if self.held.is_quick()
            && let Some(first) = waiting.next()
        {
            let are_others = waiting.next().is_some();
            first.call(items);
            let must_look = are_others && self.others_at.is_none();
            if must_look {
                self.others_at = Some(now + OTHERS);
            }
            return must_look;
        }
        self.benches.iter().for_each(|bench| bench.call(items));
        false
    }

    /// Calls those who were not called at first, if it is time. Says when it will be.
    fn call_others(&mut self, now: Instant) -> Option<Instant> {
        let at = self.others_at.filter(|at| *at > now);
        if self.others_at.is_some() && at.is_none() && self.held.has_work() {
            self.benches.iter().for_each(|bench| bench.call(usize::MAX));
        }
        self.others_at = at;
        at
    }
}

/// Where slots wait of which any can begin when another can: all threads that do nothing else, or
/// all slots of one thread. While a handler blocks a thread, nobody who waits there can begin.
#[derive(Debug, Default)]
pub(super) struct Bench {
    /// There is an item to work on.
    work: Notify,
    /// How many wait. Changes under the lock of the hand alone.
    waiting: AtomicUsize,
}

impl Bench {
    /// Wakes as many as there are items, if so many wait.
    fn call(&self, items: usize) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let called = items.min(waiting);
        self.waiting.store(waiting - called, Ordering::Relaxed);
        for _ in 0..called {
            self.work.notify_one();
        }
    }
}

/// What a slot does next.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "almost always it is the large one")]
pub(super) enum Next {
    Work(Claimed),
    Wait,
    Over,
}

impl Hand {
    pub(super) fn new(bounds: Bounds) -> Hand {
        let held = Held::new(bounds);
        let inside = Inside {
            held,
            benches: Vec::new(),
            room_waiting: 0,
            quiet_is_awaited: false,
            heart_rests: false,
            others_at: None,
        };
        Hand {
            inside: Mutex::new(inside),
            room: Notify::new(),
            quiet: Notify::new(),
            end: Notify::new(),
            post: Notify::new(),
            beat: Notify::new(),
        }
    }

    // Claiming

    /// Waits until a claim may be made. None if it is over.
    pub(super) async fn ask(&self) -> Option<Ask> {
        self.until(&self.room, |inside| {
            if inside.held.is_closed || inside.held.is_drained {
                return Some(None);
            }
            let Some(ask) = inside.held.ask() else {
                inside.room_waiting += 1;
                return None;
            };
            // There may be room for one more.
            self.tell(inside);
            Some(Some(ask))
        })
        .await
    }

    /// Takes what a claim brought, or nothing. False if it is over, and it must go back.
    pub(super) fn take(&self, ask: Ask, granted: Option<(LeaseId, Vec<Work>)>) -> bool {
        let mut inside = self.inside.lock();
        let (lease, items) = granted.unzip();
        let items = items.unwrap_or_default();
        inside.held.answered(ask, Some(items.len()));
        let is_taken = !inside.held.is_closed || items.is_empty();
        if let Some(lease) = lease.filter(|_| is_taken && !items.is_empty()) {
            let (count, now) = (items.len(), Instant::now());
            inside.held.add(lease, items, now);
            let must_look = inside.call(count, now);
            if std::mem::take(&mut inside.heart_rests) || must_look {
                self.beat.notify_one();
            }
        }
        self.tell(&mut inside);
        is_taken
    }

    /// A claim came to nothing, and nobody knows what it would have brought.
    pub(super) fn not_answered(&self, ask: Ask) {
        let mut inside = self.inside.lock();
        inside.held.answered(ask, None);
        self.tell(&mut inside);
    }

    // Working

    /// A place for slots to wait.
    pub(super) fn bench(&self) -> Arc<Bench> {
        let bench = Arc::<Bench>::default();
        self.inside.lock().benches.push(Arc::clone(&bench));
        bench
    }

    /// Takes the outcome of an item and gives the next one.
    pub(super) fn next(&self, ended: Option<Ended>, now: Instant) -> Next {
        let mut inside = self.inside.lock();
        let posts = ended.is_some_and(|ended| inside.held.handled(ended, now));
        let next = match inside.held.begin() {
            Some(claimed) => Next::Work(claimed),
            None if inside.held.is_closed => Next::Over,
            None => Next::Wait,
        };
        self.tell(&mut inside);
        drop(inside);
        if posts {
            self.post.notify_one();
        }
        next
    }

    /// Waits on a bench until there may be an item.
    pub(super) async fn work(&self, bench: &Bench) {
        let mut work = pin!(bench.work.notified());
        // From here on it cannot be missed.
        work.as_mut().enable();
        {
            let inside = self.inside.lock();
            if inside.held.is_closed || inside.held.has_work() {
                return;
            }
            bench.waiting.fetch_add(1, Ordering::Relaxed);
        }
        work.await;
    }

    pub(super) fn report(&self, place: Place, progress: Progress) {
        if self.inside.lock().held.report(place, progress) {
            self.beat.notify_one();
        }
    }

    // Settling

    /// The outcomes that gathered under one lease; waits for some. None if it is over.
    pub(super) async fn letters(&self) -> Option<(LeaseId, Vec<Letter>)> {
        loop {
            let mut post = pin!(self.post.notified());
            post.as_mut().enable();
            let (found, has_more) = {
                let held = &mut self.inside.lock().held;
                (held.post(Instant::now()), held.has_letters())
            };
            match found {
                Post::Send(lease, letters) => {
                    if has_more {
                        self.post.notify_one();
                    }
                    return Some((lease, letters));
                }
                Post::Over => return None,
                Post::Wait { until: None } => post.await,
                Post::Wait { until: Some(until) } => {
                    // Over time it goes by itself.
                    let _came = timeout_at(until, post).await;
                }
            }
        }
    }

    pub(super) fn again(&self, letter: Letter) {
        self.inside.lock().held.again(letter);
        self.post.notify_one();
    }

    pub(super) fn settled(&self, over: impl IntoIterator<Item = (Place, Option<Ending>)>) {
        let mut inside = self.inside.lock();
        inside.held.settled(over);
        self.tell(&mut inside);
    }

    // Renewing

    /// The leases to renew now and the progress to tell; waits for some. None if it is over.
    pub(super) async fn beat(&self) -> Option<Beat> {
        loop {
            let mut woken = pin!(self.beat.notified());
            woken.as_mut().enable();
            let beat = {
                let (mut inside, now) = (self.inside.lock(), Instant::now());
                let mut beat = inside.held.beat(now)?;
                let others = inside.call_others(now);
                beat.until = [beat.until, others].into_iter().flatten().min();
                inside.heart_rests = beat.until.is_none();
                beat
            };
            if !beat.renew.is_empty() || !beat.progress.is_empty() {
                return Some(beat);
            }
            match beat.until {
                Some(until) => {
                    let _sooner = timeout_at(until, woken).await;
                }
                None => woken.await,
            }
        }
    }

    /// A lease goes on, over what it still holds. Gives what is lost.
    pub(super) fn renewed(&self, id: LeaseId, sent: Instant, held: &[ItemId]) -> Vec<ItemId> {
        self.after_renewal(|inside, now| inside.renewed(id, sent, now, held))
    }

    /// A lease was not renewed: it is lost, or will be. Gives what is.
    pub(super) fn not_renewed(&self, id: LeaseId, lost: bool) -> Vec<ItemId> {
        self.after_renewal(|held, now| held.not_renewed(id, lost, now))
    }

    fn after_renewal(&self, then: impl FnOnce(&mut Held, Instant) -> Vec<ItemId>) -> Vec<ItemId> {
        let mut inside = self.inside.lock();
        let lost = then(&mut inside.held, Instant::now());
        self.tell(&mut inside);
        drop(inside);
        self.beat.notify_one();
        if !lost.is_empty() {
            self.post.notify_one();
        }
        lost
    }

    // Stopping

    /// Nothing more is claimed.
    pub(super) fn close(&self) {
        self.inside.lock().held.is_closed = true;
        self.tell_all();
    }

    /// Hands back what has not begun, or everything. Says how many that were.
    pub(super) fn hand_back(&self, also_running: bool) -> usize {
        let back = self.inside.lock().held.hand_back(also_running, Instant::now());
        self.tell_all();
        back
    }

    /// Lets go of everything. Says how many items that were.
    pub(super) fn abandon(&self) -> usize {
        let mut inside = self.inside.lock();
        inside.held.is_closed = true;
        let left = inside.held.abandon();
        drop(inside);
        self.tell_all();
        left
    }

    /// Waits until no handler runs, or until nothing is left at all.
    pub(super) async fn quiet(&self, at_all: bool, within: Duration) {
        let quiet = self.until(&self.quiet, |inside| {
            let held = &inside.held;
            let is_quiet = if at_all { held.is_idle() } else { !held.is_running() };
            inside.quiet_is_awaited |= !is_quiet;
            is_quiet.then_some(())
        });
        // What is not quiet by then is handed back, or let go.
        let _quiet = tokio::time::timeout(within, quiet).await;
    }

    /// Waits until there is nothing left to claim, and nothing in hand; or until it is closed.
    pub(super) async fn drained(&self) {
        self.until(&self.end, |Inside { held, .. }| {
            (held.is_drained || held.is_closed).then_some(())
        })
        .await;
    }

    pub(super) fn endings(&self) -> Endings {
        self.inside.lock().held.endings
    }

    /// Waits until something is so, and looks whenever it is called for.
    async fn until<T>(&self, call: &Notify, is: impl Fn(&mut Inside) -> Option<T>) -> T {
        loop {
            let mut called = pin!(call.notified());
            called.as_mut().enable();
            if let Some(found) = is(&mut self.inside.lock()) {
                return found;
            }
            called.await;
        }
    }

    /// Wakes whoever waits for what may have changed.
    fn tell(&self, inside: &mut Inside) {
        let held = &inside.held;
        if held.is_closed || held.is_drained {
            inside.room_waiting = 0;
            self.room.notify_waiters();
            self.end.notify_waiters();
        } else if inside.room_waiting > 0 && held.may_ask() {
            inside.room_waiting -= 1;
            self.room.notify_one();
        }
        if inside.quiet_is_awaited && !held.is_running() {
            inside.quiet_is_awaited = false;
            self.quiet.notify_waiters();
        }
        if held.is_over() {
            self.post.notify_waiters();
            self.beat.notify_one();
        }
    }

    fn tell_all(&self) {
        let mut inside = self.inside.lock();
        (inside.room_waiting, inside.quiet_is_awaited) = (0, false);
        for bench in &inside.benches {
            bench.waiting.store(0, Ordering::Relaxed);
            bench.work.notify_waiters();
        }
        drop(inside);
        for who in [&self.room, &self.quiet, &self.end, &self.post] {
            who.notify_waiters();
        }
        // The next settler that looks finds what was handed back.
        self.post.notify_one();
        self.beat.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use windrow_core::item::Body;

    use super::super::outcome::Told;
    use super::*;

    fn work(id: u128) -> Work {
        let body = Body::new("t", "q");
        let (stage, input, parent) = ("one".into(), None, None);
        Work { id: ItemId(id), body, stage, attempt: 1, priority: 5, parent, input }
    }

    #[tokio::test]
    async fn quick_handlers_are_called_on_one_bench_and_the_others_if_that_is_blocked() {
        let lease = Duration::from_secs(30);
        let hand = Hand::new(Bounds { items: 4, batch: 1, lease, drains: false });
        // One ends at once, so that they are known to be quick.
        let ask = hand.ask().await.expect("there is room");
        assert!(hand.take(ask, Some((LeaseId(1), vec![work(1)]))));
        let Next::Work(Claimed { place, .. }) = hand.next(None, Instant::now()) else {
            panic!("there is an item");
        };
        let told = Told::of(windrow_core::command::Outcome::complete());
        let ended = Ended { place, told, took: Duration::from_micros(1) };
        assert!(matches!(hand.next(Some(ended), Instant::now()), Next::Wait));
        let (blocked, free) = (hand.bench(), hand.bench());
        let (mut first, mut second) = (pin!(hand.work(&blocked)), pin!(hand.work(&free)));
        let is_pending = poll_fn(|context| {
            let pending = [first.as_mut().poll(context), second.as_mut().poll(context)];
            Poll::Ready(pending.iter().all(Poll::is_pending))
        });
        assert!(is_pending.await);
        let ask = hand.ask().await.expect("there is room");
        assert!(hand.take(ask, Some((LeaseId(2), vec![work(2)]))));
        let is_called = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_ready()));
        assert!(!is_called.await, "the first is enough");
        // Nobody polls that one. The heart finds that there is still something to do.
        let heart = async { while hand.beat().await.is_some() {} };
        tokio::select! {
            called = tokio::time::timeout(lease, second) => called.expect("it is called too"),
            () = heart => panic!("it goes on"),
        }
        assert!(matches!(hand.next(None, Instant::now()), Next::Work(_)));
        first.await;
    }

    #[tokio::test]
    async fn an_item_calls_somebody_on_every_bench_since_one_of_them_may_be_blocked() {
        let lease = Duration::from_secs(30);
        let hand = Hand::new(Bounds { items: 4, batch: 4, lease, drains: false });
        let (blocked, free) = (hand.bench(), hand.bench());
        let (mut first, mut second) = (pin!(hand.work(&blocked)), pin!(hand.work(&blocked)));
        let mut third = pin!(hand.work(&free));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            assert!(third.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        let ask = hand.ask().await.expect("there is room");
        assert!(hand.take(ask, Some((LeaseId(1), vec![work(1)]))));
        // Those who came first are on a thread that is held up: nobody polls them.
        tokio::time::timeout(lease, third).await.expect("it is called too");
        assert!(matches!(hand.next(None, Instant::now()), Next::Work(_)));
        first.await;
        assert!(matches!(hand.next(None, Instant::now()), Next::Wait), "it came too late");
        let is_called = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_ready()));
        assert!(!is_called.await, "one item calls one of a bench");
    }
}
