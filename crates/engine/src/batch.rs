//! Batches: commands that arrive together are submitted together, with one look at the clock.
//!
//! A store that groups by itself (the embedded one) takes as many submits at once as there are
//! callers, and every command goes straight through. A store that pays per submit (PostgreSQL)
//! takes a few; while they are under way the next commands gather and go as one batch.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use windrow_core::command::{Answer, Request};
use windrow_core::ports::{Now, Store, StoreError, Work};

use crate::clock::Clock;

type Reply = Result<Answer<Work>, StoreError>;

/// Commands in one batch at most.
const BATCH_MAX: usize = 256;

/// Gathers commands while submits are under way.
#[derive(Debug)]
pub(crate) struct Batcher {
    /// Submits at once.
    width: usize,
    intake: Mutex<Intake>,
}

#[derive(Debug, Default)]
struct Intake {
    under_way: usize,
    waiting: VecDeque<(Request, oneshot::Sender<Reply>)>,
}

impl Batcher {
    pub(crate) fn new(width: usize) -> Batcher {
        Batcher { width: width.max(1), intake: Mutex::default() }
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
            if intake.under_way < self.width && intake.waiting.is_empty() {
                intake.under_way += 1;
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                intake.waiting.push_back((request.clone(), sender));
                Some(receiver)
            }
        };
        let Some(receiver) = receiver else {
            let turn = Turn(self);
            let mut answers = store.submit(vec![request], Now::Given(clock.now())).await?;
            self.serve_waiting(store, clock, turn).await;
            return answers.pop().ok_or_else(no_answer);
        };
        receiver.await.unwrap_or_else(|_| Err(left_alone()))
    }

    /// Submits what gathered in the meantime, until nothing waits.
    async fn serve_waiting<S: Store, C: Clock>(&self, store: &S, clock: &C, turn: Turn<'_>) {
        loop {
            let (requests, senders): (Vec<Request>, Vec<_>) = {
                let mut intake = self.intake.lock();
                let count = intake.waiting.len().min(BATCH_MAX);
                intake.waiting.drain(..count).unzip()
            };
            if requests.is_empty() {
                drop(turn);
                return;
            }
            match store.submit(requests, Now::Given(clock.now())).await {
                Ok(answers) => {
                    for (sender, answer) in senders.into_iter().zip(answers) {
                        let _caller_may_be_gone = sender.send(Ok(answer));
                    }
                }
                Err(error) => {
                    for sender in senders {
                        let _caller_may_be_gone = sender.send(Err(error.clone()));
                    }
                }
            }
        }
    }
}

/// The right to submit; given back when dropped.
struct Turn<'a>(&'a Batcher);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.intake.lock().under_way -= 1;
    }
}

fn no_answer() -> StoreError {
    StoreError::OutcomeUnknown("the store gave no answer".into())
}

fn left_alone() -> StoreError {
    StoreError::OutcomeUnknown("the caller that submitted this batch went away".into())
}
