//! One run of a worker, from start to stop: tasks that claim, renew and settle.
//!
//! They run where the worker was started, and handlers elsewhere, so that no handler can keep a
//! lease from being renewed. Settles wait for no clock: a settler sends what gathered while the
//! last request was under way, and no more than a millisecond for what ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use windrow_core::command::{Claim, Grant, Outcome};
use windrow_core::limits::ERROR_MAX;
use windrow_core::queue::{Answered, Each, Error, Queue, Refused, Work};
use windrow_core::trail::{Class, Progress};
use windrow_core::{ItemId, LeaseId, RequestId};

use super::Plan;
use super::events::Event;
use super::hand::{Ask, Hand, Letter};
use super::outcome::{Told, words};
use super::token::Token;

/// Claims and settles that may be under way at once.
const CLAIMERS: usize = 4;
const SETTLERS: usize = 4;
/// How long to wait before a queue is asked again that did not answer, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The same of one that was empty and did not wait for more.
const EMPTY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));
/// How long handing back may take once the work has ended, and when somebody is in a hurry.
pub(super) const HAND_BACK: Duration = Duration::from_secs(10);
pub(super) const HURRY: Duration = Duration::from_secs(2);

/// What the tasks of a run share.
pub(super) struct Shift<Q> {
    pub(super) queue: Arc<Q>,
    pub(super) plan: Plan,
    pub(super) hand: Arc<Hand>,
    /// Said when nothing more is claimed: claims that wait are cut off.
    pub(super) cut: Arc<Token>,
    /// What made it impossible to go on.
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    pub(super) is_away: AtomicBool,
    pub(super) rests: Mutex<Rests>,
    pub(super) random: Mutex<StdRng>,
}

/// How long claims rest that are answered at once with nothing.
#[derive(Debug)]
pub(super) struct Rests {
    next: Duration,
}

impl Rests {
    pub(super) const fn new() -> Rests {
        Rests { next: EMPTY.0 }
    }

    /// How long to rest after an answer that took so long.
    fn after(&mut self, is_empty: bool, took: Duration) -> Duration {
        let rest = self.next.saturating_sub(took);
        if !is_empty || rest.is_zero() {
            self.next = EMPTY.0;
            return Duration::ZERO;
        }
        self.next = (self.next * 2).min(EMPTY.1);
        rest
    }
}

/// What a claim came to.
enum Asked {
    Answered(Option<Grant<Work>>),
    /// It was cut off, or refused for good.
    Over,
}

impl<Q: Queue> Shift<Q> {
    /// Begins to claim, in one set of tasks, and to renew and settle in another.
    pub(super) fn begin(self: &Arc<Self>) -> (JoinSet<()>, JoinSet<()>) {
        let (mut claiming, mut keeping) = (JoinSet::new(), JoinSet::new());
        for _ in 0..CLAIMERS {
            claiming.spawn(Arc::clone(self).claims());
        }
        keeping.spawn(Arc::clone(self).beats());
        for _ in 0..SETTLERS {
            keeping.spawn(Arc::clone(self).settles());
        }
        (claiming, keeping)
    }

    fn tell(&self, event: Event) {
        (self.plan.tell)(event);
    }

    fn request(&self) -> RequestId {
        RequestId(self.random.lock().random())
    }

    // Claiming

    async fn claims(self: Arc<Self>) {
        while let Some(ask) = self.hand.ask().await {
            let begun = Instant::now();
            let wait = if ask.waits { self.plan.wait } else { Duration::ZERO };
            match self.claim(ask, wait, self.request()).await {
                Asked::Answered(granted) => {
                    self.rest(ask, granted.is_none(), begun.elapsed()).await;
                    self.take(ask, granted, begun).await;
                }
                Asked::Over => self.hand.not_answered(ask),
            }
        }
    }

    /// A queue that has nothing and says so at once is not asked again at once: longer each time,
    /// until it waits or has something.
    async fn rest(&self, ask: Ask, is_empty: bool, took: Duration) {
        // One that did not mean to wait is followed by one that does, or by the end.
        let rest = self.rests.lock().after(is_empty && ask.waits, took);
        if !rest.is_zero() {
            // While it rests it counts as asked, so that nobody else asks.
            let _over = timeout(rest, self.cut.said()).await;
        }
    }

