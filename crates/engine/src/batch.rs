//! Batches: commands that arrive together are submitted together, with one look at the clock.
//!
//! A store that groups by itself (the embedded one) takes as many submits at once as there are
//! callers, and every command goes straight through. A store that pays per submit (PostgreSQL)
//! takes a few; while they are under way the next commands gather and go as one batch. A further
//! submit begins when enough has gathered to be worth it, or when somebody has waited for long: one
//! batch that waits for a lock in the database must not hold up everybody else.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windrow_core::Timestamp;
use windrow_core::command::{Answer, Request};
use windrow_core::ports::{Now, Store, StoreError, Work};

use crate::clock::{Clock, before};
use crate::observe::Figures;

type Reply = Result<Answer<Work>, StoreError>;

/// Commands in one batch at most.
const BATCH_MAX: usize = 256;
/// Items for which it is worth to have another submit under way: writing them takes longer than
/// what every submit costs, whatever is in it.
const ITEMS_WORTH_IT: usize = 64;
/// Requests for which it is. Fewer had better share one submit and its commit; so many share them
/// well enough, and need not wait for what the others wait for.
const REQUESTS_WORTH_IT: usize = 8;
/// Who has waited for so long waits for a submit that is stuck or slow, not for company: several
/// times what a submit takes when nothing holds it up.
const PATIENCE_MS: u64 = 20;

/// Gathers commands while submits are under way.
#[derive(Debug)]
pub(crate) struct Batcher {
    /// Submits at once.
    width: usize,
    intake: Arc<Mutex<Intake>>,
    figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Intake {
    under_way: usize,
    /// Who came first is in front.
    waiting: VecDeque<Waiting>,
    /// Items that those who wait name.
    items: usize,
    /// Somebody has waited for too long and could not begin: the next turn is for them.
    has_late: bool,
}

/// Somebody who waits for a submit to begin.
#[derive(Debug)]
struct Waiting {
    since: Timestamp,
    request: Request,
    sender: oneshot::Sender<Told>,
}

impl Intake {
    /// Whether a request of so many items begins a submit at once, with whatever waits.
    fn may_begin(&self, items: usize, width: usize) -> bool {
        self.under_way == 0
            || width == usize::MAX
            || (self.under_way < width && self.is_worth_it(1, items))
    }

    /// Whether those who wait, and so many more, are worth a submit beside others.
    fn is_worth_it(&self, requests: usize, items: usize) -> bool {
        self.waiting.len() + requests >= REQUESTS_WORTH_IT || self.items + items >= ITEMS_WORTH_IT
    }

    /// Whether somebody has waited for too long.
    fn is_late(&self, now: Timestamp) -> bool {
        self.waiting.front().is_some_and(|first| now.since(first.since) >= PATIENCE_MS)
    }

    fn take(&mut self, count: usize) -> Vec<Waiting> {
        let taken: Vec<_> = self.waiting.drain(..count).collect();
        self.has_late &= !self.waiting.is_empty();
        self.items -= taken.iter().map(|one| one.request.command.items()).sum::<usize>();
        taken
    }
}

/// What becomes of a request that arrives.
#[derive(Debug)]
enum Entered {
    Begins(Request, Turn),
    /// Since when it waits, and where it will hear.
    Waits(Timestamp, oneshot::Receiver<Told>),
}

/// What a waiting caller is told.
#[derive(Debug)]
enum Told {
    Answer(Reply),
    /// It is its turn to submit, with its own request and whatever else waits. If it went away
    /// in the meantime, the turn goes on to the next with this message.
    Lead(Request, Turn),
}

impl Batcher {
    pub(crate) fn new(width: usize, figures: Arc<Figures>) -> Batcher {
        Batcher { width: width.max(1), intake: Arc::default(), figures }
    }

    /// Submits a request, alone or with others, and gives its answer.
    pub(crate) async fn submit<S: Store, C: Clock>(
        &self,
        store: &S,
        clock: &C,
        request: Request,
    ) -> Reply {
        let (since, receiver) = match self.enter(clock, request) {
            Entered::Begins(request, turn) => return self.lead(store, clock, request, turn).await,
            Entered::Waits(since, receiver) => (since, receiver),
        };
        match self.hear(clock, since, receiver).await {
            Some(Told::Answer(answer)) => answer,
            Some(Told::Lead(request, turn)) => self.lead(store, clock, request, turn).await,
            None => Err(left_alone()),
        }
    }

