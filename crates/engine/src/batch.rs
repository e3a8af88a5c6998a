//! Batches: commands that arrive together are submitted together, with one look at the clock.
//!
//! A store that groups by itself (the embedded one) takes as many submits at once as there are
//! callers, and every command goes straight through. A store that pays per submit (PostgreSQL)
//! takes a few; while they are under way the next commands gather and go as one batch. A further
//! submit begins only when enough has gathered to be worth it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windrow_core::command::{Answer, Command, Request};
use windrow_core::ports::{Now, Store, StoreError, Work};

use crate::clock::Clock;

type Reply = Result<Answer<Work>, StoreError>;

/// Commands in one batch at most.
const BATCH_MAX: usize = 256;
/// Items in a batch for which it is worth to have another submit under way.
const WORTH_IT: usize = 64;

/// Gathers commands while submits are under way.
#[derive(Debug)]
pub(crate) struct Batcher {
    /// Submits at once.
    width: usize,
    intake: Arc<Mutex<Intake>>,
}

#[derive(Debug, Default)]
struct Intake {
    under_way: usize,
    waiting: VecDeque<(Request, oneshot::Sender<Told>)>,
    /// Items that those who wait name.
    items: usize,
}

impl Intake {
    /// Whether a request of so many items begins a submit at once, with whatever waits.
    fn may_begin(&self, items: usize, width: usize) -> bool {
        self.under_way == 0
            || width == usize::MAX
            || (self.under_way < width && self.items + items >= WORTH_IT)
    }

    fn take(&mut self, count: usize) -> Vec<(Request, oneshot::Sender<Told>)> {
        let taken: Vec<_> = self.waiting.drain(..count).collect();
        self.items -= taken.iter().map(|(request, _)| items_of(request)).sum::<usize>();
        taken
    }
}

/// How many items a request names, takes or brings.
fn items_of(request: &Request) -> usize {
    match &request.command {
        Command::Enqueue(items) => items.len(),
        Command::Claim(claim) => claim.max,
        Command::Settle { items, .. } => items.len(),
        _ => 1,
    }
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
    pub(crate) fn new(width: usize) -> Batcher {
        Batcher { width: width.max(1), intake: Arc::default() }
    }

    /// Submits a request, alone or with others, and gives its answer.
    pub(crate) async fn submit<S: Store, C: Clock>(
        &self,
        store: &S,
        clock: &C,
        request: Request,
    ) -> Reply {
        let receiver = {
            let mut intake = self.intake.lock();
            let items = items_of(&request);
            if intake.may_begin(items, self.width) {
                intake.under_way += 1;
                Err((request, Turn(Some(Arc::clone(&self.intake)))))
            } else {
                let (sender, receiver) = oneshot::channel();
                intake.items += items;
                intake.waiting.push_back((request, sender));
                Ok(receiver)
            }
        };
        match receiver {
            Err((request, turn)) => self.lead(store, clock, request, turn).await,
            Ok(receiver) => match receiver.await {
                Ok(Told::Answer(answer)) => answer,
                Ok(Told::Lead(request, turn)) => self.lead(store, clock, request, turn).await,
                Err(_) => Err(left_alone()),
            },
        }
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
            intake.take(count).into_iter().unzip()
        };
        batch.push(own);
        let now = if store.keeps_time() { Now::Database } else { Now::Given(clock.now()) };
        let mut answers = match store.submit(batch, now).await {
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

/// The right to submit. Given to somebody who waits when dropped, even if it is dropped because
/// its caller went away, so that nobody is left waiting. None once somebody else has it.
#[derive(Debug)]
struct Turn(Option<Arc<Mutex<Intake>>>);

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(intake) = self.0.take() else { return };
        loop {
            let next = {
                let mut intake = intake.lock();
                let first = usize::from(!intake.waiting.is_empty());
                let next = intake.take(first).pop();
                intake.under_way -= usize::from(next.is_none());
                next
            };
            let Some((request, sender)) = next else { return };
            let turn = Turn(Some(Arc::clone(&intake)));
            match sender.send(Told::Lead(request, turn)) {
                Err(Told::Lead(_, mut turn)) => turn.0 = None,
                _ => return,
            }
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::OutcomeUnknown("the store gave no answer".into())
}

fn left_alone() -> StoreError {
    StoreError::OutcomeUnknown("the caller that submitted this batch went away".into())
}