    /// Asks for work until there is an answer, under one id: nothing is claimed twice.
    async fn claim(&self, ask: Ask, wait: Duration, request: RequestId) -> Asked {
        let mut again = AGAIN.0;
        let wait_ms = wait.as_millis() as u64;
        loop {
            let claim = self.queue.claim(self.plan.claim(ask.max), wait_ms, Some(request));
            let claimed = tokio::select! {
                claimed = claim => claimed,
                () = self.cut.said() => {
                    self.after_cut(self.plan.claim(ask.max), request).await;
                    return Asked::Over;
                }
            };
            let error = match claimed {
                Ok(granted) => {
                    if self.is_away.swap(false, Ordering::Relaxed) {
                        self.tell(Event::Back);
                    }
                    return Asked::Answered(granted);
                }
                Err(error) => error,
            };
            if is_final(&error) {
                self.failure.lock().get_or_insert(error);
                self.hand.close();
                return Asked::Over;
            }
            let rest = again.max(retry_after(&error));
            if !self.is_away.swap(true, Ordering::Relaxed) {
                self.tell(Event::Away(error));
            }
            // Cut off, it asks once more and finds out what it may have been granted.
            let _over = timeout(rest, self.cut.said()).await;
            again = (again * 2).min(AGAIN.1);
        }
    }

    /// A claim that was cut off may have been granted: then what it took goes back at once.
    async fn after_cut(&self, claim: Claim, request: RequestId) {
        let asked = timeout(HURRY, self.queue.claim(claim, 0, Some(request))).await;
        if let Ok(Ok(Some(granted))) = asked {
            self.give_back(granted.lease, granted.items.iter().map(|work| work.id)).await;
        }
    }

    async fn give_back(&self, lease: LeaseId, items: impl Iterator<Item = ItemId>) {
        let released = items.map(|id| (id, Outcome::Release { delay_ms: 0 }));
        let (released, request) = (released.collect(), Some(self.request()));
        // If that is not heard, its lease runs out.
        let _heard = timeout(HAND_BACK, self.queue.settle(lease, released, request)).await;
    }

    async fn take(&self, ask: Ask, granted: Option<Grant<Work>>, begun: Instant) {
        let Some(Grant { lease, mut items, .. }) = granted else {
            self.hand.take(ask, None);
            return;
        };
        if begun.elapsed() > self.plan.lease / 3 {
            // The answer may be a repeat of one that is old by now.
            match self.renewal(lease).await {
                Ok(renewed) => items.retain(|work| renewed.held.contains(&work.id)),
                Err(error) if is_lost(error.code()) => items.clear(),
                Err(error) => {
                    // Nobody knows whether it is still ours, so nobody begins it.
                    self.tell(Event::Away(error));
                    self.give_back(lease, items.iter().map(|work| work.id)).await;
                    return self.hand.not_answered(ask);
                }
            }
            if items.is_empty() {
                return self.hand.not_answered(ask);
            }
        }
        let ids: Vec<ItemId> = items.iter().map(|work| work.id).collect();
        if !self.hand.take(ask, Some((lease, items))) {
            self.give_back(lease, ids.into_iter()).await;
        }
    }

    // Renewing

    async fn beats(self: Arc<Self>) {
        while let Some(beat) = self.hand.beat().await {
            // Each by itself: one that is slow holds up no other.
            for lease in beat.renew {
                tokio::spawn(Arc::clone(&self).renew(lease));
            }
            for (lease, items) in beat.progress {
                tokio::spawn(Arc::clone(&self).progress(lease, items));
            }
        }
    }

    async fn renew(self: Arc<Self>, lease: LeaseId) {
        let sent = Instant::now();
        let lost = match self.renewal(lease).await {
            Ok(renewed) => self.hand.renewed(lease, sent, &renewed.held),
            Err(error) => self.hand.not_renewed(lease, is_lost(error.code())),
        };
        lost.into_iter().for_each(|item| self.tell(Event::Lost(item)));
    }

    async fn renewal(&self, lease: LeaseId) -> Answered<windrow_core::command::Renewed> {
        let (within, lease_ms) = (self.plan.lease / 2, self.plan.lease.as_millis() as u64);
        let late = |_| Error::NotApplied(format!("no answer within {within:?}"));
        timeout(within, self.queue.renew(lease, Some(lease_ms))).await.map_err(late)?
    }

    async fn progress(self: Arc<Self>, lease: LeaseId, items: Vec<(ItemId, Progress)>) {
        // It is only said: whether it is heard changes nothing.
        let _told = timeout(self.plan.lease / 2, self.queue.progress(lease, items)).await;
    }

    // Settling

    async fn settles(self: Arc<Self>) {
        while let Some((lease, letters)) = self.hand.letters().await {
            self.settle(lease, letters).await;
        }
    }

