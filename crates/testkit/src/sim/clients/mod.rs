//! Clients: producers, workers and operators, each a future that talks to the engine.

mod operator;
mod producer;
mod worker;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use windrow_core::command::Claim;
use windrow_core::ports::StoreError;
use windrow_core::{RequestId, Timestamp};
use windrow_engine::{Clock, Engine, Failure};

use super::plan::Plan;
use super::tasks::Job;
use super::time::SimTime;
use super::watch::{Shared, Watched};
use crate::random::Splitmix;

/// The engine under test.
pub(crate) type Simulated = Engine<Watched, SimTime>;

/// What clients of one life share.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) engine: Arc<Simulated>,
    pub(crate) ledger: Shared,
    pub(crate) plan: Plan,
    /// What each client is doing.
    pub(crate) doing: RefCell<Vec<Doing>>,
    /// Live items when they were last counted.
    pub(crate) live: Cell<u64>,
    hush: Cell<bool>,
    hushed: RefCell<Vec<Waker>>,
    requests: Cell<u64>,
}

/// What a client is doing.
#[derive(Clone, Debug, Default)]
pub(crate) enum Doing {
    /// It was told to be quiet, waits for its own time, or is gone.
    #[default]
    Nothing,
    /// It asked something and must get an answer.
    Asking(&'static str),
    /// It waits for work.
    Waiting { claim: Claim, until: Timestamp },
}

impl Desk {
    pub(crate) fn new(engine: Arc<Simulated>, ledger: Shared, plan: Plan, life: u64) -> Desk {
        Desk {
            engine,
            ledger,
            doing: RefCell::new(vec![Doing::Nothing; plan.clients()]),
            plan,
            live: Cell::new(0),
            hush: Cell::new(false),
            hushed: RefCell::default(),
            requests: Cell::new(life << 32),
        }
    }

    /// A client under a number, ready to run.
    pub(crate) fn client(self: &Rc<Desk>, number: usize, seed: u64) -> Job {
        let client = Client { desk: Rc::clone(self), number, dice: Splitmix(seed) };
        let Plan { producers, workers, .. } = self.plan;
        if number < producers {
            Box::pin(client.produce())
        } else if number < producers + workers {
            Box::pin(client.work())
        } else {
            Box::pin(client.operate())
        }
    }

    /// Asks clients to begin nothing new.
    pub(crate) fn hush(&self) {
        self.hush.set(true);
    }

    /// Lets them go on.
    pub(crate) fn unhush(&self) {
        self.hush.set(false);
        self.hushed.take().into_iter().for_each(Waker::wake);
    }

    fn next_request(&self) -> RequestId {
        let number = self.requests.get() + 1;
        self.requests.set(number);
        RequestId(number.into())
    }
}

/// One client.
struct Client {
    desk: Rc<Desk>,
    number: usize,
    dice: Splitmix,
}

/// The store stopped; there is nothing more to do in this life.
struct Stopped;

impl Client {
    fn now(&self) -> Timestamp {
        self.desk.engine.clock().now()
    }

    fn does(&self, doing: Doing) {
        self.desk.doing.borrow_mut()[self.number] = doing;
    }

    async fn sleep(&self, ms: u64) {
        self.does(Doing::Nothing);
        let clock = self.desk.engine.clock();
        clock.sleep_until(clock.now().plus(ms)).await;
    }

    /// Waits for a while of its own, and while clients are to be quiet.
    async fn rest(&mut self, at_most_ms: usize) {
        let ms = self.dice.below(at_most_ms) as u64;
        if ms > 0 && self.dice.percent(70) {
            self.sleep(ms).await;
        }
        self.does(Doing::Nothing);
        let desk = Rc::clone(&self.desk);
        std::future::poll_fn(|cx| {
            if desk.hush.get() {
                desk.hushed.borrow_mut().push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Asks something that is answered sooner or later. None if it was refused as a whole, or if
    /// nobody knows.
    async fn ask<T>(
        &self,
        verb: &'static str,
        asking: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Option<T>, Stopped> {
        self.does(Doing::Asking(verb));
        let answer = asking.await;
        self.does(Doing::Nothing);
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Refused(_) | Failure::Overloaded { .. }) => Ok(None),
            Err(Failure::Store(StoreError::OutcomeUnknown(_))) => self.or_stopped(),
            Err(Failure::Store(_)) => Err(Stopped),
        }
    }

    fn or_stopped<T>(&self) -> Result<Option<T>, Stopped> {
        match self.desk.engine.store().store.poisoned() {
            Some(_) => Err(Stopped),
            None => Ok(None),
        }
    }
}