    fn enter(&self, clock: &impl Clock, request: Request) -> Entered {
        let mut intake = self.intake.lock();
        let items = request.command.items();
        if intake.may_begin(items, self.width) {
            intake.under_way += 1;
            return Entered::Begins(request, self.turn());
        }
        let (sender, receiver) = oneshot::channel();
        let since = clock.now();
        intake.items += items;
        intake.waiting.push_back(Waiting { since, request, sender });
        Entered::Waits(since, receiver)
    }

    /// What somebody is told who waits since a moment. While it waits, it looks once whether it is
    /// time for another submit.
    async fn hear<C: Clock>(
        &self,
        clock: &C,
        since: Timestamp,
        mut receiver: oneshot::Receiver<Told>,
    ) -> Option<Told> {
        // Once is enough: if no further submit may begin by then, the next that ends gives its
        // turn to whoever came first.
        if self.width > 1 {
            match before(clock, since.plus(PATIENCE_MS), &mut receiver).await {
                Some(told) => return told.ok(),
                None => self.relieve(clock.now()),
            }
        }
        receiver.await.ok()
    }

    /// Gives a turn to the first who waits, if that takes too long and the store takes one more.
    /// Who looks may be under way already, with others; that does not make anybody late.
    fn relieve(&self, now: Timestamp) {
        let begins = {
            let mut intake = self.intake.lock();
            let is_late = intake.is_late(now);
            let begins = is_late && intake.under_way < self.width;
            intake.under_way += usize::from(begins);
            intake.has_late = is_late && !begins;
            begins
        };
        if begins {
            pass_on(&self.intake, |_| true);
        }
    }

    /// A turn that was counted as under way.
    fn turn(&self) -> Turn {
        Turn(Some(Arc::clone(&self.intake)))
    }

    /// Submits a request together with all that wait. Then the turn goes to who waits by then.
    async fn lead<S: Store, C: Clock>(
        &self,
        store: &S,
        clock: &C,
        own: Request,
        _turn: Turn,
    ) -> Reply {
        let (mut batch, senders): (Vec<Request>, Vec<_>) = {
            let mut intake = self.intake.lock();
            let count = intake.waiting.len().min(BATCH_MAX - 1);
            intake.take(count).into_iter().map(|one| (one.request, one.sender)).unzip()
        };
        batch.push(own);
        let at = clock.now();
        let now = if store.keeps_time() { Now::Database } else { Now::Given(at) };
        let micros = clock.micros();
        let answered = store.submit(batch, now).await;
        self.figures.committed(clock.micros().saturating_sub(micros), at);
        let mut answers = match answered {
            Ok(answers) => answers,
            Err(error) => {
                for sender in senders {
                    let _caller_may_be_gone = sender.send(Told::Answer(Err(error.clone())));
                }
                return Err(error);
            }
        };
        let own = answers.pop().ok_or_else(no_answer);
        for (sender, answer) in senders.into_iter().zip(answers) {
            let _caller_may_be_gone = sender.send(Told::Answer(Ok(answer)));
        }
        own
    }
}

/// The right to submit. Passed on when it is dropped, even if it is dropped because its caller went
/// away, so that nobody is left waiting. None once somebody else has it.
#[derive(Debug)]
struct Turn(Option<Arc<Mutex<Intake>>>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(intake) = self.0.take() {
            let alone = |intake: &Intake| intake.under_way == 1;
            pass_on(&intake, |it| alone(it) || it.has_late || it.is_worth_it(0, 0));
        }
    }
}

/// Gives a turn to the first who waits, if one shall go on; else there is one less under way. Those
/// who go on waiting do so for a submit that is, or for company.
fn pass_on(intake: &Arc<Mutex<Intake>>, goes_on: impl Fn(&Intake) -> bool) {
    loop {
        let next = {
            let mut intake = intake.lock();
            let first = usize::from(!intake.waiting.is_empty() && goes_on(&intake));
            let next = intake.take(first).pop();
            intake.under_way -= usize::from(next.is_none());
            next
        };
        let Some(Waiting { request, sender, .. }) = next else { return };
        let turn = Turn(Some(Arc::clone(intake)));
        match sender.send(Told::Lead(request, turn)) {
            Err(Told::Lead(_, mut turn)) => turn.0 = None,
            _ => return,
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::OutcomeUnknown("the store gave no answer".into())
}

fn left_alone() -> StoreError {
    StoreError::OutcomeUnknown("the caller that submitted this batch went away".into())
}