    async fn settle(&self, lease: LeaseId, mut letters: Vec<Letter>) {
        let first = letters[0].id;
        for part in std::mem::take(&mut letters[0].told.before) {
            // A large split: its first children go ahead, and the lease is kept.
            match self.asked(lease, vec![(first, part)]).await.map(|mut each| each.pop()) {
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(refused))) | Err(Error::Refused(refused)) => {
                    return self.refused_together(lease, letters, refused).await;
                }
                Ok(None) => return self.untold(letters, unanswered()),
                Err(error) => return self.untold(letters, error),
            }
        }
        let items = letters.iter().map(|letter| (letter.id, letter.told.last.clone())).collect();
        let each = match self.asked(lease, items).await {
            Ok(each) if each.len() == letters.len() => each,
            Ok(_) => return self.untold(letters, unanswered()),
            Err(Error::Refused(refused)) => {
                return self.refused_together(lease, letters, refused).await;
            }
            Err(error) => return self.untold(letters, error),
        };
        let mut over = Vec::with_capacity(letters.len());
        for (letter, answer) in letters.into_iter().zip(each) {
            let place = letter.place;
            match answer {
                Ok(settled) => over.push((place, Some(settled.ending))),
                Err(refused) => match self.refused(letter, refused) {
                    Some(letter) => self.hand.again(letter),
                    None => over.push((place, None)),
                },
            }
        }
        self.hand.settled(over);
    }

    /// Settles, asking again under the same id as long as the lease may last.
    async fn asked(
        &self,
        lease: LeaseId,
        items: Vec<(ItemId, Outcome)>,
    ) -> Answered<Vec<Each<windrow_core::command::Settled>>> {
        let (request, until) = (self.request(), Instant::now() + self.plan.lease);
        let mut again = AGAIN.0;
        loop {
            let settle = self.queue.settle(lease, items.clone(), Some(request));
            let left = until.saturating_duration_since(Instant::now());
            let error = match timeout(left, settle).await {
                Ok(Ok(each)) => return Ok(each),
                Ok(Err(error)) if is_final(&error) => return Err(error),
                Ok(Err(error)) => error,
                Err(_) => Error::OutcomeUnknown(format!("no answer in {:?}", self.plan.lease)),
            };
            let rest = again.max(retry_after(&error));
            if Instant::now() + rest >= until {
                return Err(error);
            }
            sleep(rest).await;
            again = (again * 2).min(AGAIN.1);
        }
    }

    fn untold(&self, letters: Vec<Letter>, error: Error) {
        self.tell(Event::Untold { items: letters.len(), error });
        self.hand.settled(letters.into_iter().map(|letter| (letter.place, None)));
    }

    /// A whole request was refused: each item is asked for alone, to find the one.
    async fn refused_together(&self, lease: LeaseId, letters: Vec<Letter>, refused: Refused) {
        if letters.len() > 1 && !is_lost(Some(&refused.code)) {
            for letter in letters {
                Box::pin(self.settle(lease, vec![letter])).await;
            }
            return;
        }
        for letter in letters {
            let place = letter.place;
            match self.refused(letter, refused.clone()) {
                Some(letter) => self.hand.again(letter),
                None => self.hand.settled([(place, None)]),
            }
        }
    }

    /// What is told of an item instead, if its outcome was refused: it must not wait for its lease
    /// to end.
    fn refused(&self, letter: Letter, refused: Refused) -> Option<Letter> {
        let Letter { place, id, is_second, .. } = letter;
        let is_lost = is_lost(Some(&refused.code));
        let message = words(format!("its outcome was refused: {refused}"), ERROR_MAX);
        self.tell(Event::Refused(id, refused));
        if is_lost || is_second {
            return None;
        }
        let told = Told::of(Outcome::Fail { class: Class::Other, message });
        Some(Letter { place, id, told, is_second: true })
    }
}

/// Whether asking again will not help.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Refused(refused) if refused.retry_after_ms.is_none())
}

/// Whether a refusal says that a lease does not hold an item any more.
fn is_lost(code: Option<&str>) -> bool {
    matches!(code, Some("lease_lost" | "not_found"))
}

fn retry_after(error: &Error) -> Duration {
    Duration::from_millis(match error {
        Error::Overloaded { retry_after_ms } => *retry_after_ms,
        Error::Refused(refused) => refused.retry_after_ms.unwrap_or(0),
        Error::NotApplied(_) | Error::OutcomeUnknown(_) => 0,
    })
}

fn unanswered() -> Error {
    Error::OutcomeUnknown("the queue did not answer for each item".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_empty_at_once_is_asked_less_and_less_until_it_has_something() {
        let (ms, mut rests) = (Duration::from_millis, Rests::new());
        let mut after = |is_empty, took| rests.after(is_empty, ms(took)).as_millis();
        let empty: Vec<u128> = (0..8).map(|_| after(true, 0)).collect();
        assert_eq!(empty, [10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(after(false, 0), 0, "there may be more");
        assert_eq!(after(true, 4), 6);
        assert_eq!(after(true, 100), 0, "it waited by itself");
        assert_eq!(after(true, 0), 10);
    }
}
